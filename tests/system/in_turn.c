/* SPDX-License-Identifier: BSD-3-Clause */
/* Two peers send in turn, both over TCP, or one of them through memory, so that each message arrives on another connection
 * than the last one.  The program counts the polls until a message that has arrived is found.  (A poll that checks other
 * connections only now and then, because each check is a system call, needed tens or thousands of polls.) */
#define TEST_MAIN
#include "harness/test.h"

#include <madeleine.h>
#include <madeleine/runtime.h>

#define LOOKS 16
#define ROUNDS 200

static mad_session_t *session[3]; /* session[0] receives, and the others send */
static mad_channel_t *channel[3];
static mad_peer_t to[3];

static bool sides_open(const char *const drivers[3])
{
    const void *address;
    size_t len;
    for (int i = 0; i < 3; i++) {
        setenv("MAD_DRIVERS", drivers[i], 1);
        if (!CHECK_OK(mad_open("sixteen bytes 16", 16, &session[i])) ||
            !CHECK_OK(mad_channel_open(session[i], "in turn", &channel[i])))
            return false;
    }
    CHECK_OK(mad_address(session[0], &address, &len));
    for (int i = 1; i < 3; i++)
        if (!CHECK_OK(mad_peer_add(session[i], address, len, &to[i])))
            return false;
    return true;
}

static void send_from(int i)
{
    char text[8] = "message";
    mad_message_t *message = mad_begin_packing(channel[i], to[i]);
    mad_pack(message, text, sizeof text, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_packing(message));
}

static void receive_end(mad_message_t *message)
{
    char text[8];
    mad_unpack(message, text, sizeof text, MAD_SEND_CHEAPER, MAD_RECEIVE_CHEAPER);
    CHECK_OK(mad_end_unpacking(message));
}

static bool look_opened(void)
{
    mad_message_t *message;
    if (mad_begin_unpacking_poll(channel[0], MAD_ANY_SOURCE, &message))
        return false;
    receive_end(message);
    return true;
}

static bool look_glanced(void)
{
    mad_arrival_t arrival;
    if (!mad_channel_poll(channel[0], &arrival, 1))
        return false;
    if (arrival.message) /* NULL: the message has already ended */
        CHECK_OK(mad_end_unpacking(arrival.message));
    return true;
}

static void rounds(const char *name, bool (*look)(void))
{
    char text[64];
    snprintf(text, sizeof text, "%s, %s", getenv("MAD_DRIVERS"), name);
    test_begin(text, 60);
    for (int round = 0; round < ROUNDS; round++) {
        int looks = 1;
        send_from(1 + round % 2);
        while (!look())
            looks++;
        CHECK_MSG(looks <= LOOKS, "round %d: %d looks", round, looks);
    }
    test_end();
}

static void in_turn(const char *first, const char *second, const char *third)
{
    test_begin("open", 60);
    if (!sides_open((const char *const[]){first, second, third}))
        exit(1);
    for (int i = 2; i > 0; i--) { /* the peers connect one after the other, the one over TCP first */
        send_from(i);
        receive_end(mad_begin_unpacking(channel[0]));
    }
    test_end();
    rounds("opened", look_opened);
    rounds("glanced", look_glanced);
    for (int i = 2; i >= 0; i--)
        mad_exit(session[i]);
}

int main(void)
{
    in_turn("self,tcp", "self,tcp", "self,tcp");
    in_turn("self,shm,tcp", "self,shm", "self,tcp");
    return test_failures != 0;
}
