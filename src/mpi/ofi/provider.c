/* SPDX-License-Identifier: BSD-3-Clause */
/* Found by libfabric: parameters. */
#include "ofi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_LEN 32 /* bytes of a key that is made here */

/* ---- The key ------------------------------------------------------------------------------------------------------ */

static int key_from_text(const char *text, unsigned char key[64])
{
    size_t n = strlen(text);
    if (n < 16)
        return -FI_EINVAL;
    if (n > 64)
        n = 64;
    memcpy(key, text, n);
    return (int)n;
}

static bool random_bytes(unsigned char *bytes, size_t n)
{
    return getrandom(bytes, n, 0) == (ssize_t)n;
}

/* A file appears with its content, or not at all; who comes second takes what is there. */
static bool file_make(const char *path)
{
    unsigned char key[KEY_LEN];
    char other[4160];
    bool good;
    int fd;
    snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    if (!random_bytes(key, sizeof key))
        return false;
    fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    good = write(fd, key, sizeof key) == (ssize_t)sizeof key;
    good = !close(fd) && good;
    good = good && (!link(other, path) || errno == EEXIST);
    unlink(other);
    return good;
}

/* Like keys of ssh: nobody else may read it. */
static int file_read(const char *path, unsigned char key[64])
{
    struct stat st;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
        n = read(fd, key, 64);
    else
        MAD_OFI_WARN(FABRIC, "%s is not a file that only its owner can read (chmod 600)\n", path);
    close(fd);
    return n >= 16 ? (int)n : -FI_EACCES;
}

static int key_from_file(unsigned char key[64])
{
    char path[4096];
    char *named = NULL;
    const char *home = secure_getenv("HOME");
    int n;
    if (fi_param_get_str(&mad_ofi_provider, "key_file", &named) == 0 && named)
        snprintf(path, sizeof path, "%s", named);
    else if (home && *home)
        snprintf(path, sizeof path, "%s/.madeleine-key", home);
    else
        return -FI_ENODATA;
    n = file_read(path, key);
    if (n == -ENOENT && file_make(path))
        n = file_read(path, key);
    if (n < 0)
        MAD_OFI_WARN(FABRIC, "no key in %s: set FI_MAD_KEY, or FI_MAD_KEY_FILE\n", path);
    return n;
}

/* What is said here, else what the gateways have, too, else that of the job: Open MPI's launcher gives all its processes,
 * and those that they start, the same 128 random bits. */
int mad_ofi_key(unsigned char key[64])
{
    char *text = NULL;
    const char *job = secure_getenv("OMPI_MCA_orte_precondition_transports");
    int n;
    if (fi_param_get_str(&mad_ofi_provider, "key", &text) == 0 && text) {
        n = key_from_text(text, key);
        if (n < 0)
            MAD_OFI_WARN(FABRIC, "FI_MAD_KEY has less than 16 characters\n");
        return n;
    }
    n = mad_mpi_key(key);
    if (n < 0)
        MAD_OFI_WARN(FABRIC, "MADELEINE_KEY is not valid: it has 32 to 128 hexadecimal digits\n");
    if (n)
        return n < 0 ? -FI_EINVAL : n;
    if (job && strlen(job) >= 16)
        return key_from_text(job, key);
    return key_from_file(key);
}

/* Some clients have room for 48 bytes and end with an assertion where a name is longer.  In a job with a topology file, which all
 * its processes have, a name also holds a place in it: there it is as long as Open MPI has room for. */
size_t mad_ofi_name_len(void)
{
    static atomic_size_t known;
    const char *topology = secure_getenv("MAD_TOPOLOGY");
    size_t len = atomic_load_explicit(&known, memory_order_relaxed);
    if (len)
        return len;
    if (fi_param_get_size_t(&mad_ofi_provider, "name_len", &len) || len < 40 || len > MAD_OFI_NAME_MAX)
        len = topology && *topology ? FI_NAME_MAX : 48;
    atomic_store_explicit(&known, len, memory_order_relaxed);
    return len;
}

/* ---- What libfabric looks for -------------------------------------------------------------------------------------- */

static void cleanup(void)
{
    mad_ofi_key_forget();
}

struct fi_provider mad_ofi_provider = {
    .version = FI_VERSION(MAD_VERSION_MAJOR, MAD_VERSION_MINOR),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .name = "mad",
    .getinfo = mad_ofi_getinfo,
    .fabric = mad_ofi_fabric,
    .cleanup = cleanup,
};

/* libfabric looks for this name. */
struct fi_provider *fi_prov_ini(void);
FI_EXT_INI
{
    fi_param_define(&mad_ofi_provider, "key", FI_PARAM_STRING,
                    "Secret text of at least 16 characters that all processes share which may talk to each other, not to be "
                    "guessed (openssl rand -base64 24); a file is more private (default: the launcher's key)");
    fi_param_define(&mad_ofi_provider, "key_file", FI_PARAM_STRING,
                    "File with that secret, or with 16 to 64 random bytes; no link, and only its owner can read it; made if it "
                    "is not there (default: $HOME/.madeleine-key, where no launcher passes a key)");
    fi_param_define(&mad_ofi_provider, "name_len", FI_PARAM_SIZE_T,
                    "Bytes of an endpoint's name, 40 to 255, the same for all processes; more for hosts of many networks, but "
                    "some clients have room for 48 only, Open MPI for 64 (default: 48, with MAD_TOPOLOGY 64)");
    return &mad_ofi_provider;
}
