/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap: the rank of this process, the number of ranks, and the exchange of addresses.
 *
 * One interface over all launchers, tried in this order: our launcher (MAD_BOOT_FD: the PMI-1 wire protocol on an
 * inherited descriptor), PMIx, PMI-1 (PMI_FD), none.  One thread at a time makes the calls (the caller locks), with one
 * exception: while one thread is in fence, another one may make the other calls, which do not wait for the fence.  All
 * calls may block until the launcher answers.  Values are texts without blanks or newlines; the back ends split long
 * ones. */
#ifndef MADI_BOOT_H
#define MADI_BOOT_H

#include <madeleine/status.h>
#include <stddef.h>

#define MADI_BOOT_KEY_MAX 64      /* maximum number of bytes of a name, including the final zero */
#define MADI_BOOT_VALUE_MAX 16384 /* maximum number of bytes of a value, including the final zero */
#define MADI_BOOT_AHEAD 64

typedef struct madi_boot madi_boot_t;

typedef struct madi_boot_ops {
    /* put: publish a value, which others see after the next fence.  get: read a value that a rank has published.  get waits
     * for the launcher's answer, never for the rank. */
    mad_status_t (*put)(madi_boot_t *boot, const char *key, const char *value);
    mad_status_t (*get)(madi_boot_t *boot, int rank, const char *key, char *value, size_t len);
    mad_status_t (*fence)(madi_boot_t *boot);
    /* Prefetch values: the next n (at most MADI_BOOT_AHEAD) calls of get will be for this key, of these ranks, in this
     * order.  The member is NULL if the launcher answers only one query at a time. */
    void (*ahead)(madi_boot_t *boot, const char *key, const int *ranks, int n);
    /* Report a normal end to the launcher, and free the object boot.  Called by madi_boot_leave. */
    void (*fini)(madi_boot_t *boot);
} madi_boot_ops_t;

struct madi_boot {
    const madi_boot_ops_t *ops;
    const char *launcher; /* name for people; "none" */
    int rank, size;
    /* number of processes of the job that only forward; they have the numbers size .. size + gateways
                   * - 1, both in their own `rank` and for get.  Gateways take part in the first fence only. */
    int gateways;
    int local;    /* processes of the job on this host, including this one; 0: unknown */
    int sharers;  /* number of those processes that share this one's processors; 0 if unknown, or before the first fence */
    char job[64]; /* name of the job, equal in all ranks */
    unsigned char key[32]; /* the job's secret, if the launcher passes one privately */
    size_t key_len;        /* bytes of key; 0: none, and the session agrees on a key by put and get */
};

/* Find the launcher and join it; without a launcher, make a session of one.  MAD_ERR_BOOT, logged: the launcher
 * does not answer; or the process is one of many in a job step, and would have a session of one (SLURM_NTASKS >
 * 1); or this process has already joined a launcher and not left it (concurrent calls are not detected). */
mad_status_t madi_boot_join(madi_boot_t **boot);
/* Leave the launcher, and free boot. */
void madi_boot_leave(madi_boot_t *boot);

/* Erase the key from boot after the session has taken it; key_len stays. */
void madi_boot_key_wipe(madi_boot_t *boot);

/* Return the rank that a launcher's environment variables give this process, -1 if none.  *size: the number of ranks, 0
 * if unknown.  For sessions that a program opens by itself under another launcher, for instance mpirun. */
int madi_boot_environment_rank(int *size);

/* Return the number in an environment variable; `otherwise` if the variable holds none. */
long madi_boot_number(const char *variable, long otherwise);

/* Back ends.  MAD_ERR_AGAIN if this launcher is not present. */
mad_status_t madi_boot_pmi1_join(const char *fd_variable, madi_boot_t **boot);
mad_status_t madi_boot_pmix_join(madi_boot_t **boot);
mad_status_t madi_boot_alone_join(madi_boot_t **boot);

#endif
