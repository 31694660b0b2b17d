/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake in frames (src/core/connect/frames.h; doc/wire.md), on a network that loses, repeats and reorders frames.
 *
 * A frame that was sent stays on its way: it arrives at any time, any number of times, or never.  The active side makes two
 * attempts, the second one after it has given up the first.  It may give up at any time before its link is up.  The passive
 * side may give up a handshake at any time, too: because of its deadline, or because strangers have pushed the handshake
 * out.  Both sides have the job's key; the attacks on proofs are those of handshake.pml.  A number stands for a nonce.
 * Asserted:
 *
 *   - The passive side makes at most one link of an attempt.
 *   - If the active side takes its link for up, the passive side has made the link of this attempt, and sends on no other.
 *   - A packet arrives at the active side only after the verdict, since the passive side sends later than its driver has
 *     taken the verdict.  (Drivers keep the order of what they have taken.)
 *   - END ends a link only if the active side has given up this attempt, and after END there is no such link.
 *   - A repeated proof is answered by the verdict if its link exists, and by END if not. */
#define CALLS 2
#define BEGUN 2 /* number of handshakes that the passive side begins by HELLOs of one attempt */

#define IDLE 0
#define HELLO 1 /* states of the active side, by the frame that was sent last */
#define PROOF 2
#define UP 3
#define GONE 4

#define NONE 0
#define CHALLENGED 1 /* states of the passive side's handshake */
#define LINKED 2     /* the link is made, and the driver has not taken the verdict */

typedef attempt_t {
    /* frames on their way; bit n of challenge, proof, verdict: with nonce n */
    bool hello, end, end_back;
    byte challenge, proof, verdict;
    /* the active side */
    byte state, nonce;
    /* the passive side */
    byte handshake, nonce_own; /* the handshake, and its nonce */
    byte begun, kept;          /* handshakes begun; nonce of the proof whose verdict is kept, 0: none */
    byte links;                /* links ever made */
    bool link, sends           /* the link exists; the passive side may send on it */
};
attempt_t at[CALLS];

#define BIT(n) (1 << (n))
#define HAS(set, n) (((set) >> (n)) & 1)

#ifdef HELLO_AGAIN /* HELLO of an attempt whose link exists begins another handshake */
#define MAY_BEGIN(c) true
#else
#define MAY_BEGIN(c) (!at[c].kept)
#endif

/* The link of the attempt ends, and its verdict is forgotten (madi_verdict_forget). */
inline link_ends(which)
{
    at[which].link = false;
    at[which].sends = false;
#ifndef VERDICT_OUTLIVES_LINK
    at[which].kept = 0
#endif
}

/* END arrives at the passive side (repeated_arrived, stranger_arrived). */
inline end_arrives(c, other)
{
    if
    :: at[c].handshake != NONE ->
        if
        :: at[c].handshake == LINKED -> link_ends(c)
        :: else
        fi;
        at[c].handshake = NONE
    :: else ->
        if
        :: at[c].kept && at[c].link -> link_ends(c)
        :: else
        fi
    fi;
#ifdef CALL_UNCHECKED /* END ends the link of its source, whatever the number of the handshake is */
    assert(!at[other].link || at[other].state == GONE);
    at[other].link = false;
    at[other].sends = false;
    at[other].kept = 0;
#endif
    assert(at[c].state == GONE);
    assert(!at[c].link)
}

/* PROOF with the nonce n arrives at the passive side. */
inline proof_arrives(c, n)
{
    if
    :: at[c].handshake == LINKED -> skip /* the verdict is repeated anyway */
#ifdef NONCE_UNSIGNED
    :: at[c].handshake == CHALLENGED ->
#else
    :: at[c].handshake == CHALLENGED && n != at[c].nonce_own -> skip /* refused */
    :: at[c].handshake == CHALLENGED && n == at[c].nonce_own ->
#endif
        at[c].links++;
        assert(at[c].links == 1);
        at[c].link = true;
        at[c].kept = n;
        at[c].handshake = LINKED;
#ifdef SENDS_EARLY
        at[c].sends = true;
#endif
    :: at[c].handshake == NONE ->
        if
#ifndef VERDICT_NOT_KEPT
        :: at[c].kept == n ->
            assert(at[c].link);
            at[c].verdict = at[c].verdict | BIT(n)
#endif
        :: else ->
            assert(!(at[c].link && at[c].kept == n));
            at[c].end_back = true
        fi
    fi
}

proctype answers()
{
    byte c, n;
end:
    do
    :: atomic {
           if :: c = 0 :: c = 1 fi;
           if :: n = 1 :: n = 2 fi;
           if
           :: at[c].hello && at[c].handshake == NONE && at[c].begun < BEGUN && MAY_BEGIN(c) ->
               at[c].begun++;
               at[c].nonce_own = at[c].begun;
               at[c].handshake = CHALLENGED;
               at[c].challenge = at[c].challenge | BIT(at[c].nonce_own)
           :: HAS(at[c].proof, n) -> proof_arrives(c, n)
           :: at[c].end -> end_arrives(c, 1 - c)
           :: at[c].handshake == LINKED -> /* the driver takes the verdict */
               at[c].verdict = at[c].verdict | BIT(at[c].nonce_own);
               at[c].sends = true;
               at[c].handshake = NONE
           :: at[c].handshake != NONE -> /* the passive side gives up */
               if
               :: at[c].handshake == LINKED -> link_ends(c)
               :: else
               fi;
               at[c].handshake = NONE;
               at[c].end_back = true
           fi;
           c = 0; n = 0
       }
    od
}

proctype calls()
{
    byte c, n;
    do
    :: c < CALLS ->
        atomic { at[c].state = HELLO; at[c].hello = true };
        do
        :: atomic {
               if :: n = 1 :: n = 2 fi;
               if
               :: at[c].state == HELLO && HAS(at[c].challenge, n) ->
                   at[c].nonce = n;
                   at[c].proof = at[c].proof | BIT(n);
                   at[c].state = PROOF
               :: at[c].state == PROOF && HAS(at[c].verdict, n) && n == at[c].nonce ->
                   at[c].state = UP;
                   assert(at[c].links == 1);
                   assert(!at[1 - c].sends || at[1 - c].state == GONE)
               :: at[c].state == UP && at[c].sends -> skip /* a packet */
               :: at[c].state == PROOF && at[c].sends -> assert(at[c].verdict) /* a packet that overtakes the verdict */
               :: at[c].state != UP && at[c].end_back -> at[c].state = GONE
               :: at[c].state != UP -> at[c].state = GONE /* the active side gives up */
               fi;
               if
               :: at[c].state == GONE && !at[c].end -> at[c].end = true; break
               :: else
               fi
           }
        od;
        c++
    :: else -> break
    od
}

init
{
    atomic { run answers(); run calls() }
}
