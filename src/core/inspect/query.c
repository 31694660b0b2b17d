/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "base/own.h"
#include "base/unix.h"
#include "core/connect/peer.h"
#include "core/driver.h"
#include "core/inspect/query.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

/* maximum number of clients; a further one replaces the oldest, so that silent clients do not lock others out */
#define CLIENTS 4
#define QUESTION_MAX 64
#define BACKLOG 16
#define PIECES 4 /* maximum number of pieces of an answer that are sent before other events have their turn */

typedef struct client {
    madi_watch_t watch; /* fd -1: free */
    struct madi_query *ask;
    unsigned born;
    bool answering;
    size_t len, sent; /* len: bytes of `question` that have arrived; sent: bytes of `answer` that were sent */
    char question[QUESTION_MAX];
    madi_answer_t answer;
} client_t;

struct madi_query {
    mad_session_t *session;
    madi_watch_t watch; /* the listening socket */
    char path[MADI_UNIX_PATH_MAX];
    unsigned births;
    client_t clients[CLIENTS];
};

static void client_close(client_t *c)
{
    if (c->watch.fd < 0)
        return;
    madi_fd_close(c->watch.fd);
    c->watch.fd = -1;
    madi_json_fini(&c->answer.json);
    free(c->answer.state);
    c->answer.state = NULL;
}

/* ---- Questions ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *word;
    bool takes_peer;
    bool (*begin)(madi_answer_t *answer);
    bool (*more)(madi_answer_t *answer);
} kinds[] = {{"explain", true, madi_explain_begin, madi_explain_more},
             {"stats", false, madi_stats_begin, madi_stats_more},
             {"trace", false, madi_trace_begin, madi_trace_answer}};

/* Return how many peers have a number; all ranks have one, even before communication with them begins. */
static int peers_known(const mad_session_t *s)
{
    return madi_peers_end(s) > s->size ? madi_peers_end(s) : s->size;
}

static bool question_refuse(madi_answer_t *a)
{
    char text[160];
    if (a->state)
        return false;
    a->state = malloc(1); /* any state that is not NULL marks the error as written */
    snprintf(text, sizeof text,
             "no such peer or question: 'madeleine %d explain [PEER]', a peer from 0 to %d; or stats, or trace",
             MADI_QUERY_VERSION, peers_known(a->session) - 1);
    madi_json_begin(&a->json, NULL, '{');
    madi_json_text(&a->json, "error", text);
    madi_json_end(&a->json, '}');
    return a->state != NULL;
}

static bool question_matches(const mad_session_t *s, const char *question, const char *word, bool takes_peer,
                             mad_peer_t *peer)
{
    char start[32], rest;
    int len = snprintf(start, sizeof start, "madeleine %d %s", MADI_QUERY_VERSION, word);
    if (strncmp(question, start, (size_t)len))
        return false;
    *peer = -1;
    return !question[len] || (takes_peer && question[len] == ' ' && sscanf(question + len, " %9d%c", peer, &rest) == 1 &&
                              *peer >= 0 && *peer < peers_known(s));
}

static void answer_begin(madi_answer_t *a, mad_session_t *s, const char *question)
{
    *a = (madi_answer_t){.session = s, .more = question_refuse};
    for (size_t i = 0; i < MADI_COUNT(kinds); i++)
        if (question_matches(s, question, kinds[i].word, kinds[i].takes_peer, &a->peer) && kinds[i].begin(a))
            a->more = kinds[i].more;
}

/* ---- Answering ------------------------------------------------------------------------------------------------ */

/* Send as much of the answer as the socket takes: the client sets the pace. */
static void client_send(client_t *c)
{
    madi_json_t *json = &c->answer.json;
    for (int i = 0; i < PIECES; i++) {
        ssize_t n;
        bool more = true;
        if (!json->len)
            more = c->answer.more(&c->answer);
        if (!more || json->failed) {
            client_close(c);
            return;
        }
        n = send(c->watch.fd, json->text + c->sent, json->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN)
                client_close(c);
            return;
        }
        c->sent += (size_t)n;
        if (c->sent == json->len)
            c->sent = json->len = 0;
    }
}

static void client_ready(madi_watch_t *watch, uint32_t events)
{
    client_t *c = MADI_CONTAINER(watch, client_t, watch);
    char *end;
    ssize_t n;
    (void)events;
    if (c->answering) {
        client_send(c);
        return;
    }
    n = recv(watch->fd, c->question + c->len, sizeof c->question - c->len, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n > 0) {
        c->len += (size_t)n;
        end = memchr(c->question, '\n', c->len);
        if (end) {
            *end = 0;
            c->answering = true;
            madi_watch_change(c->ask->session, watch, EPOLLOUT);
            answer_begin(&c->answer, c->ask->session, c->question);
            client_send(c);
            return;
        }
    }
    if (n <= 0 || c->len == sizeof c->question)
        client_close(c);
}

/* ---- Accepting ------------------------------------------------------------------------------------------------ */

static bool client_is_allowed(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && (who.uid == geteuid() || who.uid == 0);
}

static client_t *client_slot(madi_query_t *ask)
{
    client_t *oldest = &ask->clients[0];
    for (int i = 0; i < CLIENTS; i++) {
        client_t *c = &ask->clients[i];
        if (c->watch.fd < 0)
            return c;
        /* births is later than both numbers, so the older client has the smaller difference. */
        if (c->born - ask->births < oldest->born - ask->births)
            oldest = c;
    }
    client_close(oldest);
    return oldest;
}

/* Accept clients.  The socket is watched edge-triggered: when no descriptor is left, connections wait for the next
 * event, and no thread spins. */
static void query_listener_ready(madi_watch_t *watch, uint32_t events)
{
    madi_query_t *ask = MADI_CONTAINER(watch, madi_query_t, watch);
    (void)events;
    for (int i = 0; i < 2 * BACKLOG; i++) {
        int fd = madi_fd_own(accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        client_t *c;
        if (fd < 0)
            return;
        if (!client_is_allowed(fd)) {
            madi_fd_close(fd);
            continue;
        }
        c = client_slot(ask);
        *c = (client_t){.watch = {.fd = fd, .ready = client_ready}, .ask = ask, .born = ask->births++};
        if (madi_watch_add_rare(ask->session, &c->watch, EPOLLIN) != MAD_OK)
            client_close(c);
    }
}

/* ---- Begin and end -------------------------------------------------------------------------------------------- */

/* True if the process of this socket does not exist (any more), as far as this process can see. */
static bool socket_is_stale(const char *name)
{
    int pid;
    return sscanf(name, "ask-%d-", &pid) == 1 && pid > 0 && kill(pid, 0) && errno == ESRCH;
}

static bool query_listen(madi_query_t *ask, char *reason, size_t len)
{
    char dir[64];
    struct stat st;
    const unsigned char *tag = ask->session->uid;
    madi_unix_dir_default(dir, sizeof dir);
    if (!madi_unix_dir(dir, &st, reason, len))
        return false;
    madi_unix_sweep(dir, socket_is_stale);
    snprintf(ask->path, sizeof ask->path, "%s/ask-%d-%02x%02x%02x%02x", dir, (int)getpid(), tag[0], tag[1], tag[2], tag[3]);
    ask->watch = (madi_watch_t){.fd = madi_fd_own(madi_unix_listen(ask->path, BACKLOG)), .ready = query_listener_ready};
    if (ask->watch.fd >= 0 && madi_watch_add_rare(ask->session, &ask->watch, EPOLLIN | EPOLLET) == MAD_OK)
        return true;
    snprintf(reason, len, "%s: %s", ask->path, strerror(errno));
    return false;
}

madi_query_t *madi_query_open(mad_session_t *session)
{
    char reason[MADI_REASON_MAX] = "out of memory";
    madi_query_t *ask = calloc(1, sizeof *ask);
    if (ask) {
        ask->session = session;
        ask->watch.fd = -1;
        for (int i = 0; i < CLIENTS; i++)
            ask->clients[i].watch.fd = -1;
        if (query_listen(ask, reason, sizeof reason))
            return ask;
    }
    madi_log(MADI_LOG_INFO, "core", "mad_info cannot ask this process: %s", reason);
    madi_query_close(ask);
    return NULL;
}

void madi_query_close(madi_query_t *ask)
{
    if (!ask)
        return;
    for (int i = 0; i < CLIENTS; i++)
        client_close(&ask->clients[i]);
    if (ask->watch.fd >= 0) {
        unlink(ask->path);
        madi_fd_close(ask->watch.fd);
    }
    free(ask);
}
