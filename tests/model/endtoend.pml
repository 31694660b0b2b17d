/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream that is encrypted from end to end (src/gateway/cipher.h; doc/gateways.md), against its gateways.  The gateways
 * control every path between the two ends: they read, drop, repeat, reorder, change and forge fragments.  They have no key
 * of the ends, so each sealed or proved text was made by an end.  The gateways choose which of these texts an end receives,
 * when, by which path, and under which number.
 *
 * End 0 sends packets 1 to PACKETS.  It may open further paths, and sends again there what was not acknowledged.  End 1
 * sends one packet, acknowledges, and closes.  Asserted, whatever the gateways do:
 *
 *   - The packets that an end delivers are the other end's, in order, each once.
 *   - A packet counts as acknowledged only if the other end has received it.
 *   - An end takes another path, or the end of the stream, only from a message that the other end has made.
 *   - An end seals no two different texts under one key and number. */
#define PACKETS 2
#define TURNS 3 /* number of paths; a path is named by its turn */

/* Texts that an end has made, by end, turn and number. */
typedef by_number_t { bool made[PACKETS + 2]; byte ack[PACKETS + 2] };
typedef by_turn_t { by_number_t turn[TURNS] };
by_turn_t sealed[2];   /* sealed packets; each contains an acknowledgement, too */
by_turn_t acked[2];    /* ACKs, each with a proof */
bool opened[TURNS];    /* OPENs by end 0, each with a proof */
bool closed;           /* CLOSE by end 1, with a proof */

byte turn[2];          /* by end: the path that it uses */
byte next[2] = 1;      /* by end: number of the next packet that it sends */
byte base[2] = 1;      /* by end: all packets before this number are acknowledged */
byte rx[2] = 1;        /* by end: number of the packet that it expects */
bool over[2];          /* by end: it takes the stream for closed by the other end */

#ifdef KEY_WITHOUT_TURN
#define KEY(t) 0
#else
#define KEY(t) (t)
#endif

inline seal(me)
{
    assert(!sealed[me].turn[KEY(turn[me])].made[next[me]] || sealed[me].turn[KEY(turn[me])].ack[next[me]] == rx[me]);
    sealed[me].turn[KEY(turn[me])].made[next[me]] = true;
    sealed[me].turn[KEY(turn[me])].ack[next[me]] = rx[me];
    next[me]++
}

/* End `me` accepts an acknowledgement of all packets before `count`. */
inline believe(me, count)
{
    assert(count <= rx[1 - me]);
    if
    :: count > base[me] -> base[me] = count
    :: else
    fi
}

/* A gateway passes to end `me` packet n of end `from`, which was sealed on path t, under the number c. */
inline present(me, from, t, n, c)
{
    if
    :: !sealed[from].turn[KEY(t)].made[n] -> skip /* this text does not exist, and only its end can make it */
#ifndef ONE_KEY_FOR_BOTH
    :: sealed[from].turn[KEY(t)].made[n] && from == me -> skip /* the tag is wrong: the text is the receiver's own */
#endif
    :: sealed[from].turn[KEY(t)].made[n] && KEY(t) != KEY(turn[me]) -> skip
#ifndef NUMBER_UNSEALED
    :: sealed[from].turn[KEY(t)].made[n] && n != c -> skip
#endif
#ifndef TAKEN_TWICE
    :: sealed[from].turn[KEY(t)].made[n] && c != rx[me] -> skip /* the packet arrived before, or arrives too early */
#endif
    :: else ->
        assert(from == 1 - me);
        assert(n == rx[me]);
        believe(me, sealed[from].turn[KEY(t)].ack[n]);
        rx[me]++
    fi
}

proctype end(byte me)
{
    byte from, t, n, c;
    do
    :: atomic { !over[me] && next[me] <= (me == 0 -> PACKETS : 1) -> seal(me) }
    :: atomic { !over[me] && rx[me] > 1 -> acked[me].turn[turn[me]].made[rx[me]] = true }
    /* A packet arrives. */
    :: atomic {
            !over[me] && rx[me] <= (me == 1 -> PACKETS : 1) ->
            if :: from = 0 :: from = 1 fi;
            if :: t = 0 :: t = 1 :: t = 2 fi;
            if :: n = 1 :: n = 2 fi;
            if :: c = 1 :: c = 2 fi;
            present(me, from, t, n, c);
            from = 0; t = 0; n = 0; c = 0
        }
    /* An ACK arrives. */
    :: atomic {
            !over[me] ->
            if :: n = 2 :: n = 3 fi;
            if
#ifdef ACK_UNPROVED
            :: true -> believe(me, n)
#endif
            :: acked[1 - me].turn[turn[me]].made[n] -> believe(me, n)
            :: else -> skip
            fi;
            n = 0
        }
    /* The path fails, or end 0 takes it for failed. */
    :: atomic {
            me == 0 && !over[0] && turn[0] < TURNS - 1 ->
            turn[0]++;
            opened[turn[0]] = true;
            next[0] = base[0]
        }
    /* An OPEN arrives. */
    :: atomic {
            me == 1 && !over[1] ->
            if :: t = 1 :: t = 2 fi;
            if
#ifdef OPEN_UNPROVED
            :: t > turn[1] -> assert(opened[t]); turn[1] = t; next[1] = base[1]
#endif
            :: opened[t] && t > turn[1] -> turn[1] = t; next[1] = base[1]
            :: else -> skip
            fi;
            t = 0
        }
    :: atomic { me == 1 && !over[1] && rx[1] > PACKETS && base[1] > 1 -> closed = true; over[1] = true; break }
    /* A CLOSE arrives. */
    :: atomic {
            me == 0 && !over[0] ->
            if
#ifdef CLOSE_UNPROVED
            :: true -> over[0] = true
#endif
            :: closed -> over[0] = true
            :: else -> skip
            fi;
            assert(!over[0] || closed);
#ifdef NOBODY_CLOSES /* if this assertion fails, honest ends can close the stream */
            assert(!over[0]);
#endif
        }
    :: over[me] -> break
    od
}

init {
    atomic {
        run end(0);
        run end(1)
    }
}
