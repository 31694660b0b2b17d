/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails (src/core/rails.h): packets that go again by another rail after a loss, each once, and messages in order.
 *
 * Two sides have three rails, of which all but one break, at any time.  Each side notices the break at any later time, or when
 * LOST of the other side arrives.  Side 0 sends messages, which need their order, and pieces, which go by any rail.  Packets on
 * a rail that breaks are lost, or are still received, up to the moment at which the receiver closes its end.  Both sides send
 * LOST; it is kept like all packets.  Asserted: no packet is delivered twice, and messages are delivered in order.  At the
 * end all are delivered. */
#define RAILS 3
#ifndef MESSAGES
#define MESSAGES 2
#endif
#define PIECE (MESSAGES + 1)
#define LOST 10 /* LOST + rail */
#define ACK 20  /* ACK + count */
#define NONE RAILS
#define REPEATED 9 /* in place of LOST that was sent again by another rail */
#define AT(side, rail) ((side) * RAILS + (rail))

chan wire[6] = [6] of { byte }; /* from a side, by a rail */
chan kept[6] = [6] of { byte }; /* packets without acknowledgement, in order */
bool closed[6], settled[6];     /* an end is closed; both ends are, and this side has sent again what was lost */
bool carried[6];                /* the rail carried messages when it was closed */
byte acked[6], counted[6];      /* packets of a rail that were acknowledged to the sender, that the receiver has counted */
byte first[2];                  /* the rail that carries messages */
bool broken[RAILS];
byte breaks, delivered, next = 1;
#ifdef PIECES
bool piece_left = true, piece_here;
#else /* far fewer states */
bool piece_left, piece_here = true;
#endif

/* Keep a packet, and send it, unless the rail is broken: then it is lost. */
inline packet_send(side, rail, packet)
{
    kept[AT(side, rail)]!packet;
    if
    :: !broken[rail] -> wire[AT(side, rail)]!packet
    :: else
    fi
}

/* Set `rail` to any rail that is not closed. */
inline any_rail(side, rail)
{
    if
    :: !closed[AT(side, 0)] -> rail = 0
    :: !closed[AT(side, 1)] -> rail = 1
    :: !closed[AT(side, 2)] -> rail = 2
    fi
}

/* madi_rail_broke */
inline rail_close(side, rail)
{
    closed[AT(side, rail)] = true;
    do
    :: wire[AT(1 - side, rail)]?_
    :: empty(wire[AT(1 - side, rail)]) -> break
    od;
    carried[AT(side, rail)] = first[side] == rail;
    if
    :: first[side] == rail -> first[side] = NONE
    :: else
    fi;
    any_rail(side, by);
    packet_send(side, by, LOST + rail);
#ifndef LOST_WAITS_FOR_ITS_RAIL
    packet = len(kept[AT(side, rail)]);
    do
    :: packet > 0 -> packet--;
        kept[AT(side, rail)]?again;
        if
        :: again >= LOST -> packet_send(side, by, again); kept[AT(side, rail)]!REPEATED
        :: else -> kept[AT(side, rail)]!again
        fi
    :: else -> break
    od
#endif
}

inline acknowledged(side, rail, count)
{
    do
    :: acked[AT(side, rail)] < count -> kept[AT(side, rail)]?_; acked[AT(side, rail)]++
    :: else -> break
    od
}

/* madi_rail_settle */
inline rail_settle(side, rail)
{
    if
    :: !closed[AT(side, rail)] -> rail_close(side, rail)
    :: else
    fi;
#ifndef LOST_WITHOUT_COUNT
    acknowledged(side, rail, counted[AT(1 - side, rail)]);
#endif
    to = first[side];
    if
    :: to == NONE -> any_rail(side, to)
    :: else
    fi;
    do
    :: kept[AT(side, rail)]?again ->
        if
        :: again != REPEATED -> packet_send(side, to, again)
        :: else
        fi
    :: empty(kept[AT(side, rail)]) -> break
    od;
    if
#ifdef ANY_RAIL_FREES_MESSAGES /* the settlement of another rail lets messages go on */
    :: true -> first[side] = to
#else
    :: carried[AT(side, rail)] -> first[side] = to
    :: else
#endif
    fi;
    settled[AT(side, rail)] = true
}

inline packet_take(side, rail)
{
    wire[AT(1 - side, rail)]?packet;
    if
    :: packet >= ACK -> acknowledged(side, rail, packet - ACK)
    :: else ->
        counted[AT(side, rail)]++;
        if
        :: packet >= LOST ->
            lost = packet - LOST;
            if
            :: !settled[AT(side, lost)] -> rail_settle(side, lost)
            :: else
            fi;
            packet = LOST /* used meanwhile */
        :: packet == PIECE -> assert(!piece_here); piece_here = true
        :: packet < PIECE -> assert(packet == delivered + 1); delivered = packet
        fi;
        if /* acknowledge now, or later */
        :: !broken[rail] && !closed[AT(side, rail)] -> wire[AT(side, rail)]!ACK + counted[AT(side, rail)]
        :: true
        fi
    fi
}

#define READY(rail) (!closed[AT(me, rail)] && nempty(wire[AT(1 - me, rail)]))
#define FORGET packet = 0; lost = 0; by = 0; to = 0; again = 0

proctype side(byte me)
{
    byte packet, lost, by, to, again;
end:
    do
    :: atomic { me == 0 && next <= MESSAGES && first[0] != NONE -> packet_send(0, first[0], next); next++ }
#ifdef MESSAGES_DO_NOT_WAIT
    :: atomic { me == 0 && next <= MESSAGES && first[0] == NONE -> any_rail(0, by); packet_send(0, by, next); next++; FORGET }
#endif
    :: atomic { me == 0 && piece_left -> any_rail(0, by); packet_send(0, by, PIECE); piece_left = false; FORGET }
    :: atomic { READY(0) -> packet_take(me, 0); FORGET }
    :: atomic { READY(1) -> packet_take(me, 1); FORGET }
    :: atomic { READY(2) -> packet_take(me, 2); FORGET }
    :: atomic { broken[0] && !closed[AT(me, 0)] -> rail_close(me, 0); FORGET }
    :: atomic { broken[1] && !closed[AT(me, 1)] -> rail_close(me, 1); FORGET }
    :: atomic { broken[2] && !closed[AT(me, 2)] -> rail_close(me, 2); FORGET }
    od
}

/* All rails but one break, or fewer, in any order. */
proctype network()
{
end:
    do
    :: atomic { breaks < RAILS - 1 && !broken[0] -> broken[0] = true; breaks++ }
    :: atomic { breaks < RAILS - 1 && !broken[1] -> broken[1] = true; breaks++ }
    :: atomic { breaks < RAILS - 1 && !broken[2] -> broken[2] = true; breaks++ }
    :: breaks == RAILS - 1 -> break
    od
}

/* When nothing is left to do, all was delivered, and every rail that broke is settled at both sides. */
proctype over()
{
    timeout;
    assert(delivered == MESSAGES && piece_here);
    assert(!broken[0] || (settled[0] && settled[3]));
    assert(!broken[1] || (settled[1] && settled[4]));
    assert(!broken[2] || (settled[2] && settled[5]))
}

init
{
    atomic {
        run side(0);
        run side(1);
        run network();
        run over()
    }
}
