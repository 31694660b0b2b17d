/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of a stream whose paths fail (src/gateway/window.c, resume.c and migrate.c; doc/gateways.md, "Another path").
 *
 * Each end has a thread that sends numbered packets as far as its window has room, and a thread that polls: it receives,
 * acknowledges, and takes other paths.  Paths fail at any time.  A part of what is in flight on a failed path still arrives,
 * or nothing.  Each end notices the failure at any later time.  Both ends may open another path at once, and OPENs arrive in
 * any order.  In the end both ends use one path, each packet has arrived once, in order and whole, and all are acknowledged.
 *
 * A path is named by its turn: 0 is the first path, end 0 opens those of even turns, and end 1 those of odd turns.  Two
 * kinds of actions are one step: those under the lock of an end, and those under the session's lock that change nothing that
 * the sender reads. */
#ifndef PACKETS
#define PACKETS 2 /* number of packets that end 0 sends; end 1 sends one */
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#define WINDOW 1
#if FAILURES > 1
#define WAYS 10 /* number of turns, more than are used */
#else
#define WAYS 6
#endif
#define NONE WAYS
#if FAILURES > 1
#define CALLED (call[2] || call[4] || call[6] || call[8])
#else
#define CALLED (call[2] || call[4])
#endif

#define count_of(me) (me == 0 -> PACKETS : 1)

mtype = { PACKET, ACK, CLOSE };

chan wire[2 * WAYS] = [4] of { mtype, byte, byte }; /* by path and receiver: number, acknowledgement */
bool failed[WAYS];
bool call[WAYS];     /* by path: its OPEN is in flight, or waits for the receiver */
byte call_ack[WAYS];

bool lock[2];
byte side[2], turn[2];
bool resuming[2];
byte rx[2] = 1;      /* by end: number of the next packet that it expects */
byte base[2] = 1, next[2] = 1, ack[2] = 1;
bool wants[2], writable[2];
byte half[2], half_way[2]; /* by end: the packet of which a part has arrived, and the path of that packet */
byte takes[2];       /* by end: path to take after the arriving packet; takes_ack: the acknowledgement in its OPEN */
byte takes_ack[2];
byte got[2];
bool hasty = true, exhausted;

/* Send on path w.  Nothing arrives on a path that the receiver has left. */
inline put(w, me, kind, number)
{
    if
    :: w == NONE || failed[w] || side[1 - me] != w && turn[1 - me] >= w
    :: else -> wire[2 * w + 1 - me]!kind(number, rx[me])
    fi
}

/* Send again all packets that are not acknowledged.  Used under the lock of the end, or in one step. */
inline resend(me)
{
    base[me] = ack[me];
    again = base[me];
    do
    :: again < next[me] ->
#ifndef NOT_SENT_AGAIN
        put(side[me], me, PACKET, again);
#endif
        again++
    :: else -> break
    od;
    again = 0
}

inline acked(me, a)
{
    if
    :: a > ack[me] -> ack[me] = a
    :: else
    fi
}

inline room(me)
{
    if
    :: wants[me] -> wants[me] = false; writable[me] = true
    :: else
    fi
}

/* gw_migrate_take: take a path that the other end has opened */
inline take(me, w, a)
{
    put(side[me], me, CLOSE, 0);
    side[me] = w;
    turn[me] = w;
    takes[me] = NONE;
    put(w, me, ACK, 0);
    acked(me, a);
    room(me);
    resend(me);
    resuming[me] = false
}

/* gw_path_lost */
inline lost(me)
{
    side[me] = NONE;
    resuming[me] = true;
    half[me] = 0;
    half_way[me] = 0;
    if
    :: takes[me] != NONE -> w = takes[me]; a = takes_ack[me]; take(me, w, a); w = 0; a = 0
    :: else
    fi
}

/* gw_end_open */
inline called(me, w)
{
    atomic {
        !lock[me] && call[w] && (w & 1) != me -> call[w] = false;
        if
#ifndef LOWER_TURN_TAKEN
        :: w <= turn[me] -> put(w, me, CLOSE, 0)
        :: w > turn[me] ->
#else
        :: true ->
#endif
            if
#ifndef TAKEN_AMID_PACKET
            :: half[me] ->
                put(takes[me], me, CLOSE, 0);
                takes[me] = w;
                takes_ack[me] = call_ack[w]
            :: !half[me] ->
#else
            :: true ->
#endif
                take(me, w, call_ack[w])
            fi
        fi
    }
}

/* gw_path_open.  End 1 lets end 0 open another path first, but end 0 may do so too late. */
inline open(me)
{
    atomic {
        side[me] == NONE && !lock[me] && !exhausted &&
            (me == 0 || hasty || !(CALLED || side[0] == NONE && turn[0] < WAYS)) ->
        if
        :: me == 1 && (CALLED || side[0] == NONE) -> hasty = false
        :: else
        fi;
        w = (me == 0 -> (turn[me] | 1) + 1 : (turn[me] + 1) | 1);
        if
        :: w >= WAYS -> exhausted = true
        :: else ->
            side[me] = w;
            turn[me] = w;
            resuming[me] = true;
            call_ack[w] = rx[me];
            call[w] = true
        fi;
        w = 0
    }
}

/* fragment_is_next: a packet begins to arrive.  The sending thread may see the packet's acknowledgement from now on. */
inline begins(me)
{
    assert(number == rx[me]); /* a packet that is sent again begins here, too */
    assert(!half[me]);        /* two drivers never write to the same memory */
    half[me] = number;
    half_way[me] = side[me]
#ifdef COUNTED_WHEN_BEGUN
    ; rx[me]++
#endif
}

proctype poller(byte me)
{
    byte number, a, w, again;
    mtype kind;
end_polls:
    do
    :: side[me] != NONE && (!half[me] || half_way[me] != side[me]) && nempty(wire[2 * side[me] + me]) ->
        wire[2 * side[me] + me]?kind(number, a);
        if
        :: kind == CLOSE -> atomic { !lock[me] -> lost(me) }
        :: kind == ACK && resuming[me] -> /* gw_path_resume */
            atomic { !lock[me] -> acked(me, a); room(me); resend(me); resuming[me] = false }
        :: kind == PACKET && resuming[me]
        :: kind != CLOSE && !resuming[me] ->
            acked(me, a);
            if
            :: wants[me] -> atomic { !lock[me] -> base[me] = ack[me]; room(me) }
            :: else
            fi;
            atomic {
                if
                :: kind == PACKET -> begins(me)
                :: else
                fi;
                number = 0;
                a = 0
            }
        fi
    :: half[me] -> /* the rest of the packet arrives */
        atomic {
            !lock[me];
            got[me]++;
            assert(half[me] == got[me]);
            half[me] = 0;
            half_way[me] = 0;
#ifndef COUNTED_WHEN_BEGUN
            rx[me]++;
#endif
            put(side[me], me, ACK, 0);
            if
            :: takes[me] != NONE -> w = takes[me]; a = takes_ack[me]; take(me, w, a); w = 0; a = 0
            :: else
            fi
        }
    :: side[me] != NONE && failed[side[me]] -> atomic { !lock[me] && side[me] != NONE && failed[side[me]] -> lost(me) }
    :: called(me, 1)
    :: called(me, 2)
    :: called(me, 3)
    :: called(me, 4)
    :: called(me, 5)
#if FAILURES > 1
    :: called(me, 6)
    :: called(me, 7)
    :: called(me, 8)
    :: called(me, 9)
#endif
    :: open(me)
    od
}

/* The sending thread: gw_window_room, and what follows that call. */
proctype sender(byte me)
{
    do
    :: next[me] > count_of(me) -> break
    :: else ->
        atomic { !lock[me] && side[me] != NONE && !resuming[me] -> lock[me] = true }
        base[me] = ack[me];
        if
        :: next[me] - base[me] >= WINDOW ->
#ifndef FULL_AFTER_LOOK
            wants[me] = true;
            base[me] = ack[me];
#endif
            if
            :: next[me] - base[me] >= WINDOW ->
#ifdef FULL_AFTER_LOOK
                wants[me] = true;
#endif
                lock[me] = false;
                writable[me] -> writable[me] = false
            :: else -> lock[me] = false
            fi
        :: else ->
            atomic { put(side[me], me, PACKET, next[me]); next[me]++; lock[me] = false }
        fi
    od
}

active proctype hardware()
{
    byte n;
    do
    :: n < FAILURES ->
        atomic {
            if
            :: side[0] != NONE && !failed[side[0]] -> n++; failed[side[0]] = true;
                if
                :: call[side[0]] -> call[side[0]] = false
                :: true
                fi
            :: side[1] != NONE && !failed[side[1]] -> n++; failed[side[1]] = true;
                if
                :: call[side[1]] -> call[side[1]] = false
                :: true
                fi
            fi
        }
    :: break
    od
}

init {
    atomic {
        takes[0] = NONE;
        takes[1] = NONE;
        run poller(0);
        run poller(1);
        run sender(0);
        run sender(1)
    }
}

active proctype judge()
{
    timeout;
    assert(!exhausted);
    assert(side[0] == side[1] && side[0] != NONE && !failed[side[0]] && !resuming[0] && !resuming[1]);
    assert(got[0] == count_of(1) && got[1] == count_of(0));
    assert(ack[0] == next[0] && ack[1] == next[1])
}
