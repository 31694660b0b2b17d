/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake (src/core/connect/hello.h, src/core/security/proof.h; doc/wire.md) against an attacker who controls the
 * network, after Dolev and Yao.  The attacker sees every frame, sends any frame to any process, and delays and repeats
 * connection attempts.  The attacker does not have the ranks' key, so every proof under that key was made by a process.  The
 * attacker is also a gateway of the job, so he has the gateways' key, and can prove anything under that key.
 *
 * Ranks make two connection attempts, and answer two.  The attacker chooses which process answers.  Each side asserts, after
 * it has checked the other side's proof:
 *
 *   connecting side   the process that it wanted has answered this attempt, and agrees on the content of all frames
 *   accepting side    the process that it takes for the connecting one has made this attempt to it, and to no other process
 *
 * A proof is the list of the values that it covers.  A process accepts a proof if all these values are as the process itself
 * has seen them.  Nonces are numbers of attempts and answers, because nobody can guess a nonce. */
#define CALLS 2
#define ANSWERS 2
#define NOBODY 255 /* as a nonce: one that the attacker has made */
#define PROOFS (CALLS + ANSWERS)
#define MADE_UP PROOFS /* a proof by a gateway, under the gateways' key: it covers any values */

#define RANK 0
#define GATEWAY 1 /* roles of a process */
#define G 3       /* identity of the gateway; those of the ranks are 0, 1 and 2 */
#define AUTH 1
#define SEAL 2

typedef said_t { /* fields of HELLO and CHALLENGE */
    byte nonce_a, wanted, caller, role_a, security_a;
    byte nonce_p, role_p, security_p
};
typedef proof_t { bool made; bool passive; byte before; said_t said };

proof_t proof[PROOFS];
said_t call[CALLS], answer[ANSWERS];
byte called_by[ANSWERS]; /* by answer: the accepted proof, which the answering process's own proof covers */
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

/* Set `yes` if a process with the values `mine` accepts proof k, which the attacker presents. */
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

/* True if an end with the security `own` accepts that of the other end.  Only equal securities are accepted.  With the
 * defect SECURITY_UNSIGNED all are, as if two ends agreed on the lesser one. */
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
    /* HELLO has been sent.  A CHALLENGE arrives. */
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
        :: call[me].role_p != RANK -> goto hung /* the process connects only to a rank */
#endif
        :: !TAKES(SEAL, call[me].security_p) -> goto hung
        :: else -> skip
        fi;
        copy(proof[me].said, call[me]);
        proof[me].made = true
    }
    /* A VERDICT arrives. */
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
        /* The wanted process has answered exactly once, and agrees on all values. */
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
#ifdef NOBODY_AGREES /* if this assertion fails, an honest attempt can succeed */
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
    /* The attacker may have the CHALLENGE from the start.  `wanted` is the identity of this process, because a process
     * refuses attempts that want another one.  A HELLO and a PROOF arrive; those that would be refused are left out. */
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
        :: answer[me].caller == G -> skip /* the attacker is this gateway, so nothing is to be asserted */
        :: else ->
            /* The process that this one takes for the connecting one has made this attempt, to this process. */
            i = answer[me].nonce_a;
            assert(i < CALLS);
            assert(call[i].caller == answer[me].caller && call[i].wanted == answer[me].wanted &&
                   call[i].nonce_p == answer[me].nonce_p && answer[me].role_a == RANK &&
                   call[i].security_a == answer[me].security_a);
            i = 0; /* and no other answer has accepted the same attempt */
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
