/* SPDX-License-Identifier: BSD-3-Clause */
/* Find a process's sockets and put a question to its sessions.
 *
 * The process may live in a container: another /tmp (looked at through /proc/PID/root), other process numbers (its own
 * number, by which the socket is called, is the last of NSpid), another user number (so every madeleine-* directory is
 * looked at).  What proves that a socket is its own is the number that the kernel gives for the listener. */
#include "tools/mad_info.h"

#include "base/clock.h"
#include "base/unix.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <madeleine.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SESSIONS_MAX 16
#define ANSWER_MAX (64 << 20)

typedef struct target {
    int pid, inner_pid; /* as seen here, as it sees itself */
    int fds[SESSIONS_MAX];
    int count;
    bool full; /* a socket took no connection */
} target_t;

/* ---- Finding -------------------------------------------------------------------------------------------------- */

static bool is_owner(int fd, int pid)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) && who.pid == pid;
}

static void find_in(target_t *t, const char *dir)
{
    char start[24], path[1024];
    struct dirent *e;
    DIR *d = opendir(dir);
    snprintf(start, sizeof start, "ask-%d-", t->inner_pid);
    while (d && (e = readdir(d)) && t->count < SESSIONS_MAX) {
        int fd;
        if (strncmp(e->d_name, start, strlen(start)))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        fd = madi_unix_connect(path);
        if (fd < 0)
            t->full |= errno == EAGAIN;
        else if (is_owner(fd, t->pid))
            t->fds[t->count++] = fd;
        else
            close(fd);
    }
    if (d)
        closedir(d);
}

static void find_below(target_t *t, const char *root)
{
    char tmp[64], path[512];
    struct dirent *e;
    DIR *d;
    snprintf(tmp, sizeof tmp, "%s/tmp", root);
    d = opendir(tmp);
    while (d && (e = readdir(d)))
        if (!strncmp(e->d_name, "madeleine-", 10)) {
            snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
            find_in(t, path);
        }
    if (d)
        closedir(d);
}

/* The first line of a file of /proc/PID that holds this text, at its beginning if begins is set. */
static bool line_find(int pid, const char *file, const char *text, bool begins, char *line, int len)
{
    char path[48];
    bool found = false;
    FILE *f;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    f = fopen(path, "re");
    while (f && !found && fgets(line, len, f))
        found = begins ? !strncmp(line, text, strlen(text)) : strstr(line, text) != NULL;
    if (f)
        fclose(f);
    return found;
}

/* A line of /proc/PID/status, without its name ("NAME:"). */
static bool status_line(int pid, const char *name, char *value, size_t len)
{
    char line[256];
    if (!line_find(pid, "status", name, true, line, sizeof line))
        return false;
    line[strcspn(line, "\n")] = 0;
    snprintf(value, len, "%s", line + strlen(name) + strspn(line + strlen(name), " \t"));
    return true;
}

static int inner_pid(int pid)
{
    char line[128], *last;
    if (!status_line(pid, "NSpid:", line, sizeof line))
        return pid;
    last = strrchr(line, '\t');
    return atoi(last ? last + 1 : line);
}

/* Why was nothing found? */
static void why_none(int pid, char *why)
{
    char line[512];
    if (line_find(pid, "maps", "libmadeleine", false, line, sizeof line))
        snprintf(why, MADI_INFO_WHY_MAX,
                 "process %d has no Madeleine session at the moment, or could not make its socket in /tmp: start it with "
                 "MAD_LOG=info to see why", pid);
    else
        snprintf(why, MADI_INFO_WHY_MAX, "process %d does not use Madeleine: give the number of a process that does "
                                         "(not that of madrun or a shell)", pid);
}

static bool find(target_t *t, char *why)
{
    char root[32];
    struct stat st;
    struct passwd *user;
    snprintf(root, sizeof root, "/proc/%d", t->pid);
    if (stat(root, &st)) {
        snprintf(why, MADI_INFO_WHY_MAX, "there is no process %d (that this user can see)", t->pid);
        return false;
    }
    if (st.st_uid != geteuid() && geteuid() != 0) {
        user = getpwuid(st.st_uid);
        snprintf(why, MADI_INFO_WHY_MAX, "process %d belongs to %s: only that user, or root, can ask it", t->pid,
                 user ? user->pw_name : "another user");
        return false;
    }
    t->inner_pid = inner_pid(t->pid);
    find_below(t, "");
    if (!t->count) {
        snprintf(root, sizeof root, "/proc/%d/root", t->pid);
        find_below(t, root);
    }
    if (!t->count && !t->full)
        why_none(t->pid, why);
    return t->count || t->full;
}

/* ---- Asking --------------------------------------------------------------------------------------------------- */

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
    status_line(pid, "State:", state, sizeof state);
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

static json_t *ask_one(int fd, int peer, int pid, double timeout, mad_session_t *session, char *why)
{
    char question[64];
    int n = peer < 0 ? snprintf(question, sizeof question, "madeleine 1 explain\n")
                     : snprintf(question, sizeof question, "madeleine 1 explain %d\n", peer);
    json_error_t error;
    json_t *answer = NULL;
    size_t len = 0;
    char *text = NULL;
    if (send(fd, question, (size_t)n, MSG_NOSIGNAL) == n)
        text = read_all(fd, madi_deadline((int64_t)(timeout * 1e9)), session, &len);
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

static json_t *ask_all(target_t *t, int peer, double timeout, mad_session_t *session, char *why)
{
    json_t *answers = json_array();
    if (!t->count)
        why_silent(t->pid, timeout, why);
    for (int i = 0; i < t->count; i++) {
        json_t *one = ask_one(t->fds[i], peer, t->pid, timeout, session, why);
        if (one)
            json_array_append_new(answers, one);
        close(t->fds[i]);
    }
    if (json_array_size(answers))
        return answers;
    json_decref(answers);
    return NULL;
}

json_t *madi_info_ask(int pid, int peer, double timeout, char *why)
{
    int64_t deadline = madi_deadline((int64_t)(timeout * 1e9));
    target_t t;
    bool found;
    do {
        t = (target_t){.pid = pid};
        found = find(&t, why);
    } while (found && !t.count && madi_now() < deadline && !usleep(10000)); /* others are before us */
    return found ? ask_all(&t, peer, timeout, NULL, why) : NULL;
}

json_t *madi_info_ask_self(char *why)
{
    unsigned char key[32];
    mad_session_t *session;
    target_t t = {.pid = getpid()};
    json_t *answers = NULL;
    mad_status_t status = getrandom(key, sizeof key, 0) == sizeof key ? mad_open(key, sizeof key, &session) : MAD_ERR_SYSTEM;
    if (status) {
        snprintf(why, MADI_INFO_WHY_MAX, "no session can be opened here: %s", mad_status_text(status));
        return NULL;
    }
    if (find(&t, why))
        answers = ask_all(&t, -1, 5, session, why);
    mad_exit(session);
    return answers;
}
