/* SPDX-License-Identifier: BSD-3-Clause */
/* Idle workers: which of them leads for the user-level threads that wait, and which of them is woken when the leader runs a
 * thread (src/engine/leader.c and follower.c).  How a leader sleeps is in leader.pml.
 *
 * There are two workers, and two threads, both of one worker or one of each.  A thread waits for a message, runs when the
 * message has arrived, and then waits again or runs for ever.  Messages arrive at any time.  In the end every message has
 * been polled, as long as a thread waits and a worker is left to poll.  No thread that was woken waits for a worker that
 * sleeps.
 *
 * All accesses to the workers' common variables are sequentially consistent, so the model needs no store buffers.  The clock
 * may pass any deadline at any time. */
#define MESSAGES 2

#define NOBODY 0 /* values of `leader`, which stands for madi_server.leader */
#define BY_WAITER 1
#define BY_OTHER 2

byte leader, blocked, claimants, n_idle, deputy, terms;
byte sent, polled;
byte whom[MESSAGES];  /* by message: its destination, a thread */
bool listed[2];       /* by worker: in madi_server.idle, under that list's lock */
bool called[2];       /* by worker: the word of its waiter is WOKEN */
byte home[2];         /* by thread: its worker */
bool waits[2], ready[2], gone[2] /* gone, by worker: its thread runs for ever */;

#define has_ready(w) (ready[0] && home[0] == w || ready[1] && home[1] == w)
#define waits_itself(w) (waits[0] && home[0] == w || waits[1] && home[1] == w)
#define other_may_lead (blocked && leader == NOBODY && !claimants)

/* madi_leader_wanted.  The choice of madi_leader_may_return depends on the clock, and is left open. */
inline leader_wanted(me)
{
    if
    :: n_idle ->
        if
        :: other_may_lead ->
            if
            :: deputy /* and madi_leader_may_return is true */
            :: true ->
                atomic {
                    if
                    :: other_may_lead && listed[0] -> listed[0] = false; n_idle--; called[0] = true
                    :: other_may_lead && listed[1] -> listed[1] = false; n_idle--; called[1] = true
                    :: else
                    fi
                }
            fi
        :: else
        fi
    :: else
    fi
}

inline deputy_no_more()
{
    if
    :: is_deputy -> atomic { deputy = 0; is_deputy = false; seen = 0 }
    :: else
    fi
}

inline become_deputy()
{
    atomic {
        if
        :: is_deputy || !deputy -> deputy = 1; is_deputy = true
        :: else
        fi
    }
    if
    :: is_deputy -> seen = terms
    :: else
    fi
}

inline ask_no_more()
{
    if
    :: asks -> claimants--; asks = false
    :: else
    fi
}

inline leave(me)
{
    if
    :: leads -> leads = false; leader = NOBODY
    :: else
    fi;
    leader_wanted(me)
}

inline lead(me)
{
    if
    :: defers /* and madi_leader_may_return is true */
    :: !waits_itself(me) ->
        for_others = true;
        if
        :: other_may_lead ->
            atomic {
                if
                :: leader == NOBODY -> leader = BY_OTHER; leads = true; terms = (terms + 1) % 4
                :: else
                fi
            }
        :: else
        fi
    :: waits_itself(me) ->
        for_others = false;
        atomic {
            if
            :: leader == NOBODY -> leader = BY_WAITER; leads = true; terms = (terms + 1) % 4
            :: else
            fi
        }
        if
        :: !leads && leader == BY_OTHER ->
            if
            :: !asks -> claimants++; asks = true
            :: else
            fi
        :: else -> ask_no_more()
        fi
    fi
}

/* Poll one message.  A leader may step down if the message was for the other worker (leader_defer). */
inline poll(me)
{
    atomic {
        to = whom[polled];
        polled++;
        if
        :: waits[to] -> waits[to] = false; ready[to] = true; blocked--
        :: else -> to = 2
        fi
    }
    if
    :: to != 2 && home[to] != me ->
        called[home[to]] = true;
        if
        :: leads && true -> defers = true; become_deputy(); leave(me) /* if madi_leader_may_return is true */
        :: true
        fi
    :: else
    fi;
    to = 0
}

/* madi_may_follow, with the clock left out */
#define may_follow(me) (waits_itself(me) && leader == BY_WAITER || !waits_itself(me) && !other_may_lead)

/* madi_follow, with worker_follow, deputy_is_needed and deputy_check */
inline follow(me)
{
#ifndef ASKER_SLEEPS
    ask_no_more();
#endif
    atomic { listed[me] = true; n_idle++ }
again:
#ifdef LOOKED_WHILE_DEPUTY
    need = other_may_lead || is_deputy && terms != seen;
    deputy_no_more();
#else
    came = is_deputy && terms != seen;
    deputy_no_more();
    atomic { need = other_may_lead || came; came = false }
#endif
    if
    :: defers && need -> become_deputy()
    :: else
    fi;
    need = false;
    if
    :: !has_ready(me) && (defers || may_follow(me)) ->
end_asleep:
        if
        :: called[me] -> called[me] = false; defers = true
        :: !called[me] && is_deputy -> /* the deputy's deadline passes */
            defers = true;
            if
            :: terms == seen && other_may_lead -> defers = false
            :: else
            fi;
            if
            :: defers && listed[me] -> goto again
            :: else
            fi
        fi
    :: else
    fi;
    atomic {
        if
        :: listed[me] -> listed[me] = false; n_idle--
        :: else
        fi;
        called[me] = false
    }
}

/* madi_worker_run, madi_worker_idle_wait and wait_on_kernel_thread */
proctype worker(byte me)
{
    byte t, to, seen;
    bool leads, for_others, asks, defers, is_deputy, came, need;

idle:
    defers = false;
look:
    if
    :: has_ready(me) -> goto over
    :: else
    fi;
    if
    :: !leads -> lead(me)
    :: leads && for_others && (claimants || !blocked) -> leave(me)
    :: else
    fi;
    if
    :: leads ->
end_epoll:
        if /* madi_leader_sleep */
        :: polled < sent -> poll(me)
        :: has_ready(me) || called[me] -> called[me] = false
#ifndef ROOM_UNSEEN
        :: for_others && claimants
#endif
        fi
    :: !leads && (defers || may_follow(me)) -> follow(me)
    :: asks && !defers && !may_follow(me) -> leader != BY_OTHER || has_ready(me) /* the worker polls meanwhile */
    :: else
    fi;
    goto look;
over:
    ask_no_more();
    deputy_no_more();
    leave(me);
runs:
#ifndef NOBODY_CALLED
    if /* madi_leader_wanted_elsewhere */
    :: blocked && leader == NOBODY -> leader_wanted(me)
    :: else
    fi;
#endif
    atomic {
        if
        :: ready[0] && home[0] == me -> t = 0
        :: ready[1] && home[1] == me -> t = 1
        fi;
        ready[t] = false
    }
    if
    :: gone[me] = true; goto ended
    :: atomic { blocked++; waits[t] = true } /* wait_switching and wait_park */
        if
#ifndef NOBODY_CALLED
        :: has_ready(me) && blocked && leader == NOBODY -> leader_wanted(me)
#endif
        :: else
        fi
    fi;
    t = 0;
    if
    :: has_ready(me) -> goto runs
    :: else -> goto idle
    fi;
ended:
    skip
}

active proctype sender()
{
    do
    :: sent < MESSAGES ->
        atomic {
            if
            :: whom[sent] = 0
            :: whom[sent] = 1
            fi;
            sent++
        }
    :: else -> break
    od
}

init {
    atomic {
        if
        :: home[1] = 0
        :: home[1] = 1
        fi;
        ready[0] = true;
        ready[1] = true;
        run worker(0);
        run worker(1)
    }
}

active proctype judge()
{
    timeout;
    assert(polled == sent || !(waits[0] || waits[1]) || gone[0] && gone[1]);
    assert(!ready[0] || gone[home[0]]);
    assert(!ready[1] || gone[home[1]])
}
