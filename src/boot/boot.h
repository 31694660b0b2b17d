/* SPDX-License-Identifier: BSD-3-Clause */
/* Bootstrap: who am I, how many are we, what is your address.
 *
 * One interface over the launchers, tried in this order: our launcher (MAD_BOOT_FD: the PMI-1 wire protocol on an
 * inherited descriptor), PMIx, PMI-1 (PMI_FD), alone.  Calls are made by one thread at a time (the caller locks), but
 * for fence: beside it another thread may make the others, which do not wait for its end.  They may block until the launcher
 * answers.  Values are text without blanks or newlines; the back ends split long ones. */
#ifndef MADI_BOOT_H
#define MADI_BOOT_H

#include <madeleine/status.h>
#include <stddef.h>

#define MADI_BOOT_KEY_MAX 64   /* bytes of a name, final zero included */
#define MADI_BOOT_VALUE_MAX 16384 /* bytes of a value, final zero included */
#define MADI_BOOT_AHEAD 64

typedef struct madi_boot madi_boot_t;

typedef struct madi_boot_ops {
    /* put: visible to others after the next fence.  get: of rank, waits at most until the launcher answers. */
    mad_status_t (*put)(madi_boot_t *boot, const char *key, const char *value);
    mad_status_t (*get)(madi_boot_t *boot, int rank, const char *key, char *value, size_t len);
    mad_status_t (*fence)(madi_boot_t *boot);
    /* The next n (at most MADI_BOOT_AHEAD) calls of get will be about this key, of these ranks, in this order: ask for all of
     * them now.  NULL: this launcher is asked one by one. */
    void (*ahead)(madi_boot_t *boot, const char *key, const int *ranks, int n);
    /* Tell the launcher that this process ends well; frees boot.  Called by madi_boot_leave. */
    void (*fini)(madi_boot_t *boot);
} madi_boot_ops_t;

struct madi_boot {
    const madi_boot_ops_t *ops;
    const char *launcher; /* its name for people; "none" */
    int rank, size;
    int gateways; /* processes of the job beside the ranks, which only forward: numbers size .. size + gateways - 1, in
                     `rank` of such a process, and in what get asks for.  Theirs is only the first fence. */
    int local;    /* processes of the job on this host, this one too; 0: not known */
    int sharers;  /* those of them that share this one's processors; 0: not known, or not before the first fence */
    char job[64];             /* the job's name, the same in all ranks */
    unsigned char key[32];    /* the job's secret, when the launcher passes one privately ... */
    size_t key_len;           /* ... else 0: the session agrees on one through put and get */
};

/* Find the launcher and join it.  Never fails because there is none.  MAD_ERR_BOOT, logged, when there is one that
 * does not answer, when this would be a session of one inside a step of many (SLURM_NTASKS > 1), or when this process
 * has joined a launcher and not left it (threads that do so at the same moment are not told apart). */
mad_status_t madi_boot_join(madi_boot_t **boot);
/* Leave it; frees boot. */
void madi_boot_leave(madi_boot_t *boot);

/* The session has taken the key: no copy of it stays here.  key_len stays. */
void madi_boot_key_wipe(madi_boot_t *boot);

/* What a launcher has said in the environment, such as mpirun to the processes of MPI, of whose ranks a session that they open
 * themselves knows nothing: the rank of this process, -1: nothing; and *size, 0: not how many there are. */
int madi_boot_told(int *size);

/* The number in a variable of the environment, if it holds one. */
long madi_boot_number(const char *variable, long otherwise);

/* The back ends: MAD_ERR_AGAIN when this launcher is not there. */
mad_status_t madi_boot_pmi1_join(const char *fd_variable, madi_boot_t **boot);
mad_status_t madi_boot_pmix_join(madi_boot_t **boot);
mad_status_t madi_boot_alone_join(madi_boot_t **boot);

#endif
