/* SPDX-License-Identifier: BSD-3-Clause */
/* One peer that sends what no honest peer sends: the device goes on with all others, and keeps a bounded amount for it.
 * The linker sends the device's calls for messages to this file, so that the test decides what arrives and what leaves. */
#define TEST_MAIN
#include "harness/test.h"

#include "mpi/device/inside.h"

enum { BAD = 3, GOOD = 5, ROUND = 16 };

/* ---- The library, as the device sees it -------------------------------------------------------------------------- */

/* A message that has been opened. */
typedef struct fake {
    mad_peer_t peer;
    bool here; /* its block has arrived */
    size_t len;
    unsigned char bytes[128];
} fake_t;

static mad_arrival_t arrivals[ROUND]; /* the messages that the next poll returns */
static int n_arrivals;
static int open_messages;
static mad_handler_t handler; /* NULL: the device polls */
static void *handler_arg;
static bool no_memory;
static struct {
    void (*fn)(void *arg, mad_status_t status);
    void *arg;
} queued[2 * MAD_DEV_SERVED_MAX]; /* requests of messages that do not leave */
static int n_queued;

int __wrap_mad_channel_poll(mad_channel_t *channel, mad_arrival_t *to, int max);
mad_status_t __wrap_mad_unpack_borrow(mad_message_t *message, const void **base, size_t *len);
void __wrap_mad_message_drop(mad_message_t *message);
mad_peer_t __wrap_mad_message_peer(const mad_message_t *message);
mad_status_t __wrap_mad_channel_handler_set(mad_channel_t *channel, mad_handler_t fn, void *arg);
mad_status_t __wrap_mad_message_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n);
mad_status_t __wrap_mad_message_send(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                                     mad_request_t **request);
void __wrap_mad_request_detach(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg);
mad_status_t __wrap_mad_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send,
                               mad_receive_mode_t receive);
mad_status_t __wrap_mad_end_unpacking_request(mad_message_t *message, mad_request_t **request);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

int __wrap_mad_channel_poll(mad_channel_t *channel, mad_arrival_t *to, int max)
{
    int n = n_arrivals < max ? n_arrivals : max;
    (void)channel;
    for (int i = 0; i < n; i++) {
        to[i] = arrivals[i];
        if (!to[i].message)
            to[i].base = to[i].inside;
    }
    n_arrivals -= n;
    memmove(arrivals, arrivals + n, (size_t)n_arrivals * sizeof *arrivals);
    return n;
}

mad_status_t __wrap_mad_unpack_borrow(mad_message_t *message, const void **base, size_t *len)
{
    fake_t *f = (fake_t *)message;
    if (!f->here)
        return MAD_ERR_AGAIN;
    *base = f->bytes;
    *len = f->len;
    return MAD_OK;
}

void __wrap_mad_message_drop(mad_message_t *message)
{
    open_messages--;
    free(message);
}

mad_peer_t __wrap_mad_message_peer(const mad_message_t *message)
{
    return ((const fake_t *)message)->peer;
}

mad_status_t __wrap_mad_channel_handler_set(mad_channel_t *channel, mad_handler_t fn, void *arg)
{
    (void)channel;
    handler = fn;
    handler_arg = arg;
    return MAD_OK;
}

mad_status_t __wrap_mad_message_send_now(mad_channel_t *channel, mad_peer_t peer, const struct iovec *pieces, int n)
{
    (void)channel, (void)peer, (void)pieces, (void)n;
    return MAD_ERR_AGAIN;
}

mad_status_t __wrap_mad_message_send(mad_channel_t *channel, mad_peer_t peer, const mad_block_t *blocks, int n,
                                     mad_request_t **request)
{
    (void)channel, (void)peer, (void)blocks, (void)n;
    *request = NULL;
    return MAD_OK;
}

void __wrap_mad_request_detach(mad_request_t *request, void (*fn)(void *arg, mad_status_t status), void *arg)
{
    (void)request;
    if (!CHECK(n_queued < 2 * MAD_DEV_SERVED_MAX))
        return;
    queued[n_queued].fn = fn;
    queued[n_queued++].arg = arg;
}

mad_status_t __wrap_mad_unpack(mad_message_t *message, void *buf, size_t len, mad_send_mode_t send,
                               mad_receive_mode_t receive)
{
    (void)message, (void)buf, (void)len, (void)send, (void)receive;
    return MAD_OK;
}

mad_status_t __wrap_mad_end_unpacking_request(mad_message_t *message, mad_request_t **request)
{
    __wrap_mad_message_drop(message);
    *request = NULL;
    return MAD_OK;
}

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* ---- The device and its program ---------------------------------------------------------------------------------- */

static char log_text[512];  /* the messages received: source and tag */
static mad_status_t failed; /* status of the receive that has failed last */

static void received_log(mad_peer_t source, uint64_t tag)
{
    size_t at = strlen(log_text);
    snprintf(log_text + at, sizeof log_text - at, "%d:%d ", source, (int)tag);
}

static void done_notify(void *arg, const mad_dev_done_t *done)
{
    (void)arg;
    if (done->sent || done->served)
        return;
    if (done->status)
        failed = done->status;
    else
        received_log(done->source, done->tag);
}

static void received_notify(void *arg, void *context, uint64_t flags, const mad_dev_got_t *got)
{
    (void)arg, (void)context, (void)flags;
    received_log(got->source, got->tag);
}

static uint64_t memory[8];

static void *target_hold(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op)
{
    (void)arg, (void)access, (void)op;
    return target->len <= sizeof memory ? memory : NULL;
}

static void target_drop(void *arg, const mad_dev_target_t *target, mad_dev_access_t access, uint8_t op, bool good)
{
    (void)arg, (void)target, (void)access, (void)op, (void)good;
}

static const mad_dev_memory_t own = {.hold = target_hold, .drop = target_drop};

static mad_dev_t *device_open(bool by_handler)
{
    static const unsigned char key[] = "sixteen bytes 16";
    mad_dev_options_t options = {.channel = "device",
                                 .key = key,
                                 .key_len = 16,
                                 .by_handler = by_handler,
                                 .notify = done_notify,
                                 .notify_received = received_notify,
                                 .memory = &own};
    mad_dev_t *dev;
    if (!CHECK_OK(mad_dev_open(&options, &dev)))
        exit(1);
    log_text[0] = 0;
    failed = MAD_OK;
    n_arrivals = open_messages = 0;
    return dev;
}

static void device_close(mad_dev_t *dev)
{
    CHECK_EQ(open_messages, 0);
    mad_dev_close(dev);
    handler = NULL;
}

static void calls(mad_dev_t *dev)
{
    for (int i = 0; i < 8; i++)
        mad_dev_progress(dev);
}

/* Let all queued messages leave, or arrive. */
static void queued_leave(mad_dev_t *dev)
{
    do {
        while (n_queued--)
            if (queued[n_queued].fn)
                queued[n_queued].fn(queued[n_queued].arg, MAD_OK);
        n_queued = 0;
        calls(dev);
    } while (n_queued);
}

static void post(mad_dev_t *dev, mad_peer_t from, int n)
{
    static unsigned char bytes[64];
    struct iovec piece = {bytes, sizeof bytes};
    for (int i = 0; i < n; i++)
        CHECK_OK(mad_dev_receive(
            dev, &(mad_dev_receive_t){
                     .from = from, .pieces = &piece, .n = 1, .ignore = from == MAD_ANY_SOURCE ? UINT64_MAX : 0}));
}

/* Let a message arrive.  late: without its bytes.  Return it; NULL if it has ended. */
static fake_t *arrive(mad_dev_t *dev, mad_peer_t peer, const void *bytes, size_t len, bool late)
{
    bool whole = !late && !handler && len <= sizeof arrivals->inside;
    fake_t *f = whole ? NULL : calloc(1, sizeof *f);
    if (n_arrivals == ROUND)
        calls(dev);
    if (!CHECK(n_arrivals < ROUND && (whole || f)))
        return NULL;
    if (f) {
        *f = (fake_t){.peer = peer, .here = !late, .len = len};
        memcpy(f->bytes, bytes, len);
        open_messages++;
    }
    if (handler) {
        CHECK_EQ(handler(NULL, (mad_message_t *)f, handler_arg), MAD_PARKED);
        return f;
    }
    arrivals[n_arrivals] = (mad_arrival_t){.message = (mad_message_t *)f, .peer = peer, .len = late ? 0 : len};
    if (whole)
        memcpy(arrivals[n_arrivals].inside, bytes, len);
    else
        arrivals[n_arrivals].base = late ? NULL : f->bytes;
    n_arrivals++;
    return f;
}

static fake_t *message_arrive(mad_dev_t *dev, mad_peer_t peer, uint64_t tag, bool late)
{
    wire_envelope_t h = {.kind = KIND_WHOLE, .tag = tag};
    unsigned char block[ENVELOPE_SHORT + 8] = {0};
    memcpy(block, &h, ENVELOPE_SHORT);
    return arrive(dev, peer, block, sizeof block, late);
}

#define CHECK_LOG(text) CHECK_MSG(!strcmp(log_text, text), "received %s, not %s", log_text, text)

static void result(const char *name, bool by_handler, int before)
{
    printf("%s %s, %s\n", test_failures == before ? "ok" : "not ok", name, by_handler ? "handled" : "polled");
}

/* ---- A message whose first block does not arrive ----------------------------------------------------------------- */

static void stuck_alone(bool by_handler)
{
    int before = test_failures;
    mad_dev_t *dev = device_open(by_handler);
    fake_t *late;
    post(dev, MAD_ANY_SOURCE, 20);
    late = message_arrive(dev, BAD, 1, true);
    message_arrive(dev, GOOD, 1, false);
    message_arrive(dev, BAD, 2, false);
    message_arrive(dev, GOOD, 2, false);
    calls(dev);
    message_arrive(dev, BAD, 3, false);
    message_arrive(dev, GOOD, 3, false);
    calls(dev);
    CHECK_LOG("5:1 5:2 5:3 ");
    late->here = true;
    calls(dev);
    CHECK_LOG("5:1 5:2 5:3 3:1 3:2 3:3 ");
    message_arrive(dev, BAD, 4, false);
    message_arrive(dev, GOOD, 4, false);
    calls(dev);
    CHECK_LOG("5:1 5:2 5:3 3:1 3:2 3:3 3:4 5:4 ");
    device_close(dev);
    result("a peer whose message does not arrive stops only its own messages", by_handler, before);
}

/* Two messages of one peer are stuck, and one of another peer. */
static void stuck_twice(bool by_handler)
{
    int before = test_failures;
    mad_dev_t *dev = device_open(by_handler);
    fake_t *first, *second, *other;
    post(dev, MAD_ANY_SOURCE, 20);
    first = message_arrive(dev, BAD, 1, true);
    second = message_arrive(dev, BAD, 2, true);
    message_arrive(dev, BAD, 3, false);
    other = message_arrive(dev, GOOD, 1, true);
    message_arrive(dev, GOOD, 2, false);
    calls(dev);
    CHECK_LOG("");
    first->here = true;
    calls(dev);
    CHECK_LOG("3:1 ");
    message_arrive(dev, BAD, 4, false);
    other->here = true;
    calls(dev);
    CHECK_LOG("3:1 5:1 5:2 ");
    second->here = true;
    calls(dev);
    CHECK_LOG("3:1 5:1 5:2 3:2 3:3 3:4 ");
    device_close(dev);
    result("messages behind several that are stuck keep their order", by_handler, before);
}

/* While memory is lacking all peers wait; afterwards each one's messages come in order. */
static void stuck_without_memory(bool by_handler)
{
    int before = test_failures;
    mad_dev_t *dev = device_open(by_handler);
    fake_t *late;
    post(dev, MAD_ANY_SOURCE, 20);
    late = message_arrive(dev, BAD, 1, true);
    calls(dev);
    no_memory = true;
    message_arrive(dev, BAD, 2, false);
    message_arrive(dev, GOOD, 1, false);
    message_arrive(dev, BAD, 3, false);
    calls(dev);
    CHECK_LOG("");
    no_memory = false;
    message_arrive(dev, GOOD, 2, false);
    calls(dev);
    CHECK_LOG("5:1 5:2 ");
    late->here = true;
    calls(dev);
    CHECK_LOG("5:1 5:2 3:1 3:2 3:3 ");
    device_close(dev);
    result("messages keep their order when memory was lacking", by_handler, before);
}

static void stuck_too_many(bool by_handler)
{
    int before = test_failures;
    int allowed = MAD_DEV_BEHIND_MAX / (MAD_DEV_ENVELOPE_COST + (by_handler ? ENVELOPE_SHORT + 8 : 0));
    mad_dev_t *dev = device_open(by_handler);
    post(dev, BAD, 1);
    message_arrive(dev, BAD, 1, true);
    for (int i = 0; i < allowed; i++)
        message_arrive(dev, BAD, 2, false);
    calls(dev);
    CHECK_OK(failed);
    message_arrive(dev, BAD, 3, false);
    calls(dev);
    CHECK_STATUS(failed, MAD_ERR_PROTOCOL);
    CHECK_EQ(open_messages, 0);
    post(dev, MAD_ANY_SOURCE, 20);
    message_arrive(dev, BAD, 4, false);
    message_arrive(dev, GOOD, 1, false);
    calls(dev);
    CHECK_LOG("5:1 ");
    device_close(dev);
    result("a peer with too many messages behind a stuck one counts as lost", by_handler, before);
}

/* Let the peer send messages that no receive matches, of 8 bytes, as many as cost up to `bytes`. */
static void window_fill(mad_dev_t *dev, mad_peer_t peer, uint64_t bytes)
{
    for (; bytes >= MAD_DEV_ENVELOPE_COST + 8; bytes -= MAD_DEV_ENVELOPE_COST + 8)
        message_arrive(dev, peer, 0, false);
    calls(dev);
}

/* A peer sends more than its window without a grant, and the other one as much as it may.  The windows of both may grow by
 * MAD_DEV_WINDOWS together. */
static void window_exceeded(bool by_handler)
{
    int before = test_failures;
    mad_dev_t *dev = device_open(by_handler);
    mad_dev_receive_t other_tag = {.from = BAD, .tag = 2};
    window_fill(dev, GOOD, MAD_DEV_WINDOW);
    window_fill(dev, BAD, MAD_DEV_WINDOWS / 2 - 1);
    CHECK_OK(mad_dev_receive(dev, &other_tag));
    CHECK_OK(failed);
    window_fill(dev, BAD, MAD_DEV_WINDOWS);
    CHECK_STATUS(failed, MAD_ERR_PROTOCOL);
    CHECK_EQ(open_messages, 0);
    post(dev, GOOD, 1);
    CHECK_LOG("5:0 ");
    message_arrive(dev, BAD, 1, false);
    message_arrive(dev, GOOD, 1, false);
    CHECK_OK(mad_dev_receive(dev, &(mad_dev_receive_t){.from = MAD_ANY_SOURCE, .tag = 1}));
    calls(dev);
    CHECK_LOG("5:0 5:1 ");
    queued_leave(dev);
    device_close(dev);
    result("a peer that exceeds its window counts as lost", by_handler, before);
}

/* A message that is longer than any that a device sends in one block, so long that there is no memory to keep it. */
static void huge_dropped(void)
{
    static unsigned char huge[MAD_DEV_LOAD_MAX + ENVELOPE_SHORT + 1];
    int before = test_failures;
    mad_dev_t *dev = device_open(false);
    huge[0] = KIND_WHOLE;
    arrive(dev, BAD, huge, 100, false);
    arrivals[n_arrivals - 1].base = huge;
    arrivals[n_arrivals - 1].len = sizeof huge;
    no_memory = true;
    calls(dev);
    post(dev, MAD_ANY_SOURCE, 2);
    message_arrive(dev, GOOD, 1, false);
    calls(dev);
    no_memory = false;
    CHECK_LOG("5:1 ");
    device_close(dev);
    result("a message that no device sends is dropped", false, before);
}

/* ---- Accesses to memory ------------------------------------------------------------------------------------------ */

/* Let requests of one target arrive, n of them. */
static void requests_arrive(mad_dev_t *dev, mad_peer_t peer, uint8_t kind, size_t len, int n)
{
    struct {
        remote_hdr_t h;
        mad_dev_target_t target;
    } request = {{.kind = kind, .n = 1, .number = 1, .len = len}, {0, len, 1}};
    for (int i = 0; i < n; i++)
        arrive(dev, peer, &request, sizeof request, false);
    calls(dev);
}

/* A peer makes requests, but does not take the answers, or does not send the bytes of long writes. */
static void served_too_many(uint8_t kind, const char *name)
{
    bool is_long = kind == KIND_WRITE_LONG; /* a message that a poll returns whole has no second block */
    int before = test_failures;
    mad_dev_t *dev = device_open(is_long);
    post(dev, BAD, 1);
    for (int i = 0; i < 2; i++) {
        queued_leave(dev);
        requests_arrive(dev, BAD, kind, 8, MAD_DEV_SERVED_MAX);
        CHECK_EQ(n_queued, MAD_DEV_SERVED_MAX);
        CHECK_OK(failed);
    }
    requests_arrive(dev, BAD, kind, 8, 1);
    CHECK_EQ(n_queued, MAD_DEV_SERVED_MAX);
    CHECK_STATUS(failed, MAD_ERR_PROTOCOL);
    requests_arrive(dev, GOOD, KIND_READ, 8, 1);
    CHECK_EQ(n_queued, MAD_DEV_SERVED_MAX + 1);
    queued_leave(dev);
    device_close(dev);
    result(name, is_long, before);
}

static mad_status_t read_from(mad_dev_t *dev, mad_peer_t peer)
{
    static uint64_t word;
    mad_dev_target_t target = {0, sizeof word, 1};
    struct iovec piece = {&word, sizeof word};
    return mad_dev_remote(
        dev, &(mad_dev_remote_t){
                 .to = peer, .access = MAD_DEV_READ, .targets = &target, .n_targets = 1, .results = &piece, .n_results = 1});
}

/* An honest process keeps so few accesses under way that its peer serves all of them. */
static void accesses_too_many(void)
{
    struct {
        remote_hdr_t h;
        uint64_t word;
    } answer = {{.kind = KIND_ANSWER, .number = 1, .len = 8}, 0};
    int before = test_failures;
    mad_dev_t *dev = device_open(false);
    for (int i = 0; i < MAD_DEV_ACCESSES_MAX; i++)
        CHECK_OK(read_from(dev, GOOD));
    CHECK_STATUS(read_from(dev, GOOD), MAD_ERR_AGAIN);
    CHECK_OK(read_from(dev, BAD));
    arrive(dev, GOOD, &answer, sizeof answer, false);
    calls(dev);
    CHECK_OK(read_from(dev, GOOD));
    CHECK_STATUS(read_from(dev, GOOD), MAD_ERR_AGAIN);
    queued_leave(dev);
    mad_dev_peer_lost(dev, GOOD, MAD_ERR_PEER);
    mad_dev_peer_lost(dev, BAD, MAD_ERR_PEER);
    device_close(dev);
    result("accesses under way to one peer are bounded", false, before);
}

int main(void)
{
    setenv("MAD_DRIVERS", "self", 1);
    test_begin("bounds", 100);
    for (int by_handler = 0; by_handler < 2; by_handler++) {
        stuck_alone(by_handler);
        stuck_twice(by_handler);
        stuck_without_memory(by_handler);
        stuck_too_many(by_handler);
        window_exceeded(by_handler);
    }
    huge_dropped();
    served_too_many(KIND_READ, "a peer that takes no answers counts as lost");
    served_too_many(KIND_WRITE_LONG, "a peer that does not send the bytes of its writes counts as lost");
    accesses_too_many();
    test_end();
    return test_failures != 0;
}
