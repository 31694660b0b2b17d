/* SPDX-License-Identifier: BSD-3-Clause */
/* Put a question to the sessions of processes.  All are asked before the first answer is read, and all answers have one
 * deadline, so those who do not answer cost the time of one. */
#include "tools/mad_info_ask.h"

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

/* Only what a session writes itself: nothing that could play tricks with a terminal. */
static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] < ' ' || text[i] > '~')
            return false;
        if (text[i] == '\\' && (++i == len || (text[i] != '"' && text[i] != '\\')))
            return false;
    }
    return true;
}

/* Read until the end.  session: makes the answer itself when it is let.  NULL: no end came. */
static char *read_all(int fd, int64_t deadline, mad_session_t *session, size_t *len)
{
    char *text = NULL;
    size_t cap = 0;
    for (*len = 0; *len < ANSWER_MAX;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = deadline - madi_now();
        ssize_t n;
        if (*len + 4096 > cap) {
            char *more = realloc(text, cap = 2 * cap + 65536);
            if (!more)
                break;
            text = more;
        }
        if (session)
            mad_progress(session);
        if (left <= 0)
            break;
        poll(&p, 1, session ? 0 : (int)(left / 1000000) + 1);
        n = recv(fd, text + *len, cap - *len, 0); /* never waits */
        if (n == 0)
            return text;
        if (n > 0)
            *len += (size_t)n;
        else if (errno != EAGAIN && errno != EINTR)
            break;
    }
    free(text);
    return NULL;
}

/* Why does it not answer? */
static void why_silent(int pid, double timeout, char *why)
{
    char state[64] = "";
    const char *text = "it computes and does not call the library; ask again later";
    madi_status_line(pid, "State:", state, sizeof state);
    switch (state[0]) {
    case 0: text = "it has ended meanwhile"; break;
    case 'T': text = "it is stopped: let it go on with 'kill -CONT'"; break;
    case 't': text = "a debugger holds it: let it go on there"; break;
    case 'Z': text = "it has ended, and its parent has not collected it"; break;
    case 'D': text = "it waits for a device or a file system; ask again later"; break;
    case 'S': text = "it waits in a call of its own, outside of the library; ask again later"; break;
    default: break;
    }
    snprintf(why, MADI_INFO_WHY_MAX, "process %d did not answer within %g s: %s", pid, timeout, text);
}

static void question_put(const madi_target_t *t, const char *question)
{
    char line[64];
    int n = snprintf(line, sizeof line, "madeleine 1 %s\n", question);
    for (int i = 0; i < t->count; i++)
        send(t->fds[i], line, (size_t)n, MSG_NOSIGNAL); /* a failure is one of the answer, too */
}

static json_t *answer_one(int fd, int pid, int64_t deadline, double timeout, mad_session_t *session, char *why)
{
    json_error_t error;
    json_t *answer = NULL;
    size_t len = 0;
    char *text = read_all(fd, deadline, session, &len);
    if (!text) {
        why_silent(pid, timeout, why);
        return NULL;
    }
    if (is_plain(text, len))
        answer = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!json_is_object(answer)) {
        snprintf(why, MADI_INFO_WHY_MAX, "process %d gave no proper answer: is it of another version, or at its end?", pid);
        json_decref(answer);
        return NULL;
    }
    if (json_object_get(answer, "error")) {
        snprintf(why, MADI_INFO_WHY_MAX, "process %d: %s", pid, json_string_value(json_object_get(answer, "error")));
        json_decref(answer);
        return NULL;
    }
    return answer;
}

/* What its sessions answer; ends the connections.  NULL: none did, and why. */
static json_t *answers(madi_target_t *t, int64_t deadline, double timeout, mad_session_t *session, char *why)
{
    json_t *all = json_array();
    if (!t->count)
        why_silent(t->pid, timeout, why);
    for (int i = 0; i < t->count; i++) {
        json_t *one = answer_one(t->fds[i], t->pid, deadline, timeout, session, why);
        if (one)
            json_array_append_new(all, one);
        close(t->fds[i]);
    }
    t->count = 0;
    if (json_array_size(all))
        return all;
    json_decref(all);
    return NULL;
}

static int64_t deadline_of(double timeout)
{
    return madi_deadline((int64_t)(timeout * 1e9));
}

json_t *madi_info_ask(int pid, const char *question, double timeout, char *why)
{
    int64_t deadline = deadline_of(timeout);
    madi_target_t t;
    bool found;
    do {
        t = (madi_target_t){.pid = pid};
        found = madi_target_find(&t, why);
    } while (found && !t.count && madi_now() < deadline && !usleep(10000)); /* others are before us */
    if (!found)
        return NULL;
    question_put(&t, question);
    return answers(&t, deadline_of(timeout), timeout, NULL, why);
}

json_t *madi_info_ask_all(const char *question, double timeout)
{
    char why[MADI_INFO_WHY_MAX];
    madi_target_t *targets;
    int n = madi_target_find_all(&targets);
    int64_t deadline;
    json_t *all = json_array();
    for (int i = 0; i < n; i++)
        question_put(&targets[i], question);
    deadline = deadline_of(timeout);
    for (int i = 0; i < n; i++) {
        json_t *sessions = answers(&targets[i], deadline, timeout, NULL, why);
        json_array_append_new(all, sessions ? json_pack("{s:i, s:o}", "pid", targets[i].pid, "sessions", sessions)
                                            : json_pack("{s:i, s:s}", "pid", targets[i].pid, "error", why));
    }
    free(targets);
    return all;
}

json_t *madi_info_ask_self(char *why)
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
        all = answers(&t, deadline_of(5), 5, session, why);
    }
    mad_exit(session);
    return all;
}
