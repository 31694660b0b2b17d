/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_output.h"

#include "base/clock.h"
#include "tools/madrun_loop.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAUSE_NS 100000000LL /* ns: an unfinished line that has not grown for this long is shown */
#define AGE_NS 1000000000LL  /* ns: an unfinished line of this age is shown, too */
#define TURN_NS 1000000000LL /* ns: while other ranks wait, the line that is shown must end within this time, or grow */
#define TURN_BYTES 65536     /* bytes by which an open line must grow to keep its turn */
/* maximum number of bytes queued in total; beyond that, unfinished lines are shown, or ranks wait */
#define WAITING_BYTES ((size_t)1 << 26)
#define KEPT_BYTES ((size_t)1 << 18) /* bytes: a larger buffer is freed when it becomes empty */

/* Bytes that a rank has written to one stream, and that are not in `out` yet. */
typedef struct output_text {
    madi_run_buffer_t bytes;
    size_t searched;     /* leading bytes without a newline */
    int64_t first, last; /* ns (monotonic clock): arrival of the oldest and of the newest byte */
    bool held;           /* true if the rank's descriptor is not read for now */
    bool ended;          /* end of the stream */
} output_text_t;

/* Standard output or standard error. */
typedef struct stream {
    madi_run_pipe_t out;
    bool open;         /* true if the last bytes written do not end a line */
    int owner;         /* rank of the open line, which alone may write; -1 if there is none */
    int64_t turn;      /* ns (monotonic clock): end of the owner's turn; 0 if no other rank waits */
    size_t turn_bytes; /* bytes written by the owner in this turn */
} stream_t;

static stream_t streams[2];
static output_text_t (*texts)[2]; /* texts of each rank and stream */
static char **label_of;           /* label of each rank; NULL: "[rank] " */
static int rank_count;
static size_t waiting; /* bytes in all texts */
static bool alone, labelled;
static const madi_run_output_hooks_t *hooks;
static madi_run_timer_t timer;

static void output_got(madi_run_pipe_t *pipe)
{
    if (!pipe->broken || !hooks)
        return;
    if (pipe == &streams[0].out && pipe->error != EPIPE)
        madi_run_say("what the ranks print cannot be written: %s", strerror(pipe->error));
    hooks->lost();
}

void madi_run_output_init(int ranks, int beside, bool label, const madi_run_output_hooks_t *to)
{
    rank_count = ranks + beside;
    alone = ranks == 1;
    labelled = label && rank_count > 1;
    hooks = to;
    texts = madi_run_alloc((size_t)rank_count, sizeof(*texts));
    label_of = madi_run_alloc((size_t)rank_count, sizeof(*label_of));
    for (int i = 0; i < 2; i++) {
        streams[i] = (stream_t){.out = {.got = output_got, .choke = true, .shared = true}, .owner = -1};
        madi_run_pipe_open(&streams[i].out, i + 1);
    }
}

void madi_run_output_label(int number, const char *label)
{
    label_of[number] = madi_run_strdup(label);
}

/* --- writing --- */

/* True if the text begins like a JSON object, which is passed on without a label. */
static bool object_begins(const char *data, size_t len)
{
    return len > 1 && data[0] == '{' && data[1] == '"';
}

static bool is_object(const char *data, size_t len)
{
    while (len > 0 && (data[len - 1] == '\n' || data[len - 1] == '\r'))
        len--;
    return len > 2 && object_begins(data, len) && data[len - 1] == '}';
}

/* Begin a line of rank (-1: madrun's own), or continue the rank's open line. */
static void line_begin(stream_t *s, int rank, bool label)
{
    char number[24];
    if (rank >= 0 && s->owner == rank)
        return;
    if (s->open)
        madi_run_pipe_send(&s->out, "\n", 1);
    s->open = false;
    s->owner = -1;
    if (label && label_of[rank])
        madi_run_pipe_send(&s->out, label_of[rank], strlen(label_of[rank]));
    else if (label)
        madi_run_pipe_send(&s->out, number, (size_t)snprintf(number, sizeof(number), "[%d] ", rank));
}

static void line_write(int rank, int stream, const char *data, size_t len, bool whole)
{
    stream_t *s = &streams[stream - 1];
    bool object = stream == 1 && (whole ? is_object(data, len) : object_begins(data, len));
    line_begin(s, rank, labelled && !object);
    madi_run_pipe_send(&s->out, data, len);
    s->open = !whole;
    s->owner = whole ? -1 : rank;
    s->turn_bytes += len;
}

static void text_drop(output_text_t *text, size_t len)
{
    madi_run_buffer_drop(&text->bytes, len);
    waiting -= len;
    text->searched = 0;
    text->first = text->last;
    if (text->bytes.len == 0 && text->bytes.cap > KEPT_BYTES)
        madi_run_buffer_free(&text->bytes);
}

static void whole_lines_write(int rank, int stream)
{
    output_text_t *text = &texts[rank][stream - 1];
    while (text->bytes.len > text->searched) {
        const char *data = madi_run_buffer_at(&text->bytes);
        const char *end = memchr(data + text->searched, '\n', text->bytes.len - text->searched);
        if (!end)
            break;
        line_write(rank, stream, data, (size_t)(end + 1 - data), true);
        text_drop(text, (size_t)(end + 1 - data));
    }
    text->searched = text->bytes.len;
}

/* --- turns --- */

static bool may_write(int rank, int stream)
{
    return streams[stream - 1].owner < 0 || streams[stream - 1].owner == rank;
}

static void text_hold(int rank, int stream, bool on)
{
    output_text_t *text = &texts[rank][stream - 1];
    if (text->held != on)
        hooks->hold(rank, stream, on);
    text->held = on;
}

/* Return the time at which an unfinished line has to be shown.  A JSON object is no prompt, and only its end decides
 * whether it gets a label. */
static int64_t text_due(const output_text_t *text, int stream)
{
    int64_t pause = text->last + PAUSE_NS, age = text->first + AGE_NS;
    if (text->ended || waiting > WAITING_BYTES)
        return 0;
    if (stream == 1 && object_begins(madi_run_buffer_at(&text->bytes), text->bytes.len))
        return INT64_MAX;
    return pause < age ? pause : age;
}

/* Write the part of a rank's text that is due. */
static void text_look(int rank, int stream, int64_t now)
{
    output_text_t *text = &texts[rank][stream - 1];
    stream_t *s = &streams[stream - 1];
    whole_lines_write(rank, stream);
    if (text->bytes.len > 0 && (s->owner == rank || text_due(text, stream) <= now)) {
        line_write(rank, stream, madi_run_buffer_at(&text->bytes), text->bytes.len, false);
        text_drop(text, text->bytes.len);
    }
    if (text->ended && s->owner == rank) {
        s->owner = -1;
        if (labelled) /* a label must be at the beginning of a line */
            madi_run_pipe_send(&s->out, "\n", 1);
        s->open = !labelled;
    }
}

/* End the owner's turn, unless its line grows fast, or could not be written because the reader of madrun's output does
 * not read. */
static void turn_look(stream_t *s, int64_t now)
{
    if (!s->turn || (s->turn > now && s->owner >= 0))
        return;
    if (s->turn_bytes < TURN_BYTES && s->out.out.len == 0)
        s->owner = -1;
    s->turn = s->owner < 0 ? 0 : now + TURN_NS;
    s->turn_bytes = 0;
}

/* Return the end of the owner's turn, which begins when another rank waits. */
static int64_t turn_end(stream_t *s, int64_t now)
{
    if (!s->turn) {
        s->turn = now + TURN_NS;
        s->turn_bytes = 0;
    }
    return s->turn;
}

/* Write everything that is due to a stream.  Return the time at which more may be due; INT64_MAX if never without new
 * input. */
static int64_t stream_look(int stream, int64_t now)
{
    stream_t *s = &streams[stream - 1];
    int64_t next = INT64_MAX;
    turn_look(s, now);
    for (int rank = 0; rank < rank_count; rank++) {
        output_text_t *text = &texts[rank][stream - 1];
        int64_t due;
        if (text->bytes.len > 0 && may_write(rank, stream))
            text_look(rank, stream, now);
        text_hold(rank, stream, text->held && text->bytes.len > 0 && !may_write(rank, stream));
        if (text->bytes.len == 0)
            continue;
        due = may_write(rank, stream) ? text_due(text, stream) : turn_end(s, now);
        next = due < next ? due : next;
    }
    return next;
}

static void output_look(void);

static void output_look_at(int64_t when, int64_t now)
{
    if (when != INT64_MAX && (timer.at == 0 || when < timer.at))
        madi_run_timer_set(&timer, when > now ? when - now : 0, output_look);
}

static void output_look(void)
{
    int64_t now = madi_now();
    for (int stream = 1; stream <= 2; stream++)
        output_look_at(stream_look(stream, now), now);
}

void madi_run_output(int rank, int stream, const char *data, size_t len)
{
    stream_t *s;
    output_text_t *text;
    bool owned;
    int64_t now;
    if (rank < 0 || rank >= rank_count || stream < 1 || stream > 2)
        return;
    s = &streams[stream - 1];
    if (alone && rank == 0) {
        madi_run_pipe_send(&s->out, data, len);
        s->open = len > 0 ? data[len - 1] != '\n' : s->open;
        return;
    }
    now = madi_now();
    text = &texts[rank][stream - 1];
    text->first = text->bytes.len ? text->first : now;
    text->last = now;
    text->ended = len == 0;
    madi_run_buffer_add(&text->bytes, data, len);
    waiting += len;
    owned = s->owner >= 0;
    if (may_write(rank, stream))
        text_look(rank, stream, now);
    else if (waiting > WAITING_BYTES)
        text_hold(rank, stream, true);
    if (owned && s->owner < 0)
        output_look();
    else if (text->bytes.len > 0)
        output_look_at(may_write(rank, stream) ? text_due(text, stream) : turn_end(s, now), now);
}

bool madi_run_output_waiting(void)
{
    return (streams[0].out.out.len > 0 && !streams[0].out.broken) || (streams[1].out.out.len > 0 && !streams[1].out.broken);
}

void madi_run_output_fini(void)
{
    madi_run_timer_clear(&timer);
    for (int i = 0; i < rank_count; i++)
        for (int s = 0; s < 2; s++)
            madi_run_buffer_free(&texts[i][s].bytes);
    for (int i = 0; i < rank_count; i++)
        free(label_of[i]);
    free(label_of);
    free(texts);
    texts = NULL;
    rank_count = 0;
    waiting = 0;
    hooks = NULL;
    for (int i = 0; i < 2; i++)
        madi_run_pipe_close(&streams[i].out);
}

void madi_run_say(const char *format, ...)
{
    char text[1024] = "madrun: ";
    size_t len;
    va_list args;
    va_start(args, format);
    vsnprintf(text + 8, sizeof(text) - 9, format, args);
    va_end(args);
    len = strlen(text);
    text[len++] = '\n';
    if (texts) { /* keep the order with the ranks' output */
        line_begin(&streams[1], -1, false);
        madi_run_pipe_send(&streams[1].out, text, len);
    } else {
        ssize_t n = write(2, text, len);
        (void)n;
    }
}
