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

int madi_run_job_file_write(const char *path, char *why, size_t len)
{
    char next[PATH_MAX];
    FILE *file = NULL;
    int fd = -1, result = -1;
    if ((size_t)snprintf(next, sizeof(next), "%s.XXXXXX", path) < sizeof(next))
        fd = mkstemp(next); /* for its owner alone */
    else
        errno = ENAMETOOLONG;
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
