/* SPDX-License-Identifier: BSD-3-Clause */
/* The provider's key: texts, files, and the choice of the source. */
#include "key.h"
#include "ofi.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parameters of scrypt.  A user's text has less entropy than its length suggests, so each guess must cost 16 MiB and
 * a tenth of a second of a core.  The values are among the minimum parameters of OWASP's Password Storage Cheat
 * Sheet.  The salt is constant, because peers share only the text. */
#define SCRYPT_SALT "madeleine FI_MAD_KEY 1"
#define SCRYPT_N 16384
#define SCRYPT_R 8
#define SCRYPT_P 5
#define SCRYPT_MEMORY ((uint64_t)64 << 20) /* bytes: OpenSSL's limit of memory; slightly more than 16 MiB is needed */

#define TEXT_MAX 1024 /* most characters of FI_MAD_KEY */
#define ESTIMATED 256 /* number of leading characters from which the entropy is estimated */
#define TEXT_REMEDY "take one from: openssl rand -base64 24"

/* ---- Texts -------------------------------------------------------------------------------------------------------- */

static int key_derive(mad_mpi_key_t *key, const char *text, size_t len, const char *name)
{
    size_t seen = len < ESTIMATED ? len : ESTIMATED;
    int bits = mad_mpi_key_bits(text, seen);
    mad_mpi_key_wipe(key);
    if (len < MAD_MPI_KEY_MIN || len > TEXT_MAX) {
        snprintf(key->why, sizeof key->why, "%.200s has %zu characters, and a key has %d to %d; " TEXT_REMEDY, name, len,
                 MAD_MPI_KEY_MIN, TEXT_MAX);
        return -1;
    }
    if (bits < MAD_MPI_KEY_BITS_MIN) {
        snprintf(
            key->why, sizeof key->why,
            "%.200s holds a text that can be guessed: its %zu characters have %d bits of entropy at most, and a key has %d "
            "at least; " TEXT_REMEDY,
            name, len, bits, MAD_MPI_KEY_BITS_MIN);
        return -1;
    }
    if (EVP_PBE_scrypt(text, len, (const unsigned char *)SCRYPT_SALT, sizeof SCRYPT_SALT - 1, SCRYPT_N, SCRYPT_R, SCRYPT_P,
                       SCRYPT_MEMORY, key->bytes, MAD_MPI_KEY_MADE) != 1) {
        snprintf(
            key->why, sizeof key->why,
            "OpenSSL derives no key from %.200s (scrypt refused, as in FIPS mode, or no memory); set FI_MAD_KEY_FILE to a "
            "file of 32 random bytes",
            name);
        mad_mpi_key_wipe(key);
        return -1;
    }
    key->len = MAD_MPI_KEY_MADE;
    key->source = "a text";
    return 1;
}

/* Read FI_MAD_KEY, but not with fi_param_get, because that logs values. */
int mad_ofi_key_text(mad_mpi_key_t *key)
{
    const char *text = secure_getenv("FI_MAD_KEY");
    return text ? key_derive(key, text, strlen(text), "FI_MAD_KEY") : 0;
}

/* ---- Files -------------------------------------------------------------------------------------------------------- */

/* Create the file, which appears only with its content.  A process that finds a file made meanwhile uses that one. */
static bool file_make(const char *path)
{
    char other[4160];
    mad_mpi_key_t key = {.len = 0};
    bool good;
    int fd;
    snprintf(other, sizeof other, "%s.%ld", path, (long)getpid());
    if (!mad_mpi_key_make(&key, path))
        return false;
    fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) {
        good = write(fd, key.bytes, key.len) == (ssize_t)key.len;
        good = !close(fd) && good;
        good = good && (!link(other, path) || errno == EEXIST);
        unlink(other);
    }
    mad_mpi_key_wipe(&key);
    return fd >= 0 && good;
}

/* Return the reason why the file cannot hold a key, by ssh's rules for key files; NULL if the file can hold one. */
static const char *file_fault(int fd)
{
    struct stat st;
    if (fstat(fd, &st))
        return "cannot be examined";
    if (!S_ISREG(st.st_mode))
        return "is no plain file; name one";
    if (st.st_uid != geteuid())
        return "belongs to another user; make a copy of your own (chmod 600)";
    if (st.st_mode & 077)
        return "is not a file that only its owner can read (chmod 600)";
    return NULL;
}

/* Return the length of the text without its newline; 0 if the bytes are not text. */
static size_t text_len(const unsigned char *bytes, size_t len)
{
    while (len && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r'))
        len--;
    for (size_t i = 0; i < len; i++)
        if (bytes[i] < ' ' || bytes[i] > '~')
            return 0;
    return len;
}

static int file_take(mad_mpi_key_t *key, int fd, const char *path)
{
    unsigned char bytes[TEXT_MAX + 1];
    ssize_t n = read(fd, bytes, sizeof bytes);
    size_t text = n > 0 ? text_len(bytes, (size_t)n) : 0;
    int found = -1;
    if (n < 0) {
        snprintf(key->why, sizeof key->why, "%.200s cannot be read: %s", path, strerror(errno));
    } else if (text) {
        found = key_derive(key, (const char *)bytes, text, path);
    } else {
        key->len = (size_t)n < sizeof key->bytes ? (size_t)n : sizeof key->bytes;
        memcpy(key->bytes, bytes, key->len);
        key->source = "a file";
        found = mad_mpi_key_fit(key, path, "make one: openssl rand -out FILE 32; chmod 600 FILE") ? 1 : -1;
    }
    OPENSSL_cleanse(bytes, sizeof bytes);
    return found;
}

static int key_file_read(mad_mpi_key_t *key, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY), found = -1;
    const char *fault;
    if (fd < 0) {
        snprintf(key->why, sizeof key->why, "%.200s: %s", path,
                 errno == ELOOP ? "is a symbolic link; name the file that it leads to" : strerror(errno));
        return errno == ENOENT ? 0 : -1;
    }
    fault = file_fault(fd);
    if (fault)
        snprintf(key->why, sizeof key->why, "%.200s %s", path, fault);
    else
        found = file_take(key, fd, path);
    close(fd);
    return found;
}

int mad_ofi_key_file(mad_mpi_key_t *key, const char *path)
{
    int found = key_file_read(key, path);
    if (!found && file_make(path))
        found = key_file_read(key, path);
    if (!found)
        snprintf(key->why, sizeof key->why, "%.200s is not there and cannot be made; set FI_MAD_KEY_FILE to another", path);
    return found ? found : -1;
}

static int file_named(mad_mpi_key_t *key)
{
    char *path = NULL;
    if (fi_param_get_str(&mad_ofi_provider, "key_file", &path) || !path)
        return 0;
    return mad_ofi_key_file(key, path);
}

static int file_of_user(mad_mpi_key_t *key)
{
    const char *home = secure_getenv("HOME");
    char path[4096];
    if (!home || !*home || strlen(home) > sizeof path - sizeof "/.madeleine-key") {
        snprintf(key->why, sizeof key->why, "there is no key, and HOME names no place for one; set FI_MAD_KEY_FILE");
        return -1;
    }
    snprintf(path, sizeof path, "%s/.madeleine-key", home);
    return mad_ofi_key_file(key, path);
}

/* ---- The key of the process --------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mad_mpi_key_t known; /* the key; protected by the lock; its len is 0 until the key is found */

static int key_find(mad_mpi_key_t *key)
{
    static int (*const sources[])(mad_mpi_key_t *) = {mad_ofi_key_text, mad_mpi_key_environment, file_named,
                                                      mad_ofi_key_pmix, file_of_user};
    int found = 0;
    for (size_t i = 0; !found && i < sizeof sources / sizeof *sources; i++) {
        key->why[0] = 0;
        found = sources[i](key);
        if (!found && key->why[0])
            MAD_OFI_INFO(FABRIC, "%s\n", key->why);
    }
    if (found > 0)
        MAD_OFI_INFO(FABRIC, "the key is from: %s\n", key->source);
    else
        /* print the reason here too, because libfabric's own log is off by default */
        fprintf(stderr, "mad: libfabric: error: no key: %s\n", key->why);
    return found;
}

int mad_ofi_key(unsigned char key[64])
{
    int len = -FI_EACCES;
    pthread_mutex_lock(&lock);
    if (known.len || key_find(&known) > 0) {
        memcpy(key, known.bytes, known.len);
        len = (int)known.len;
    }
    pthread_mutex_unlock(&lock);
    return len;
}

void mad_ofi_key_forget(void)
{
    pthread_mutex_lock(&lock);
    mad_mpi_key_wipe(&known);
    pthread_mutex_unlock(&lock);
}
