/* SPDX-License-Identifier: BSD-3-Clause */
/* The numbers and acknowledgements of the driver eth (src/drivers/eth/eth_flow.c), on a network that loses, repeats and
 * reorders frames.
 *
 * A frame that was sent stays on its way: it arrives at any time, any number of times, or never.  So a segment that is sent
 * again adds nothing, and timeouts are left out: they decide when a segment is sent again, not what follows.
 * Asserted:
 *
 *   - Segments are delivered in order, each once.
 *   - A segment that the sender releases has been delivered.
 *   - The sender's record of a segment is not overwritten before the segment is released.
 *   - Acknowledgements of the sender do not go back. */
#define SEGMENTS 5
#define WINDOW 2

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)

/* frames on their way; bit n: segment n; an acknowledgement with next == n; one that has a bit for segment n + 1 as well */
byte data, acks, acks_kept;

/* the sender */
byte next, acked, released;
byte record[WINDOW]; /* number of the segment in each record */
byte arrived;        /* bit n: an acknowledgement has had a bit for segment n */

/* the receiver */
byte in_next, delivered;
byte kept[WINDOW]; /* 1 + number of the segment in each place; 0: none */

#ifdef SENDS_BEYOND_WINDOW
#define ROOM (next - released <= WINDOW)
#else
#define ROOM (next - released < WINDOW)
#endif

#ifdef KEEPS_ANY_NUMBER
#define EARLY(n) ((n) != in_next)
#else
#define EARLY(n) ((n) > in_next && (n) < in_next + WINDOW)
#endif

#ifdef TAKES_OLD_ACKS
#define NEW_ACK(n) ((n) <= next)
#else
#define NEW_ACK(n) ((n) >= acked && (n) <= next)
#endif

inline ack_take(n, bits)
{
    if
    :: NEW_ACK(n) ->
        assert(n >= acked);
        acked = n;
        if
        :: bits && n + 1 < next -> arrived = arrived | BIT(n + 1)
        :: else
        fi;
#ifdef RELEASES_BY_BITS
        if
        :: bits && n + 1 < next -> acked = n + 2
        :: else
        fi;
#endif
        do
        :: released < acked ->
            assert(record[released % WINDOW] == released);
            assert(released < delivered);
            released++
        :: else -> break
        od
    :: else
    fi
}

active proctype sender()
{
    byte n;
    do
    :: atomic { next < SEGMENTS && ROOM -> record[next % WINDOW] = next; data = data | BIT(next); next++ }
    :: atomic {
        acks ->
        select (n : 0 .. SEGMENTS);
        if
        :: HAS(acks, n) -> ack_take(n, false)
        :: else
        fi
    }
    :: atomic {
        acks_kept ->
        select (n : 0 .. SEGMENTS);
        if
        :: HAS(acks_kept, n) -> ack_take(n, true)
        :: else
        fi
    }
    od
}

inline deliver(n)
{
    assert(delivered == n);
    delivered++;
    in_next++
}

active proctype receiver()
{
    byte n;
    do
    :: atomic {
        data ->
        select (n : 0 .. SEGMENTS - 1);
        if
        :: HAS(data, n) && n == in_next && !kept[n % WINDOW] ->
            deliver(n);
            do
            :: kept[in_next % WINDOW] ->
                n = kept[in_next % WINDOW] - 1;
                kept[in_next % WINDOW] = 0;
                deliver(n)
            :: else -> break
            od
        :: HAS(data, n) && EARLY(n) && !kept[n % WINDOW] -> kept[n % WINDOW] = n + 1
        :: else
        fi;
        if
        :: kept[(in_next + 1) % WINDOW] -> acks_kept = acks_kept | BIT(in_next)
        :: else -> acks = acks | BIT(in_next)
        fi
    }
    od
}
