/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the library: messages that it logs while a session is opened with the current knobs, and leftovers of other
 * processes. */
#include "tools/mad_info.h"

#include "base/unix.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The session ------------------------------------------------------------------------------------------------ */

/* Make a finding from a line of the log, "mad: tcp: warning: TEXT".  Every line counts as bad, because a setting has no
 * effect. */
static void found_line(json_t *findings, char *line)
{
    char *part = strstr(line, "mad: "), *level, *text;
    if (!part)
        return;
    part += 5;
    level = strstr(part, ": ");
    text = level ? strstr(level + 2, ": ") : NULL;
    if (!text)
        return;
    *level = 0;
    level += 2;
    *text = 0;
    madi_info_found(findings, part, MADI_BAD, "correct what is named ('mad_info knobs' lists the variables)", "%s",
                    text + 2);
}

/* Open and query a session, with standard error captured in a file. */
static json_t *session_open_logged(json_t *findings, char *why)
{
    int log = memfd_create("mad_info log", MFD_CLOEXEC), error = dup(STDERR_FILENO);
    json_t *sessions;
    char line[1200];
    FILE *f;
    fflush(stderr);
    if (log >= 0)
        dup2(log, STDERR_FILENO);
    sessions = madi_info_query_self(why);
    if (error >= 0)
        dup2(error, STDERR_FILENO);
    close(error);
    f = log >= 0 ? fdopen(log, "r") : NULL;
    if (f)
        rewind(f);
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        found_line(findings, line);
    }
    if (f)
        fclose(f);
    return sessions;
}

static void check_session(json_t *findings)
{
    char why[MADI_INFO_WHY_MAX] = "", list[200] = "";
    json_t *sessions, *a;
    size_t i, n = 0;
    if (!getenv("MAD_LOG") || !strcmp(getenv("MAD_LOG"), "error"))
        setenv("MAD_LOG", "warning", 1);
    sessions = session_open_logged(findings, why);
    if (!sessions) {
        madi_info_found(findings, "session", MADI_BAD, "see the findings above", "%s", why);
        return;
    }
    json_array_foreach(json_object_get(json_array_get(sessions, 0), "adapters"), i, a)
    {
        if (madi_info_true(a, "open"))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s on %s", n++ ? ", " : "",
                     madi_info_text(a, "driver"), madi_info_text(a, "adapter"));
        if (madi_info_true(a, "open") && strcmp(madi_info_text(a, "driver"), "self") != 0)
            madi_info_found(findings, "security", strcmp(madi_info_text(a, "security"), "none") ? MADI_OK : MADI_BAD,
                            "give this network auth or seal: MAD_TCP_SECURITY, or the topology file", "%s on %s: %s",
                            madi_info_text(a, "driver"), madi_info_text(a, "adapter"), madi_info_text(a, "protection"));
    }
    madi_info_found(findings, "session", n > 1 ? MADI_OK : MADI_WARNING, "no other process can be reached: see MAD_DRIVERS",
                    "opened with %s", n ? list : "no adapter");
    json_decref(sessions);
}

/* ---- Leftovers -------------------------------------------------------------------------------------------------- */

static void check_stale(json_t *findings)
{
    char dir[64], path[400], reason[200];
    struct stat st;
    struct dirent *e;
    int stale = 0, live = 0;
    DIR *d;
    madi_unix_dir_default(dir, sizeof dir);
    if (!madi_unix_dir(dir, &st, reason, sizeof reason)) {
        madi_info_found(findings, "directory", MADI_BAD,
                        "shm and 'mad_info explain' need it: remove what is there, or free /tmp", "%s", reason);
        return;
    }
    d = opendir(dir);
    while (d && (e = readdir(d))) {
        int fd;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        fd = madi_unix_connect(path);
        if (fd >= 0)
            close(fd);
        stale += fd < 0 && errno == ECONNREFUSED;
        live += fd >= 0;
    }
    if (d)
        closedir(d);
    madi_info_found(findings, "left behind", stale ? MADI_WARNING : MADI_OK,
                    "of processes that were killed; the next session of this user removes them",
                    "%d sockets of dead processes in %s, %d of live ones", stale, dir, live);
}

void madi_info_check_library(json_t *findings)
{
    check_stale(findings); /* check this first, because opening a session would remove the leftovers */
    check_session(findings);
}
