/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes without a launcher.  The processes exchange their addresses over a socket pair (a file would do as
 * well), and then a greeting.  Run: ./dynamic */
#include <madeleine.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Exchange addresses with the other process, and add it as a peer.  The transport of the addresses does not matter. */
static mad_status_t meet(mad_session_t *session, int other, mad_peer_t *peer)
{
    unsigned char theirs[4096];
    const void *mine;
    size_t len;
    ssize_t n;
    mad_status_t status = mad_address(session, &mine, &len);
    if (status != MAD_OK)
        return status;
    if (write(other, mine, len) != (ssize_t)len || (n = read(other, theirs, sizeof theirs)) <= 0)
        return MAD_ERR_SYSTEM;
    return mad_peer_add(session, theirs, (size_t)n, peer);
}

static mad_status_t greet(mad_channel_t *channel, mad_peer_t peer)
{
    char text[64] = "good day";
    mad_block_t block = {text, sizeof text, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_status_t status = mad_message_send(channel, peer, &block, 1, NULL);
    if (status == MAD_OK)
        status = mad_message_receive(channel, peer, &block, 1, NULL);
    if (status == MAD_OK)
        printf("the other said: %s\n", text);
    return status;
}

static mad_status_t answer(mad_channel_t *channel)
{
    char text[64] = "";
    mad_message_t *message = mad_begin_unpacking(channel);
    mad_peer_t peer = mad_message_peer(message);
    mad_block_t block = {text, sizeof text, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER};
    mad_status_t status;
    mad_unpack(message, text, sizeof text, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    status = mad_end_unpacking(message);
    if (status != MAD_OK)
        return status;
    strcat(text, " to you too");
    return mad_message_send(channel, peer, &block, 1, NULL);
}

static int run(const unsigned char *key, size_t key_len, int other, int first)
{
    mad_session_t *session;
    mad_channel_t *channel;
    mad_peer_t peer;
    mad_status_t status = mad_open(key, key_len, &session);
    if (status == MAD_OK) {
        status = meet(session, other, &peer);
        if (status == MAD_OK)
            status = mad_channel_open(session, "greetings", &channel);
        if (status == MAD_OK)
            status = first ? greet(channel, peer) : answer(channel);
        mad_exit(session);
    }
    if (status != MAD_OK)
        fprintf(stderr, "dynamic: %s\n", mad_status_text(status));
    return status != MAD_OK;
}

int main(void)
{
    unsigned char key[32];
    int ends[2], code = 1, child;
    pid_t pid;
    if (getrandom(key, sizeof key, 0) != sizeof key || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
        return 1;
    pid = fork(); /* forked before a session exists */
    if (pid < 0)
        return 1;
    child = pid == 0;
    close(ends[!child]);
    code = run(key, sizeof key, ends[child], !child);
    close(ends[child]);
    if (child)
        return code;
    waitpid(pid, &child, 0);
    return code || child;
}
