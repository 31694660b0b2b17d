/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries to the sessions of processes.  All queries are sent before the first answer is read, and all answers share
 * one deadline, so several silent processes cost no more time than one. */
#include "tools/mad_info_query.h"

#include "base/clock.h"

#include <errno.h>
#include <madeleine.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)1 << 29)

/* The answer of one session, as far as it has arrived. */
typedef struct answer {
    int fd; /* -1: nothing more to come */
    char *text;
    size_t len, cap;
    bool whole;
} answer_t;

static void answer_end(answer_t *a, bool whole)
{
    close(a->fd);
    a->fd = -1;
    a->whole = whole;
}

/* Read what has arrived. */
static void answer_take(answer_t *a)
{
    for (;;) {
        ssize_t n;
        if (a->len + 4096 > a->cap) {
            char *more = a->len < ANSWER_MAX ? realloc(a->text, 2 * a->cap + 65536) : NULL;
            if (!more) {
                answer_end(a, false);
                return;
            }
            a->text = more;
            a->cap = 2 * a->cap + 65536;
        }
        n = recv(a->fd, a->text + a->len, a->cap - a->len, 0); /* never waits */
        if (n > 0)
            a->len += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
            answer_end(a, n == 0);
        if (n <= 0 && (a->fd < 0 || errno == EAGAIN))
            return;
    }
}

/* Read all answers concurrently: a silent process does not delay the answers of others. session: this process's
 * own session, which needs progress to answer; or NULL. */
static void answers_read(answer_t *answers, int n, int64_t deadline, mad_session_t *session)
{
    struct pollfd *p = calloc((size_t)n + 1, sizeof *p);
    int left = n;
    while (p && left) {
        int64_t until = deadline - madi_now();
        if (session)
            mad_progress(session);
        left = 0;
        for (int i = 0; i < n; i++) {
            p[i] = (struct pollfd){.fd = answers[i].fd, .events = POLLIN}; /* poll ignores -1 */
            left += answers[i].fd >= 0;
        }
        if (left && poll(p, (nfds_t)n, session || until <= 0 ? 0 : (int)(until / 1000000) + 1) > 0)
            for (int i = 0; i < n; i++)
                if (answers[i].fd >= 0 && p[i].revents)
                    answer_take(&answers[i]);
        if (until <= 0)
            break;
    }
    for (int i = 0; i < n; i++)
        if (answers[i].fd >= 0)
            answer_end(&answers[i], false);
    free(p);
}

/* Explain why a process does not answer. */
static void why_silent(int pid, double timeout, char *why)
{
    char state[64] = "";
    const char *text = "it computes and does not call the library; try again later";
    madi_status_line(pid, "State:", state, sizeof state);
    switch (state[0]) {
    case 0: text = "it has ended meanwhile"; break;
    case 'T': text = "it is stopped: continue it with 'kill -CONT'"; break;
    case 't': text = "a debugger has stopped it: continue it there"; break;
    case 'Z': text = "it has ended, and its parent has not collected it"; break;
    case 'D': text = "it waits for a device or a file system; try again later"; break;
    case 'S': text = "it waits in a system call outside the library; try again later"; break;
    default: break;
    }
    snprintf(why, MADI_INFO_WHY_MAX, "process %d did not answer within %g s: %s", pid, timeout, text);
}

static void question_put(const madi_target_t *t, const char *question)
{
    char line[64];
    int n = snprintf(line, sizeof line, "madeleine 1 %s\n", question);
    for (int i = 0; i < t->count; i++)
        send(t->fds[i], line, (size_t)n, MSG_NOSIGNAL); /* an error of send becomes visible when the answer is read */
}

/* Parse an answer, and free its text.  Return NULL on failure; `why` gives the reason. */
static json_t *answer_parse(answer_t *a, int pid, double timeout, char *why)
{
    json_t *answer = NULL;
    if (!a->whole)
        why_silent(pid, timeout, why);
    else
        answer = madi_info_answer(a->text, a->len);
    free(a->text);
    if (!a->whole)
        return NULL;
    if (!answer) {
        snprintf(why, MADI_INFO_WHY_MAX,
                 "process %d has sent an invalid answer: it may have another version, or be about to end", pid);
        return NULL;
    }
    if (json_object_get(answer, "error")) {
        snprintf(why, MADI_INFO_WHY_MAX, "process %d: %s", pid, json_string_value(json_object_get(answer, "error")));
        json_decref(answer);
        return NULL;
    }
    return answer;
}

/* Read the answers of the targets' sessions into all[], one array for each target.  A target without an answer gets NULL,
 * and the reason in its part of why.  Closes the connections. */
static void targets_read(madi_target_t *targets, int n, json_t **all, double timeout, mad_session_t *session, char *why)
{
    answer_t *list;
    int count = 0, next = 0;
    for (int i = 0; i < n; i++)
        count += targets[i].count;
    list = calloc((size_t)count + 1, sizeof *list);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < targets[i].count; k++)
            if (list)
                list[next++].fd = targets[i].fds[k];
            else
                close(targets[i].fds[k]);
    if (list)
        answers_read(list, count, madi_deadline((int64_t)(timeout * 1e9)), session);
    next = 0;
    for (int i = 0; i < n; i++) {
        char *own = why + (size_t)i * MADI_INFO_WHY_MAX;
        all[i] = NULL;
        if (!targets[i].count || !list)
            why_silent(targets[i].pid, timeout, own);
        for (int k = 0; list && k < targets[i].count; k++) {
            json_t *one = answer_parse(&list[next++], targets[i].pid, timeout, own);
            if (one && !all[i])
                all[i] = json_array();
            if (one)
                json_array_append_new(all[i], one);
        }
    }
    free(list);
}

json_t *madi_info_query(int pid, const char *question, double timeout, char *why)
{
    int64_t deadline = madi_deadline((int64_t)(timeout * 1e9));
    madi_target_t t;
    json_t *all;
    bool found;
    do {
        t = (madi_target_t){.pid = pid};
        found = madi_target_find(&t, why);
        /* repeat, because the queries of other processes may be ahead of this one */
    } while (found && !t.count && madi_now() < deadline && !usleep(10000));
    if (!found)
        return NULL;
    question_put(&t, question);
    targets_read(&t, 1, &all, timeout, NULL, why);
    return all;
}

json_t *madi_info_query_all(const char *question, double timeout)
{
    madi_target_t *targets;
    int n = madi_target_find_all(&targets);
    json_t **answered = calloc((size_t)n + 1, sizeof *answered), *all = json_array();
    char *why = calloc((size_t)n + 1, MADI_INFO_WHY_MAX);
    for (int i = 0; i < n; i++)
        question_put(&targets[i], question);
    if (answered && why)
        targets_read(targets, n, answered, timeout, NULL, why);
    for (int i = 0; answered && why && i < n; i++)
        json_array_append_new(
            all, answered[i] ? json_pack("{s:i, s:o}", "pid", targets[i].pid, "sessions", answered[i])
                             : json_pack("{s:i, s:s}", "pid", targets[i].pid, "error", why + (size_t)i * MADI_INFO_WHY_MAX));
    free(targets);
    free(answered);
    free(why);
    return all;
}

json_t *madi_info_query_self(char *why)
{
    unsigned char key[32];
    mad_session_t *session;
    madi_target_t t = {.pid = getpid()};
    json_t *all = NULL;
    mad_status_t status = getrandom(key, sizeof key, 0) == sizeof key ? mad_open(key, sizeof key, &session) : MAD_ERR_SYSTEM;
    if (status) {
        snprintf(why, MADI_INFO_WHY_MAX, "no session can be opened here: %s", mad_status_text(status));
        return NULL;
    }
    if (madi_target_find(&t, why)) {
        question_put(&t, "explain");
        targets_read(&t, 1, &all, 5, session, why);
    }
    mad_exit(session);
    return all;
}
