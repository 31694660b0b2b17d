/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait policy: when a thread that waits for messages spins, yields and sleeps.  All numbers are here, and the decisions that
 * are made of them: pure ones below, those that need the server's state in wait_policy.c.  Only this header may be
 * included by runtimes outside of the library: it needs no symbol.
 *
 * A wait (marceli_wait; the course is leader.c's):
 *
 *   spin    test, and look at memory.  Every MADI_CLOCK_EVERY looks at the clock, every MADI_DEEP_EVERY at the descriptors.
 *     |     A plain thread yields once in MADI_YIELD_EVERY_NS.
 *     |     Ends after spin_ns: 0 where waiting threads outnumber cores; else MAD_SPIN, MADI_SPIN_NS or, if that is longer,
 *     |     what the wait is likely to take (waiter->expected).
 *     +-- user-level thread: leaves its worker to the scheduler, which looks every MADI_LOOK_MIN_NS to MADI_LOOK_MAX_NS.
 *     |   A worker with nothing to run waits like a plain thread
 *     +-- another thread leads: sleep on a futex (follower.c).  One idle worker as the deputy wakes each MADI_DEPUTY_NS
 *     v
 *   yield   leader: sched_yield and look, until spin and yields have taken MADI_SPIN_NS; not with MAD_SPIN
 *     v
 *   sleep   leader: in epoll with all categories armed; at most MADI_FENCELESS_NS without membarrier, MADI_RETRY_SEND_NS
 *           with packets that a full ring has refused
 *
 *   A yield that takes long met a computing process: MADI_YIELD_BAN times as long there are no yields.  A worker whose
 *   spinning was interrupted for MADI_SPIN_CUT_NS does not spin for as long.
 *
 * Other waits:
 *
 *   thread                  spins                    yields                      sleeps
 *   ----------------------  -----------------------  --------------------------  -----------------------------------------
 *   mad_begin_unpacking,    marceli_spins looks,     no                          then as above
 *   mad_request_wait        no clock
 *   rest of a block that    MADI_REST_SPINS looks    no                          as above, with a look each
 *   is being written                                                             MADI_REST_LOOK_NS
 *   progress thread         no                       like a leader, if it only   epoll while it is needed, else futex, with
 *                                                    serves others               looks each MADI_TICK_NS for MADI_TICKS
 *   accept thread           no                       no                          epoll; MADI_NAP_MIN_MS to MADI_NAP_MAX_MS
 *                                                                                while other threads are to be first
 *   gateway (madgw)         as above                 progress thread's           as above; MADI_FORWARDED_LOOK_NS
 *   MPI device              every call a look        MADI_DEVICE_YIELD_EVERY     MADI_DEVICE_NAP_NS after
 *                                                                                MADI_DEVICE_QUIET_NS without a message
 *   Open MPI component      every call a look        MADI_BTL_YIELD_EVERY, with  own thread: MADI_BTL_LOOK_NS
 *                                                    btl_mad_async
 *   Open MPI layer          every turn a look        Open MPI's progress each    no
 *                                                    MADI_PML_OTHERS_EVERY
 *   libfabric's provider    MADI_OFI_MOMENT_NS       if nothing sleeps there     MADI_OFI_SLICE_MS
 *
 * Left out are short waits for another thread of the process, as for a lock, a hand-over of marcel, or a fork.  How often a
 * round of progress looks at each network is core/progress's choice. */
#ifndef MADI_WAIT_POLICY_H
#define MADI_WAIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* ---- A wait: spin and yield (doc/rationale.md, "Waiting and the engine") -------------------------------------------- */

#define MADI_SPIN_NS 100000  /* ns of spinning; when not every waiting thread has a core, of yielding instead */
#define MADI_SPINS_MAX 1000  /* looks at the beginning of a wait, before the clock is read */
#define MADI_SPIN_LOOK_NS 40 /* ns of one of these */
#define MADI_CLOCK_EVERY 32  /* spins between looks at the clock; 1 if looks make system calls, which take longer than it */
#define MADI_DEEP_EVERY 256  /* spins between looks at the descriptors */
#define MADI_SPIN_CUT_NS 500000    /* ns; a worker that was made to leave its spinning for longer shares its core */
#define MADI_YIELD_EVERY_NS 10000  /* ns of spinning between yields: the awaited peer may need the same processor */
#define MADI_YIELD_SLOW_NS 50000   /* ns; a yield that took longer met a computing process */
#define MADI_YIELD_LONG_NS 1000000 /* ns; likewise, while the thread spins */
#define MADI_YIELD_BAN 64          /* factor: times as long as the slow one took there are no yields ... */
#define MADI_YIELD_BAN_MAX INT64_C(2000000000) /* ... ns, at most */

/* True if the look number `spins` of a spinning thread is followed by one at the clock. */
static inline bool madi_spin_reads_clock(uint32_t spins, bool looks_dear)
{
    return spins % MADI_CLOCK_EVERY == 0 || looks_dear;
}

/* True if the look number `spins` includes the descriptors, which costs a system call. */
static inline bool madi_spin_looks_deep(uint32_t spins)
{
    return spins % MADI_DEEP_EVERY == 0;
}

/* ---- Sleep --------------------------------------------------------------------------------------------------------- */

#define MADI_FENCELESS_NS 100000000 /* ns of a leader's longest sleep without membarrier: some stores have no fence */
#define MADI_RETRY_SEND_NS 1000000  /* ns until a refused send is tried again: a full ring has no descriptor */
#define MADI_REST_SPINS 4096        /* looks for the rest of a block: longer than a sender takes that has a core */
#define MADI_REST_LOOK_NS \
    1000000                   /* ns between looks of one that sleeps: the bell rings for the thread that leads, and
                                      * this may be another */
#define MADI_DEPUTY_NS 500000 /* ns between looks of the deputy */
#define MADI_DEPUTY_BAN_NS \
    (32 * MADI_DEPUTY_NS)     /* ns in which an idle worker is called at once, if the deputy led too often */
#define MADI_RETURNS_OF_ONE 4 /* returns of leaders that make good for one that did not return */
#define MADI_RETURNS_KEPT 16  /* most returns that are counted */

/* ---- Threads of the library --------------------------------------------------------------------------------------- */

#define MADI_TICK_NS INT64_C(4000000)    /* ns between looks of the progress thread by the clock */
#define MADI_TICKS 25                    /* looks after the last operation that others finish */
#define MADI_POLLS_BACK 64               /* polls after a hand-over, from which on the program is one that polls */
#define MADI_POLL_SOON_NS INT64_C(20000) /* ns; a program that polls later than that after it left something has computed */
#define MADI_LOOK_MIN_NS 1000            /* ns between two looks in vain of a busy scheduler; doubled each time ... */
#define MADI_LOOK_MAX_NS 256000          /* ... up to this */
#define MADI_NAP_MIN_MS 1  /* ms that a thread inside the library has to see an incoming connection first ... */
#define MADI_NAP_MAX_MS 64 /* ... doubled up to this while no thread can accept it */
#define MADI_FORWARDED_LOOK_NS 100000000 /* ns between looks of the accept thread for connections through gateways */
#define MADI_LOCKED_LOOK_NS 100000000    /* ns until it looks again for due work, when another thread held the lock */

/* True if the progress thread yields before it sleeps.  serves, pending: number of operations that never end, being there for
 * others, and of all operations.  What has come for others is followed by more; beside requests the program computes, and
 * the other processor may have the peer that sends what they wait for. */
static inline bool madi_thread_yields(int serves, int pending)
{
    return serves > 0 && serves == pending;
}

/* Return the time in ns until the next look of a busy scheduler; every: the last such time, events: of the look now. */
static inline int64_t madi_look_every(int64_t every, int events)
{
    if (events)
        return 0;
    if (every >= MADI_LOOK_MAX_NS)
        return every;
    return every ? every * 2 : MADI_LOOK_MIN_NS;
}

/* ---- Runtimes that poll --------------------------------------------------------------------------------------------- */

#define MADI_POLL_CLOCK_EVERY 8 /* calls without a message until a look at the clock */
#define MADI_POLL_ALL_EVERY 64  /* calls without a message until all networks get their turn, whatever the clock says */

#define MADI_DEVICE_LOSSES_EVERY 1024 /* calls without a message until a look at what has become of peers */
#define MADI_DEVICE_GLANCES 64        /* looks of a blocking receive until it is posted */
#define MADI_DEVICE_YIELD_EVERY 256   /* calls without a message until the processor is offered to others */
#define MADI_DEVICE_HANDLED 4 /* calls that one counts for with a handler: the peer's thread may move what is awaited */
#define MADI_DEVICE_QUIET_NS INT64_C(100000000) /* ns without a message, after which the thread naps instead of yielding */
#define MADI_DEVICE_NAP_NS 20000                /* ns of a nap, and what the kernel adds to that */
#define MADI_DEVICE_LINGER_US 100               /* us between looks at the end, for sends that the receiver has not taken */

#define MADI_BTL_LOSSES_EVERY 4096 /* calls without a fragment until a look at what has become of peers */
#define MADI_BTL_YIELD_EVERY \
    64                           /* calls without a fragment until the processor is offered, with btl_mad_async: the
                                       * thread of a computing peer may have been woken on this processor, and the kernel
                                       * does not interrupt a thread that spins for it, for milliseconds */
#define MADI_BTL_ROOM_US 500     /* us that a thread waits for room at most, yielding */
#define MADI_BTL_LOOK_NS 1000000 /* ns between looks of the component's thread, and its longest sleep in the library */
#define MADI_BTL_BUSY_NS 100000  /* ns; likewise, during a get, whose end that thread reports */

#define MADI_PML_OTHERS_EVERY 64 /* turns of a wait until all of Open MPI makes progress; 1 if Open MPI yields there */

#define MADI_OFI_SLICE_MS 100              /* ms between looks of a waiting thread for lost peers */
#define MADI_OFI_MOMENT_NS INT64_C(100000) /* ns of waiting before the program sleeps outside: MADI_SPIN_NS */
#define MADI_OFI_LOOKS 8                   /* looks of one read that finds messages, and nothing to read */

/* True if work that is due once in `every` calls in vain is due in this one; turn: number of calls in vain before it. */
static inline bool madi_poll_due(unsigned turn, unsigned every)
{
    return turn % every == every - 1;
}

/* True if a call in vain offers the processor to others; before, after: calls in vain without it and with it. */
static inline bool madi_device_yields(unsigned before, unsigned after)
{
    return after / MADI_DEVICE_YIELD_EVERY > before / MADI_DEVICE_YIELD_EVERY;
}

/* True if a thread that offers its processor naps, rather than yields, after ns without a message.  A processor that is only
 * offered may stay with the thread all the same. */
static inline bool madi_device_naps(int64_t ns)
{
    return ns >= MADI_DEVICE_QUIET_NS;
}

#endif
