/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on descriptors compared with the plain calls of those names.  Each row of a table is executed twice, on fresh
 * objects: once by the C library in a plain pthread, and once by libmarcel in a user-level thread.  A text is compared: the
 * result, the bytes, whether the call waited, and what is then found at both ends. */
#ifndef MARCEL_BESIDE_H
#define MARCEL_BESIDE_H

#include "support.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* One of the two sets of calls.  All of them return a negative error number if they fail. */
typedef struct calls {
    const char *name;
    ssize_t (*read)(int, void *, size_t);
    ssize_t (*readv)(int, const struct iovec *, int);
    ssize_t (*write)(int, const void *, size_t);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*recv)(int, void *, size_t, int);
    ssize_t (*send)(int, const void *, size_t, int);
    int (*accept)(int, struct sockaddr *, socklen_t *);
    int (*connect)(int, const struct sockaddr *, socklen_t);
    int (*close)(int);
    int (*poll)(int, int); /* the wait has a deadline in the past, unless the row has one */
} calls_t;

/* Objects on which a call is tried.  fd[0] is the call's descriptor.  All descriptors that are not -1 are closed
 * afterwards. */
typedef struct objects {
    int fd[4];
    const calls_t *calls;
    char text[4096]; /* record of what was found */
} objects_t;

void note(objects_t *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_bytes(objects_t *o, const void *bytes, ssize_t n);

typedef struct beside {
    const char *kind, *call;
    void (*make)(objects_t *o);
    void (*act)(objects_t *o);   /* make one call, or several */
    void (*later)(objects_t *o); /* end the wait of `act`; NULL: the call of `act` ends without this */
    void (*look)(objects_t *o);  /* note what is found at both ends afterwards; NULL: nothing is noted */
    int more_flags;              /* further flags of fd[0], like O_NONBLOCK */
} beside_t;

extern bool older; /* true: the kernel appears to be older than it is */

/* Execute a row in both ways, and compare the texts. */
void beside(const beside_t *row);

/* Make objects of common kinds. */
void make_pair(objects_t *o, int type);
void make_tcp(objects_t *o);
void unblock(int fd);

/* beside_cases.c */
void test_rows(void);

#endif
