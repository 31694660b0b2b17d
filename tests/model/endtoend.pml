/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream that is encrypted from end to end (doc/gateways.md; the gateways' cipher.h), against its gateways, which own
 * every way between the two ends: they see all fragments, leave out, repeat, reorder, change and make up.  They have no key of
 * the ends, so what is sealed or proved is something that an end has made; they choose which of it an end gets, when, on which
 * way, and under which number.
 *
 * End 0 sends packets 1 to PACKETS and may open other ways, on which it sends again what was not acknowledged.  End 1 sends one
 * packet, acknowledges, and closes.  Asserted of each end, whatever the gateways do: packets are delivered in order, each once,
 * and are the other end's; nothing counts as acknowledged that the other end has not got; a way is taken, and the end of
 * the stream believed, only if the other end has said so; and no two texts are sealed under one key and number. */
#define PACKETS 2
#define TURNS 3 /* ways */

/* What the ends have made: by end, turn and number. */
typedef by_number_t { bool made[PACKETS + 2]; byte ack[PACKETS + 2] };
typedef by_turn_t { by_number_t turn[TURNS] };
by_turn_t sealed[2];   /* packets; a packet carries an acknowledgement, too */
by_turn_t acked[2];    /* ACK, with a proof */
bool opened[TURNS];    /* OPEN by end 0, with a proof */
bool closed;           /* CLOSE by end 1, with a proof */

byte turn[2];          /* the way that an end is on */
byte next[2] = 1;      /* number to send next */
byte base[2] = 1;      /* up to here all is acknowledged */
byte rx[2] = 1;        /* number that is due */
bool over[2];          /* the end takes the stream for closed by the other one */

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

/* The acknowledgement of all before count came to an end. */
inline believe(me, count)
{
    assert(count <= rx[1 - me]);
    if
    :: count > base[me] -> base[me] = count
    :: else
    fi
}

/* A gateway shows an end the packet n of end `from`, sealed on way t, as number c. */
inline present(me, from, t, n, c)
{
    if
    :: !sealed[from].turn[KEY(t)].made[n] -> skip /* there is no such text, and nobody else can make one */
#ifndef ONE_KEY_FOR_BOTH
    :: sealed[from].turn[KEY(t)].made[n] && from == me -> skip /* the tag is wrong */
#endif
    :: sealed[from].turn[KEY(t)].made[n] && KEY(t) != KEY(turn[me]) -> skip
#ifndef NUMBER_UNSEALED
    :: sealed[from].turn[KEY(t)].made[n] && n != c -> skip
#endif
#ifndef TAKEN_TWICE
    :: sealed[from].turn[KEY(t)].made[n] && c != rx[me] -> skip /* it was here, or it is too early */
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
    /* Some packet comes. */
    :: atomic {
            !over[me] && rx[me] <= (me == 1 -> PACKETS : 1) ->
            if :: from = 0 :: from = 1 fi;
            if :: t = 0 :: t = 1 :: t = 2 fi;
            if :: n = 1 :: n = 2 fi;
            if :: c = 1 :: c = 2 fi;
            present(me, from, t, n, c);
            from = 0; t = 0; n = 0; c = 0
        }
    /* Some ACK comes. */
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
    /* The way fails, or end 0 thinks so. */
    :: atomic {
            me == 0 && !over[0] && turn[0] < TURNS - 1 ->
            turn[0]++;
            opened[turn[0]] = true;
            next[0] = base[0]
        }
    /* Some OPEN comes. */
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
    /* Some CLOSE comes. */
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
#ifdef NOBODY_CLOSES /* that it is found shows that honest ends come to their end here */
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
