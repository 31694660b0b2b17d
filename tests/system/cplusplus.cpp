// SPDX-License-Identifier: BSD-3-Clause
// A C++ program over all public headers: it sends to itself, and waits in user-level threads.
#include <madeleine.h>
#include <madeleine/runtime.h>
#include <marcel.h>

#include <cstdio>
#include <cstring>
#ifdef OLD_NAMES
#include <madeleine/legacy.h>
#endif

namespace
{

marcel_mutex_t mutex = MARCEL_MUTEX_INITIALIZER;
marcel_mutex_t recursive = MARCEL_RECURSIVE_MUTEX_INITIALIZER;
marcel_mutex_t checked = MARCEL_ERRORCHECK_MUTEX_INITIALIZER;
marcel_cond_t cond = MARCEL_COND_INITIALIZER;
marcel_rwlock_t rwlock = MARCEL_RWLOCK_INITIALIZER;
marcel_completion_t completion = MARCEL_COMPLETION_INITIALIZER;
marcel_once_t once = MARCEL_ONCE_INIT;
int steps, cleaned;
bool failed;

void require(bool held, const char *what)
{
    if (!held) {
        std::fprintf(stderr, "%s\n", what);
        failed = true;
    }
}

void step()
{
    steps++;
}

void clean(void *arg)
{
    *static_cast<int *>(arg) += 1;
}

void *run(void *arg)
{
    marcel_cleanup_push(clean, arg);
    marcel_once(&once, step);
    marcel_mutex_lock(&mutex);
    steps++;
    marcel_cond_signal(&cond);
    marcel_mutex_unlock(&mutex);
    marcel_completion_wait(&completion);
    marcel_testcancel();
    marcel_cleanup_pop(0);
    return arg;
}

void threads()
{
    marcel_t thread;
    void *result = nullptr;
    require(marcel_create(&thread, nullptr, run, &cleaned) == 0, "no thread");
    marcel_mutex_lock(&mutex);
    while (steps < 2)
        marcel_cond_wait(&cond, &mutex);
    marcel_mutex_unlock(&mutex);
    require(marcel_mutex_lock(&recursive) == 0 && marcel_mutex_unlock(&recursive) == 0, "recursive");
    require(marcel_mutex_lock(&checked) == 0 && marcel_mutex_unlock(&checked) == 0, "checked");
    require(marcel_rwlock_rdlock(&rwlock) == 0 && marcel_rwlock_unlock(&rwlock) == 0, "rwlock");
    require(marcel_cancel(thread) == 0, "cancel");
    marcel_completion_complete(&completion);
    require(marcel_join(thread, &result) == 0 && result == MARCEL_CANCELED && cleaned == 1, "join");
    require(marcel_fini() == 0, "fini");
}

mad_handled_t on_message(mad_channel_t *, mad_message_t *message, void *arg)
{
    int *value = static_cast<int *>(arg);
    require(mad_unpack_try(message, value, sizeof *value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS) == MAD_OK, "unpack");
    return MAD_CONSUMED;
}

void messages(mad_session_t *session, mad_channel_t *channel)
{
    int value = 42, got = 0;
    mad_block_t block = {&value, sizeof value, MAD_SEND_SAFER, MAD_RECEIVE_EXPRESS};
    mad_request_t *request = nullptr;
    mad_arrival_t arrival;
    mad_message_t *message = mad_begin_packing(channel, mad_rank(session));
    mad_pack(message, &value, sizeof value, MAD_SEND_CHEAPER, MAD_RECEIVE_EXPRESS);
    require(mad_end_packing(message) == MAD_OK, "send");
    while (!mad_channel_poll(channel, &arrival, 1))
        mad_progress(session);
    if (arrival.base)
        std::memcpy(&got, arrival.base, sizeof got);
    if (arrival.message)
        mad_message_drop(arrival.message);
    require(got == value, "value");
    got = 0;
    mad_channel_handler_set(channel, on_message, &got);
    require(mad_message_send(channel, 0, &block, 1, &request) == MAD_OK, "request");
    require(mad_request_wait(&request, MAD_FOREVER) == MAD_OK, "wait");
    while (!got)
        mad_progress(session);
    mad_channel_handler_set(channel, nullptr, nullptr);
    require(mad_begin_unpacking_within(channel, MAD_ANY_SOURCE, 0, &message) == MAD_ERR_AGAIN, "nothing");
#ifdef OLD_NAMES
    p_mad_connection_t cnx = mad_begin_packing(channel, 0);
    mad_pack(cnx, &value, sizeof value, send_CHEAPER, receive_CHEAPER);
    require(mad_end_packing_request(cnx, &request) == MAD_OK, "old request");
    mad_request_callback(request, nullptr, nullptr);
    mad_connection_t *in = nullptr;
    while (mad_begin_unpacking_timed(channel, 0, MAD_GLANCE, &in) == MAD_ERR_AGAIN)
        mad_progress(session);
    mad_drop_unpacking(in);
#endif
}

} // namespace

int main()
{
    mad_session_t *session = nullptr;
    mad_channel_t *channel = nullptr;
    require(mad_open("0123456789abcdef", 16, &session) == MAD_OK, "session");
    require(session && mad_channel_open(session, "c++", &channel) == MAD_OK, "channel");
    if (channel)
        messages(session, channel);
    mad_exit(session);
    threads();
    return failed;
}
