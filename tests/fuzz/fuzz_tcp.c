/* SPDX-License-Identifier: BSD-3-Clause */
/* The byte stream of a tcp link.  The input: [n] n times [call of the user, or progress], then the stream.  A piece of
 * the stream is written to the socket before each call, and the rest at the end.  So a call that opens a message finds
 * bytes in the socket. */
#include "fuzz.h"
#include "world.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void begin(void)
{
    world_driver("tcp");
}

static void feed(world_t *w, input_t *in, size_t len)
{
    ssize_t n;
    if (len > input_left(in))
        len = input_left(in);
    n = len ? send(w->fd, in->at, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    in->at += n > 0 ? n : 0;
}

/* Read and discard the bytes that the library has sent, so that its socket does not fill up. */
static void drain(const world_t *w)
{
    char bytes[4096];
    while (recv(w->fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static void run(const uint8_t *data, size_t size)
{
    input_t in = {data, data + size}, calls;
    uint8_t n;
    world_t w;
    if (!world_open(&w) || world_link(&w, true) != MADI_GATE_UP)
        abort();
    n = take8(&in);
    calls = (input_t){in.at, in.at + (n < input_left(&in) ? n : input_left(&in))};
    in.at = calls.end;
    while (input_left(&calls)) {
        uint8_t what = take8(&calls);
        feed(&w, &in, (size_t)(what % 29) + 1);
        if ((what & 15) != 1) /* a call that opens a message may be the first to read the socket */
            world_progress(&w);
        world_step(&w, what);
        drain(&w);
    }
    while (input_left(&in) && world_up(&w)) {
        feed(&w, &in, 65536);
        world_progress(&w);
    }
    world_close(&w);
}

const target_t fuzz_tcp = {"tcp", begin, run};
