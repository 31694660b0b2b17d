/* SPDX-License-Identifier: BSD-3-Clause */
/* Instructions of one 8-byte message, begin to end of packing plus begin to end of unpacking with the message already
 * there.  A process sends to itself.  Run under callgrind, which counts between the toggles only:
 *     valgrind --tool=callgrind --collect-atstart=no --callgrind-out-file=F instr
 * and divide the total by the number of messages that is printed.  Without callgrind nothing is counted. */
#include <madeleine.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif
#endif
#ifndef CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_TOGGLE_COLLECT ((void)0) /* then: valgrind --toggle-collect=instr_message */
#endif

#define MESSAGES 1000

/* Not inlined, so that --toggle-collect finds it where the header is missing. */
__attribute__((noinline)) static mad_status_t instr_message(mad_channel_t *channel, const void *from, void *to)
{
    mad_connection_t *cnx = mad_begin_packing(channel, 0);
    mad_pack(cnx, from, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    mad_status_t status = mad_end_packing(cnx);
    if (status)
        return status;
    cnx = mad_begin_unpacking(channel);
    mad_unpack(cnx, to, 8, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    return mad_end_unpacking(cnx);
}

int main(int argc, char **argv)
{
    mad_session_t *session;
    mad_channel_t *channel;
    char *from = malloc(8), *to = malloc(8);
    mad_status_t status = mad_init(&argc, &argv, &session);
    if (!from || !to || status)
        return fprintf(stderr, "instr: %s\n", mad_status_text(status ? status : MAD_ERR_NOMEM)), 1;
    status = mad_channel_open(session, "instr", &channel);
    for (int i = 0; i < 100 && !status; i++) /* connections and memory are there before we count */
        status = instr_message(channel, memcpy(from, "warm up", 8), to);
    for (int i = 0; i < MESSAGES && !status; i++) {
        memcpy(from, "message", 8);
        from[0] = (char)i;
        CALLGRIND_TOGGLE_COLLECT;
        status = instr_message(channel, from, to);
        CALLGRIND_TOGGLE_COLLECT;
        if (!status && memcmp(from, to, 8))
            status = MAD_ERR_PROTOCOL;
    }
    if (status)
        fprintf(stderr, "instr: %s\n", mad_status_text(status));
    else
        printf("{\"messages\": %d}\n", MESSAGES);
    mad_exit(session);
    free(from);
    free(to);
    return status ? 1 : 0;
}
