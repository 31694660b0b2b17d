/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel TLS: the kernel makes the records that a TCP socket sends, so that payload is encrypted on its way into the kernel
 * instead of being encrypted and then copied.  Received records are still opened by seal_record.c.
 *
 * Not every kernel with kernel TLS can change keys (Linux 6.14 can), and a connection must be able to change its key.
 * So the kernel has to pass a trial before it gets the first link.  The bytes that the kernel sends on a pair of sockets of
 * this process, before and after an update of the key, must open by seal_record.c.  If the kernel fails, seal_record.c makes
 * the records; nothing else is different. */
#include "base/knob.h"
#include "base/own.h"
#include "base/random.h"
#include "core/security/seal_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#define TRIAL_TEXT ((size_t)3 * MADI_SEAL_TEXT + 100) /* bytes; several records */
#define TRIAL_MS 200

/* Write the key of the sending direction in the form that the kernel takes.  Return the length; 0 if the kernel lacks this
 * cipher. */
static size_t info_make(const madi_seal_t *s, const unsigned char *key, void *to)
{
    struct tls12_crypto_info_aes_gcm_128 *small = to;
    struct tls12_crypto_info_aes_gcm_256 *big = to;
    unsigned char seq[8];
    for (int i = 0; i < 8; i++)
        seq[7 - i] = (unsigned char)(s->tx.seq >> 8 * i);
    if (s->ctx->suite->id[1] == 1) {
        small->info = (struct tls_crypto_info){TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_128};
        memcpy(small->key, key, sizeof small->key);
        memcpy(small->salt, s->tx.iv, sizeof small->salt);
        memcpy(small->iv, s->tx.iv + sizeof small->salt, sizeof small->iv);
        memcpy(small->rec_seq, seq, sizeof seq);
        return sizeof *small;
    }
    if (s->ctx->suite->id[1] != 2)
        return 0;
    big->info = (struct tls_crypto_info){TLS_1_3_VERSION, TLS_CIPHER_AES_GCM_256};
    memcpy(big->key, key, sizeof big->key);
    memcpy(big->salt, s->tx.iv, sizeof big->salt);
    memcpy(big->iv, s->tx.iv + sizeof big->salt, sizeof big->iv);
    memcpy(big->rec_seq, seq, sizeof seq);
    return sizeof *big;
}

static bool key_give(const madi_seal_t *s, int fd)
{
    union {
        struct tls12_crypto_info_aes_gcm_128 small;
        struct tls12_crypto_info_aes_gcm_256 big;
    } info = {0};
    unsigned char key[EVP_MAX_KEY_LENGTH];
    size_t len = 0;
    bool done;
    if (madi_seal_tx_key(s, key))
        len = info_make(s, key, &info);
    done = len && !setsockopt(fd, SOL_TLS, TLS_TX, &info, (socklen_t)len);
    OPENSSL_cleanse(&info, sizeof info);
    OPENSSL_cleanse(key, sizeof key);
    return done;
}

/* Send a record that is not payload.  Return what sendmsg returns. */
static ssize_t record_send(int fd, unsigned char type, const void *bytes, size_t len)
{
    struct iovec vec = {(void *)(uintptr_t)bytes, len};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(1)];
    } control = {0};
    struct msghdr msg = {.msg_iov = &vec, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    c->cmsg_level = SOL_TLS;
    c->cmsg_type = TLS_SET_RECORD_TYPE;
    c->cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(c) = type;
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool madi_seal_kernel_update(madi_seal_t *s, int fd)
{
    static const unsigned char message[5] = {SEAL_KEY_UPDATE, 0, 0, 1, 0};
    ssize_t n = record_send(fd, SEAL_HANDSHAKE, message, sizeof message);
    if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS))
        return true; /* if KeyUpdate cannot be sent now, it is tried again with the next record */
    if (n != sizeof message || !madi_seal_tx_next(s) || !key_give(s, fd))
        return false;
    s->kernel_records = 0;
    atomic_store_explicit(&s->update_wanted, false, memory_order_relaxed);
    return true;
}

void madi_seal_kernel_end(int fd)
{
    static const unsigned char alert[2] = {1, 0};
    (void)!record_send(fd, SEAL_ALERT, alert, sizeof alert);
}

/* ---- The trial ---------------------------------------------------------------------------------------------------- */

/* Connect two sockets over loopback.  Return false if that is not possible. */
static bool pair_make(int fd[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = madi_fd_own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    bool done;
    fd[0] = madi_fd_own(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    fd[1] = -1;
    done = listener >= 0 && fd[0] >= 0 && !bind(listener, (struct sockaddr *)&at, len) && !listen(listener, 1) &&
           !getsockname(listener, (struct sockaddr *)&at, &len) && !connect(fd[0], (struct sockaddr *)&at, len);
    if (done)
        fd[1] = madi_fd_own(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
    if (listener >= 0)
        madi_fd_close(listener);
    return done && fd[1] >= 0;
}

/* Receive and open records until total bytes of payload have arrived; true if they equal the bytes that were sent. */
static bool trial_receive(madi_seal_t *s, int fd, const unsigned char *want, size_t total)
{
    unsigned char text[MADI_SEAL_TEXT];
    size_t got = 0, len, room;
    while (got < total) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        bool broken;
        void *to;
        ssize_t n;
        while (madi_seal_peek(s, &broken)) {
            madi_seal_next_t next = madi_seal_open(s, text, &len);
            if (next != MADI_SEAL_PAYLOAD && next != MADI_SEAL_OTHER)
                return false;
            if (next == MADI_SEAL_PAYLOAD && (len > total - got || memcmp(text, want + got, len) != 0))
                return false;
            got += next == MADI_SEAL_PAYLOAD ? len : 0;
        }
        if (broken || (got < total && poll(&p, 1, TRIAL_MS) <= 0))
            return false;
        if (got == total)
            break;
        to = madi_seal_room(s, &room);
        n = recv(fd, to, room, MSG_DONTWAIT);
        if (n <= 0)
            return false;
        madi_seal_received(s, (size_t)n);
    }
    return true;
}

/* Send payload before and after an update of the key.  Return true if all of it opens. */
static bool trial_run(madi_seal_t *from, madi_seal_t *to, const int fd[2], unsigned char *text)
{
    for (int round = 0; round < 2; round++)
        if ((round && !madi_seal_kernel_update(from, fd[0])) ||
            send(fd[0], text, TRIAL_TEXT, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)TRIAL_TEXT ||
            !trial_receive(to, fd[1], text, TRIAL_TEXT))
            return false;
    return madi_seal_updates(to, false) == 1;
}

static bool kernel_passes_trial(madi_seal_ctx_t *ctx)
{
    madi_seal_t *from = madi_seal_new(ctx, true), *to = madi_seal_new(ctx, false);
    unsigned char *text = malloc(TRIAL_TEXT);
    int fd[2] = {-1, -1};
    bool good = from && to && text && madi_random(from->client_secret, SEAL_HASH_MAX) &&
                madi_random(from->server_secret, SEAL_HASH_MAX) && madi_random(text, TRIAL_TEXT);
    if (good) {
        memcpy(to->client_secret, from->client_secret, SEAL_HASH_MAX);
        memcpy(to->server_secret, from->server_secret, SEAL_HASH_MAX);
        good = madi_seal_keys_set(from) && madi_seal_keys_set(to) && pair_make(fd) &&
               !setsockopt(fd[0], IPPROTO_TCP, TCP_ULP, "tls", 4) && key_give(from, fd[0]) && trial_run(from, to, fd, text);
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            madi_fd_close(fd[i]);
    free(text);
    madi_seal_free(from);
    madi_seal_free(to);
    return good;
}

/* True if the kernel lists TLS.  (A test by setsockopt could load a module.) */
static bool kernel_lists_tls(void)
{
    char line[256] = "";
    FILE *f = fopen("/proc/sys/net/ipv4/tcp_available_ulp", "re");
    bool found = false;
    if (f && fgets(line, sizeof line, f))
        for (char *rest = line, *word; (word = strsep(&rest, " \n"));)
            found |= !strcmp(word, "tls");
    if (f)
        fclose(f);
    return found;
}

void madi_seal_kernel_try(madi_seal_ctx_t *ctx)
{
    ctx->kernel = madi_knob_int(MADI_KNOB_SEAL_KERNEL) && kernel_lists_tls() && kernel_passes_trial(ctx);
}

bool madi_seal_kernel_begin(madi_seal_t *s, int fd)
{
    if (!s->ctx->kernel || s->out_at < s->out_n || setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 4))
        return false;
    s->in_kernel = key_give(s, fd);
    return s->in_kernel; /* if the kernel has no key, the socket sends unencrypted bytes, as before */
}

bool madi_seal_kernel_count(madi_seal_t *s, int fd, size_t len)
{
    if (MADI_UNLIKELY(s->kernel_records >= s->rekey || atomic_load_explicit(&s->update_wanted, memory_order_relaxed)) &&
        !madi_seal_kernel_update(s, fd))
        return false;
    s->kernel_records += len / MADI_SEAL_TEXT + 2;
    return true;
}
