/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait policy: when a thread that waits for messages spins, yields and sleeps.  All constants are here, with the
 * decisions that follow from them; decisions that need the server's state are in wait_policy.c.  Runtimes outside the
 * library may include this header, and no other, because it needs no symbol.
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
 *   A slow yield means that a computing process had the processor: no thread then yields for MADI_YIELD_BAN times its
 *   duration.  A worker whose spinning was interrupted for MADI_SPIN_CUT_NS does not spin for MADI_YIELD_BAN times the
 *   interruption.
 *
 * Other waits:
 *
 *   thread                  spins                    yields                      sleeps
 *   ----------------------  -----------------------  --------------------------  -----------------------------------------
 *   mad_begin_unpacking,    marceli_spins looks,     no                          then as above
 *   mad_request_wait        no clock
 *   collective operation    likewise                 where waiting threads       then as above
 *                                                    outnumber cores, for
 *                                                    MADI_SPIN_NS
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
 * Short waits for another thread of the process are left out, for instance for a lock, a hand-over of marcel, or a fork.
 * How often a round of progress polls each network is decided in core/progress. */
#ifndef MADI_WAIT_POLICY_H
#define MADI_WAIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* ---- A wait: spin and yield (doc/rationale.md, "Waiting and the engine") -------------------------------------------- */

#define MADI_SPIN_NS 100000  /* ns of spinning; if not every waiting thread has a core, ns of yielding instead */
#define MADI_SPINS_MAX 1000  /* maximum number of polls at the beginning of a wait, before the clock is read */
#define MADI_SPIN_LOOK_NS 40 /* ns that one of the polls of MADI_SPINS_MAX takes */
/* spins between two reads of the clock; 1 if polls make system calls, which take longer than the clock */
#define MADI_CLOCK_EVERY 32
#define MADI_DEEP_EVERY 256        /* spins between two polls of the descriptors */
#define MADI_SPIN_CUT_NS 500000    /* ns; a worker that lost its core for longer while it spun shares that core */
#define MADI_YIELD_EVERY_NS 10000  /* ns of spinning between yields: the awaited peer may need the same processor */
#define MADI_YIELD_SLOW_NS 50000   /* ns; after a longer yield a computing process had the processor */
#define MADI_YIELD_LONG_NS 1000000 /* ns; like MADI_YIELD_SLOW_NS, but for a thread that spins */
#define MADI_YIELD_BAN 64          /* factor: no yields for that many times the duration of a slow one */
#define MADI_YIELD_BAN_MAX INT64_C(2000000000) /* longest time without yields, in ns */

/* True if poll number `spins` of a spinning thread is followed by a read of the clock. */
static inline bool madi_spin_reads_clock(uint32_t spins, bool looks_dear)
{
    return spins % MADI_CLOCK_EVERY == 0 || looks_dear;
}

/* True if poll number `spins` includes the descriptors, which costs a system call. */
static inline bool madi_spin_looks_deep(uint32_t spins)
{
    return spins % MADI_DEEP_EVERY == 0;
}

/* ---- Sleep --------------------------------------------------------------------------------------------------------- */

/* ns: a leader's longest sleep without membarrier, because some stores have no fence then */
#define MADI_FENCELESS_NS 100000000
#define MADI_RETRY_SEND_NS 1000000 /* ns until a refused send is tried again; a full ring has no descriptor to wait for */
#define MADI_REST_SPINS 4096       /* polls for the rest of a block: longer than a sender takes that has a core */
/* ns between polls of a thread that sleeps for the rest of a block: the bell only wakes the leader, which may be another
 * thread */
#define MADI_REST_LOOK_NS 1000000
#define MADI_DEPUTY_NS 500000 /* ns between two checks by the deputy */
/* ns for which idle workers are woken immediately, if the deputy led too often */
#define MADI_DEPUTY_BAN_NS (32 * MADI_DEPUTY_NS)
#define MADI_RETURNS_OF_ONE 4 /* number of leaders that soon waited again, which outweighs one leader that did not */
#define MADI_RETURNS_KEPT 16  /* most returns that are counted */

/* ---- Threads of the library --------------------------------------------------------------------------------------- */

#define MADI_TICK_NS INT64_C(4000000) /* ns between two periodic checks by the progress thread */
#define MADI_TICKS 25                 /* number of periodic checks after the last operation that other processes finish */
#define MADI_POLLS_BACK 64            /* polls after a hand-over until the program counts as one that polls */
/* ns; a program that polls later than this after it left an operation pending has computed */
#define MADI_POLL_SOON_NS INT64_C(20000)
/* ns between two polls by a busy scheduler, at first; doubled after each poll without an event */
#define MADI_LOOK_MIN_NS 1000
#define MADI_LOOK_MAX_NS 256000 /* ns: upper limit of the time between two polls by a busy scheduler */
/* ms in which a thread inside the library may accept a connection before the accept thread does, at first */
#define MADI_NAP_MIN_MS 1
#define MADI_NAP_MAX_MS 64 /* ms: upper limit of the nap of the accept thread, which doubles while no thread accepts */
#define MADI_FORWARDED_LOOK_NS 100000000 /* ns between two checks by the accept thread for connections through gateways */
/* ns until the accept thread checks again for due work, after another thread held the lock */
#define MADI_LOCKED_LOOK_NS 100000000

/* True if the progress thread yields before it sleeps.  serves: number of operations that never end, because they serve
 * other processes; pending: number of all operations.  An event for another process is usually followed by more.  With
 * pending requests the program computes, and the peer that sends what these requests wait for may need the other
 * processor. */
static inline bool madi_thread_yields(int serves, int pending)
{
    return serves > 0 && serves == pending;
}

/* Return the ns until the next poll of a busy scheduler.  every: the previous interval; events: found by the current
 * poll. */
static inline int64_t madi_look_every(int64_t every, int events)
{
    if (events)
        return 0;
    if (every >= MADI_LOOK_MAX_NS)
        return every;
    return every ? every * 2 : MADI_LOOK_MIN_NS;
}

/* ---- Runtimes that poll --------------------------------------------------------------------------------------------- */

#define MADI_POLL_CLOCK_EVERY 8 /* calls without a message until the clock is read */
#define MADI_POLL_ALL_EVERY 64  /* calls without a message until all networks are polled, whatever the clock says */

#define MADI_DEVICE_LOSSES_EVERY 1024 /* calls without a message until peers are checked for losses */
#define MADI_DEVICE_GLANCES 64        /* number of polls of a blocking receive until the receive is posted */
#define MADI_DEVICE_YIELD_EVERY 256   /* calls without a message until the processor is offered to other threads */
/* with a handler, a call without a message counts as this number of calls: a peer's progress thread may have to run */
#define MADI_DEVICE_HANDLED 4
#define MADI_DEVICE_QUIET_NS INT64_C(100000000) /* ns without a message after which the thread naps instead of yielding */
#define MADI_DEVICE_NAP_NS 20000                /* ns of a nap; the kernel adds some time to it */
/* us between two checks at the end for sends that the receiver has not taken */
#define MADI_DEVICE_LINGER_US 100

#define MADI_BTL_LOSSES_EVERY 4096 /* polls in a row without a fragment after which the component checks for lost peers */
/* With btl_mad_async: polls in a row without a fragment after which a thread offers its processor to other threads.  The
 * kernel may have woken the thread of a computing peer on this processor, and lets a spinning thread run on for
 * milliseconds. */
#define MADI_BTL_YIELD_EVERY 64
#define MADI_BTL_ROOM_US 500     /* maximum time in us for which a thread waits for room; the thread yields meanwhile */
#define MADI_BTL_LOOK_NS 1000000 /* ns between two polls of the component's thread, and its longest sleep in the library */
#define MADI_BTL_BUSY_NS 100000  /* ns; like MADI_BTL_LOOK_NS, but during a get; that thread reports the end of the get */

/* rounds of a wait after which all of Open MPI makes progress; 1 if Open MPI yields there */
#define MADI_PML_OTHERS_EVERY 64

#define MADI_OFI_SLICE_MS 100 /* ms between two checks of a waiting thread for lost peers */
/* ns of waiting before the program sleeps outside the library; equals MADI_SPIN_NS */
#define MADI_OFI_MOMENT_NS INT64_C(100000)
#define MADI_OFI_LOOKS 8 /* polls of one read that find messages but no completion */

/* True if work that is due once in `every` calls without an event is due in this call.  turn: number of calls without an
 * event before this one. */
static inline bool madi_poll_due(unsigned turn, unsigned every)
{
    return turn % every == every - 1;
}

/* True if a call without an event offers the processor to other threads.  before, after: number of calls without an
 * event, without and with this one. */
static inline bool madi_device_yields(unsigned before, unsigned after)
{
    return after / MADI_DEVICE_YIELD_EVERY > before / MADI_DEVICE_YIELD_EVERY;
}

/* True if a thread naps rather than yields after `ns` without a message.  A processor that is only offered by a yield may
 * stay with the thread. */
static inline bool madi_device_naps(int64_t ns)
{
    return ns >= MADI_DEVICE_QUIET_NS;
}

#endif
