/* SPDX-License-Identifier: BSD-3-Clause */
/* A substitute for a kernel that has TLS: this library is loaded before all others (LD_PRELOAD), and does in setsockopt,
 * send and sendmsg what kernel TLS does for sending.
 *   KERNEL_TLS=old      keys cannot be changed (before Linux 6.14)      KERNEL_TLS=wrong  every 7th record is damaged
 * At the end of each process one line on standard error has the number of records that were made, and of keys. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TEXT 16384
#define FDS 1024

typedef struct state {
    bool on, keyed;
    EVP_CIPHER_CTX *cipher;
    unsigned char iv[12], seq[8];
    unsigned char *wait; /* bytes of records that the socket has not accepted yet */
    size_t at, n;
} state_t;

static state_t states[FDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int records, keys;
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_setsockopt)(int, int, int, const void *, socklen_t);
static int (*real_close)(int);
static FILE *(*real_fopen)(const char *, const char *);

static const char *kind(void)
{
    return getenv("KERNEL_TLS") ? getenv("KERNEL_TLS") : "";
}

/* Write the waiting bytes as far as the socket accepts them.  Called with the lock held. */
static void push(int fd)
{
    state_t *s = &states[fd];
    while (s->at < s->n) {
        ssize_t n = real_send(fd, s->wait + s->at, s->n - s->at, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0)
            return;
        s->at += (size_t)n;
    }
    s->at = s->n = 0;
}

static void *pusher(void *arg)
{
    (void)arg;
    for (;;) {
        usleep(500);
        pthread_mutex_lock(&lock);
        for (int fd = 0; fd < FDS; fd++)
            if (states[fd].on && states[fd].n)
                push(fd);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void counts_print(void)
{
    if (atomic_load(&keys))
        fprintf(stderr, "kernel_tls: %d records, %d keys\n", atomic_load(&records), atomic_load(&keys));
}

static void begin(void)
{
    pthread_t thread;
    *(void **)&real_send = dlsym(RTLD_NEXT, "send");
    *(void **)&real_sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    *(void **)&real_setsockopt = dlsym(RTLD_NEXT, "setsockopt");
    *(void **)&real_close = dlsym(RTLD_NEXT, "close");
    *(void **)&real_fopen = dlsym(RTLD_NEXT, "fopen");
    atexit(counts_print);
    if (!pthread_create(&thread, NULL, pusher, NULL))
        pthread_detach(thread);
}

static bool sealed(int fd)
{
    pthread_once(&once, begin);
    return fd >= 0 && fd < FDS && states[fd].on && states[fd].keyed;
}

/* Append a record to the waiting bytes.  Called with the lock held. */
static void record(state_t *s, unsigned char type, const unsigned char *text, size_t len)
{
    unsigned char *head = s->wait + s->n, *to = head + 5, nonce[12];
    int n;
    memcpy(nonce, s->iv, sizeof nonce);
    for (int i = 0; i < 8; i++)
        nonce[4 + i] ^= s->seq[i];
    for (int i = 7; i >= 0 && !++s->seq[i]; i--)
        ;
    head[0] = 23;
    head[1] = head[2] = 3;
    head[3] = (unsigned char)((len + 17) >> 8);
    head[4] = (unsigned char)(len + 17);
    EVP_EncryptInit_ex(s->cipher, NULL, NULL, NULL, nonce);
    EVP_EncryptUpdate(s->cipher, NULL, &n, head, 5);
    EVP_EncryptUpdate(s->cipher, to, &n, text, (int)len);
    EVP_EncryptUpdate(s->cipher, to + len, &n, &type, 1);
    EVP_EncryptFinal_ex(s->cipher, to + len + 1, &n);
    EVP_CIPHER_CTX_ctrl(s->cipher, EVP_CTRL_AEAD_GET_TAG, 16, to + len + 1);
    s->n += len + 22;
    if (atomic_fetch_add(&records, 1) % 7 == 6 && !strcmp(kind(), "wrong"))
        head[len] ^= 1;
}

static ssize_t sealed_send(int fd, unsigned char type, const struct iovec *vec, size_t n)
{
    static unsigned char text[8 * TEXT];
    state_t *s = &states[fd];
    size_t len = 0;
    pthread_mutex_lock(&lock);
    push(fd);
    if (s->n) {
        pthread_mutex_unlock(&lock);
        errno = EAGAIN;
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        size_t part = vec[i].iov_len < sizeof text - len ? vec[i].iov_len : sizeof text - len;
        if (part)
            memcpy(text + len, vec[i].iov_base, part);
        len += part;
    }
    for (size_t at = 0; at < len; at += TEXT)
        record(s, type, text + at, len - at < TEXT ? len - at : TEXT);
    push(fd);
    pthread_mutex_unlock(&lock);
    return (ssize_t)len;
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
    struct iovec vec = {(void *)bytes, len};
    return sealed(fd) ? sealed_send(fd, 23, &vec, 1) : real_send(fd, bytes, len, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    const struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    if (!sealed(fd))
        return real_sendmsg(fd, msg, flags);
    return sealed_send(fd, c ? *CMSG_DATA(c) : 23, msg->msg_iov, msg->msg_iovlen);
}

static int key_take(int fd, const void *value, socklen_t len)
{
    const struct tls12_crypto_info_aes_gcm_128 *info = value;
    state_t *s = &states[fd];
    if (!s->on || len != sizeof *info || info->info.version != TLS_1_3_VERSION ||
        info->info.cipher_type != TLS_CIPHER_AES_GCM_128 || (s->keyed && !strcmp(kind(), "old"))) {
        errno = s->keyed ? EBUSY : EINVAL;
        return -1;
    }
    s->wait = s->wait ? s->wait : malloc(9 * (TEXT + 22));
    s->cipher = s->cipher ? s->cipher : EVP_CIPHER_CTX_new();
    EVP_EncryptInit_ex(s->cipher, EVP_aes_128_gcm(), NULL, info->key, NULL);
    memcpy(s->iv, info->salt, 4);
    memcpy(s->iv + 4, info->iv, 8);
    memcpy(s->seq, info->rec_seq, 8);
    s->keyed = true;
    atomic_fetch_add(&keys, 1);
    return 0;
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    int rc = 0;
    pthread_once(&once, begin);
    if (fd < 0 || fd >= FDS || ((level != 282 || name != TLS_TX) && (level != IPPROTO_TCP || name != TCP_ULP)))
        return real_setsockopt(fd, level, name, value, len);
    pthread_mutex_lock(&lock);
    if (level == 282)
        rc = key_take(fd, value, len);
    else
        states[fd].on = true;
    pthread_mutex_unlock(&lock);
    return rc;
}

int close(int fd)
{
    pthread_once(&once, begin);
    if (fd >= 0 && fd < FDS && states[fd].on) {
        pthread_mutex_lock(&lock);
        EVP_CIPHER_CTX_free(states[fd].cipher);
        free(states[fd].wait);
        memset(&states[fd], 0, sizeof states[fd]);
        pthread_mutex_unlock(&lock);
    }
    return real_close(fd);
}

FILE *fopen(const char *path, const char *mode)
{
    pthread_once(&once, begin);
    if (strcmp(path, "/proc/sys/net/ipv4/tcp_available_ulp") != 0)
        return real_fopen(path, mode);
    return fmemopen((void *)"mptcp tls\n", 10, "r");
}
