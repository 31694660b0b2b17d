/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake (hello.h, proof.h; doc/wire.md) against somebody who owns the network, after Dolev and Yao: he sees all that is
 * said, says anything to anybody, holds calls back and repeats them.  He does not have the rank key, so a proof under it is one
 * that a process has made; as a gateway of the job he has the gateway key, and proves under it whatever he likes.
 *
 * Two calls are made by ranks, and two are answered, by whichever process he chooses.  What they have agreed on in the end
 *
 *   for the caller    the process that it wanted has answered this call, as it was made, and agrees on all that was said
 *   for the called    the process that it takes for the caller has made this call to it, and to nobody else
 *
 * is asserted where each of them has checked the other's proof.  A proof is the list of what it covers; a proof is accepted if
 * all of that is as the process that checks it has seen it.  Nonces are the numbers of calls and answers: nobody guesses one. */
#define CALLS 2
#define ANSWERS 2
#define NOBODY 255 /* a nonce of the attacker's own */
#define PROOFS (CALLS + ANSWERS)
#define MADE_UP PROOFS /* what a gateway proves: anything, under its key */

#define RANK 0
#define GATEWAY 1 /* roles */
#define G 3       /* the gateway; ranks are 0, 1, 2 */
#define AUTH 1
#define SEAL 2

typedef said_t { /* HELLO and CHALLENGE */
    byte nonce_a, wanted, caller, role_a, security_a;
    byte nonce_p, role_p, security_p
};
typedef proof_t { bool made; bool passive; byte before; said_t said };

proof_t proof[PROOFS];
said_t call[CALLS], answer[ANSWERS];
byte called_by[ANSWERS]; /* the proof that it has accepted, and then itself proved */
bool call_done[CALLS], answer_done[ANSWERS];

inline same(x, y, yes)
{
    yes = x.nonce_a == y.nonce_a && x.role_a == y.role_a && x.role_p == y.role_p;
#ifndef NONCE_OF_CALLED_UNSIGNED
    yes = yes && x.nonce_p == y.nonce_p;
#endif
#ifndef IDENTITIES_UNSIGNED
    yes = yes && x.wanted == y.wanted && x.caller == y.caller;
#endif
#ifndef SECURITY_UNSIGNED
    yes = yes && x.security_a == y.security_a && x.security_p == y.security_p;
#endif
}

/* Whether somebody accepts what the attacker shows him as proof k. */
inline accepts(mine, is_passive, chain, k, yes)
{
    if
    :: k == MADE_UP -> yes = mine.role_a == GATEWAY || mine.role_p == GATEWAY
    :: k < PROOFS && proof[k].made ->
        same(proof[k].said, mine, yes);
#ifndef SIDES_ALIKE
        yes = yes && proof[k].passive == is_passive && (!is_passive || proof[k].before == chain)
#endif
    :: else -> yes = false
    fi
}

inline copy(to, from)
{
    to.nonce_a = from.nonce_a; to.wanted = from.wanted; to.caller = from.caller; to.role_a = from.role_a;
    to.security_a = from.security_a; to.nonce_p = from.nonce_p; to.role_p = from.role_p; to.security_p = from.security_p
}

inline clear(x)
{
    d_step {
        x.nonce_a = 0; x.wanted = 0; x.caller = 0; x.role_a = 0; x.security_a = 0;
        x.nonce_p = 0; x.role_p = 0; x.security_p = 0
    }
}

/* What both ends take: networks of equal security talk to each other; or else, if the two were to settle for less. */
#ifdef SECURITY_UNSIGNED
#define TAKES(own, others) true
#else
#define TAKES(own, others) (own == others)
#endif

proctype calls(byte me; byte own; byte wants)
{
    byte k, r, n;
    bool yes;
    call[me].nonce_a = me; call[me].caller = own; call[me].wanted = wants; call[me].role_a = RANK; call[me].security_a = SEAL;
    /* HELLO is on the wire.  Some CHALLENGE comes. */
    atomic {
        if
        :: call[me].nonce_p = NOBODY
        :: call[me].nonce_p = 100
        :: call[me].nonce_p = 101
        fi;
        if :: call[me].role_p = RANK :: call[me].role_p = GATEWAY fi;
        if :: call[me].security_p = SEAL :: call[me].security_p = AUTH fi;
        if
#ifndef ROLE_UNCHECKED
        :: call[me].role_p != RANK -> goto hung /* it wants a rank */
#endif
        :: !TAKES(SEAL, call[me].security_p) -> goto hung
        :: else -> skip
        fi;
        copy(proof[me].said, call[me]);
        proof[me].made = true
    }
    /* Some VERDICT comes. */
    atomic {
        if
        :: k = 0 :: k = 1 :: k = 2 :: k = 3 :: k = MADE_UP
        fi;
        accepts(call[me], true, me, k, yes);
        if
        :: !yes -> goto refused
        :: else -> skip
        fi;
        call_done[me] = true;
        /* The process that it wanted has answered, and agrees on everything. */
        r = 0; n = 0;
        do
        :: r < ANSWERS ->
            if
            :: answer_done[r] && answer[r].wanted == wants && answer[r].caller == own && answer[r].nonce_a == me &&
               answer[r].nonce_p == call[me].nonce_p && answer[r].role_a == RANK && answer[r].role_p == RANK &&
               call[me].role_p == RANK &&
               answer[r].security_a == SEAL && answer[r].security_p == call[me].security_p && called_by[r] == me -> n++
            :: else -> skip
            fi;
            r++
        :: else -> break
        od;
        assert(n == 1);
#ifdef NOBODY_AGREES /* that it is found shows that honest calls come to their end here */
        assert(false);
#endif
        goto over;
refused:
        skip
    }
    goto over;
hung:
    clear(call[me]);
over:
    k = 0; yes = false
}

proctype answers(byte me)
{
    byte k, i;
    bool yes;
    /* Its CHALLENGE is on the wire from the start, as far as he is concerned.  Who this is: others refuse the call.  Some HELLO
     * and some PROOF come; what would be refused is not shown to it. */
    atomic {
        if
        :: answer[me].wanted = 0
        :: answer[me].wanted = 1
        :: answer[me].wanted = 2
        fi;
        if :: answer[me].nonce_a = NOBODY :: answer[me].nonce_a = 0 :: answer[me].nonce_a = 1 fi;
        if :: answer[me].caller = 0 :: answer[me].caller = 1 :: answer[me].caller = 2 :: answer[me].caller = G fi;
        if :: answer[me].role_a = RANK :: answer[me].role_a = GATEWAY fi;
        if :: answer[me].security_a = SEAL :: answer[me].security_a = AUTH fi;
        answer[me].nonce_p = 100 + me; answer[me].role_p = RANK; answer[me].security_p = SEAL;
        if
        :: answer[me].caller == answer[me].wanted -> goto refused
        :: !TAKES(SEAL, answer[me].security_a) -> goto refused
        :: else -> skip
        fi;
        if
        :: k = 0 :: k = 1 :: k = 2 :: k = 3 :: k = MADE_UP
        fi;
        accepts(answer[me], false, 0, k, yes);
        if
        :: !yes -> goto refused
        :: else -> skip
        fi;
#ifndef IDENTITY_OF_ANY_ROLE
        if
        :: (answer[me].caller == G) != (answer[me].role_a == GATEWAY) -> goto refused
        :: else -> skip
        fi;
#endif
        answer_done[me] = true;
        called_by[me] = k;
        copy(proof[CALLS + me].said, answer[me]);
        proof[CALLS + me].passive = true;
        proof[CALLS + me].before = k;
        proof[CALLS + me].made = true;
        if
        :: answer[me].caller == G -> skip /* the gateway is who he is */
        :: else ->
            /* The process that it takes for the caller has made this call, to this process. */
            i = answer[me].nonce_a;
            assert(i < CALLS);
            assert(call[i].caller == answer[me].caller && call[i].wanted == answer[me].wanted &&
                   call[i].nonce_p == answer[me].nonce_p && answer[me].role_a == RANK &&
                   call[i].security_a == answer[me].security_a);
            i = 0; /* and nobody else was let in by it */
            do
            :: i < ANSWERS ->
                assert(i == me || !answer_done[i] || answer[i].caller == G || answer[i].nonce_a != answer[me].nonce_a);
                i++
            :: else -> break
            od
        fi
        goto over;
refused:
        clear(answer[me])
    }
over:
    k = 0; yes = false
}

init {
    atomic {
        run calls(0, 0, 1);
        run calls(1, 1, 2);
        run answers(0);
        run answers(1)
    }
}
