/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_jobfile.h"

#include "tools/madgw_join.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_topology.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char written[PATH_MAX]; /* "": none */

static int fill(FILE *file)
{
    const char *topology = madi_run_topology_text();
    bool good;
    fprintf(file, MADI_JOB_FILE "\n");
    good = madi_run_pmi_write(file);
    fprintf(file, "topology %zu\n%s", topology ? strlen(topology) : 0, topology ? topology : "");
    return fclose(file) == 0 && good ? 0 : -1;
}

/* A new file beside the one that path names, for its owner alone; its name into next.  -1: errno says why. */
static int next_make(const char *path, char *next, size_t len)
{
    if ((size_t)snprintf(next, len, "%s.XXXXXX", path) < len)
        return mkstemp(next);
    errno = ENAMETOOLONG;
    return -1;
}

int madi_run_job_file_check(const char *path, char *why, size_t len)
{
    char next[PATH_MAX];
    struct stat there;
    int fd = stat(path, &there) == 0 && S_ISDIR(there.st_mode) ? (errno = EISDIR, -1) : next_make(path, next, sizeof(next));
    if (fd < 0) {
        snprintf(why, len, "%s", strerror(errno));
        return -1;
    }
    close(fd);
    unlink(next);
    return 0;
}

int madi_run_job_file_write(const char *path, char *why, size_t len)
{
    char next[PATH_MAX];
    FILE *file = NULL;
    int fd = next_make(path, next, sizeof(next)), result = -1;
    if (fd >= 0 && (file = fdopen(fd, "w")) != NULL)
        result = fill(file);
    else if (fd >= 0)
        close(fd);
    if (result == 0)
        result = rename(next, path);
    if (result != 0) {
        snprintf(why, len, "%s", strerror(errno));
        if (fd >= 0)
            unlink(next);
        return -1;
    }
    snprintf(written, sizeof(written), "%s", path);
    return 0;
}

void madi_run_job_file_remove(void)
{
    if (written[0])
        unlink(written);
    written[0] = 0;
}
