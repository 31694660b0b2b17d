/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madrun_jobfile.h"

#include "base/file.h"
#include "tools/madgw_join.h"
#include "tools/madrun_pmi.h"
#include "tools/madrun_topology.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char written[PATH_MAX]; /* "" if none */

static int fill(FILE *file)
{
    const char *topology = madi_run_topology_text();
    char buffer[BUFSIZ]; /* the stream's buffer, which is wiped afterwards because it contains the key */
    bool good;
    int result;
    setvbuf(file, buffer, _IOFBF, sizeof(buffer));
    fprintf(file, MADI_JOB_FILE "\n");
    good = madi_run_pmi_write(file);
    fprintf(file, "topology %zu\n%s", topology ? strlen(topology) : 0, topology ? topology : "");
    result = fclose(file) == 0 && good ? 0 : -1;
    explicit_bzero(buffer, sizeof(buffer));
    return result;
}

/* Create a temporary file beside path, readable by its owner only, whatever the umask, and store its name in next.
 * Return 0, or -1 with the reason in why. */
static int jobfile_create_next(const char *path, char *next, size_t next_len, char *why, size_t len)
{
    int fd;
    if (!madi_secret_free(path, why, len))
        return -1;
    if ((size_t)snprintf(next, next_len, "%s.XXXXXX", path) >= next_len) {
        snprintf(why, len, "%s", strerror(ENAMETOOLONG));
        return -1;
    }
    fd = mkostemp(next, O_CLOEXEC);
    if (fd >= 0 && fchmod(fd, 0600) == 0)
        return fd;
    snprintf(why, len, "%s", strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(next);
    }
    return -1;
}

int madi_run_job_file_check(const char *path, char *why, size_t len)
{
    char next[PATH_MAX];
    int fd = jobfile_create_next(path, next, sizeof(next), why, len);
    if (fd < 0)
        return -1;
    close(fd);
    unlink(next);
    return 0;
}

int madi_run_job_file_write(const char *path, char *why, size_t len)
{
    char next[PATH_MAX];
    FILE *file;
    int fd = jobfile_create_next(path, next, sizeof(next), why, len), result = -1;
    if (fd < 0)
        return -1;
    file = fdopen(fd, "w");
    if (file)
        result = fill(file);
    else
        close(fd);
    if (result == 0)
        result = rename(next, path);
    if (result != 0) {
        snprintf(why, len, "%s", strerror(errno));
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
