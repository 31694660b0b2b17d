/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of gateway/cipher.c: only the other end opens what one end sealed or proved, and only under the same nonce. */
#include "unit.h"

#include "gateway/cipher.h"
#include <stdlib.h>
#include <string.h>

#define LEN ((size_t)301) /* bytes: not a multiple of the block size */
#define FEW 4             /* log2 of the numbers per generation: each key serves 16 numbers */

static const unsigned char secret[GW_SECRET] = "the ends know this, nobody else";
static const char covered[GW_COVERED] = "ack 17";

typedef struct sealed {
    gw_nonce_t place;
    unsigned char bytes[LEN], tag[GW_TAG];
} sealed_t;

static gw_cipher_t *ends[2]; /* ends[0]: the active end */

static void pair_make(void)
{
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_nonnull(ends[i] = gw_cipher_new(secret, !i, FEW));
    for (int i = 0; i < 2; i++)
        ck_assert(gw_cipher_offer(ends[i]));
    for (int i = 0; i < 2; i++)
        ck_assert(gw_cipher_agree(ends[i], gw_cipher_public(ends[!i])));
}

static void pair_free(void)
{
    for (int i = 0; i < 2; i++)
        gw_cipher_free(ends[i]);
}

static unsigned char plain(size_t i)
{
    return (unsigned char)(i * 7 + 3);
}

/* Return the text that this end seals under this nonce, given in three pieces. */
static sealed_t seal(int end, gw_nonce_t place)
{
    unsigned char bytes[LEN];
    struct iovec vec[3] = {{bytes, 16}, {bytes + 16, 0}, {bytes + 16, LEN - 16}};
    sealed_t s = {.place = place};
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = plain(i);
    ck_assert(gw_cipher_seal(ends[end], &place, covered, vec, 3, s.bytes, s.tag));
    return s;
}

/* True if the end opens the text.  The plaintext must then be the one that was sealed. */
static bool opens_as(int end, const sealed_t *s, const char *aad)
{
    sealed_t copy = *s;
    if (!gw_cipher_open(ends[end], &copy.place, aad, copy.bytes, LEN, copy.tag))
        return false;
    for (size_t i = 0; i < LEN; i++)
        ck_assert_uint_eq(copy.bytes[i], plain(i));
    return true;
}

static bool opens(int end, const sealed_t *s)
{
    return opens_as(end, s, covered);
}

START_TEST(fragment_opens_in_its_place)
{
    sealed_t s;
    pair_make();
    for (uint64_t number = 0; number < 100; number++)
        for (int part = 0; part < GW_PARTS; part++) {
            s = seal(0, (gw_nonce_t){.turn = 4, .part = (enum gw_part)part, .number = number});
            ck_assert(opens(1, &s));
            s = seal(1, (gw_nonce_t){.turn = 4, .part = (enum gw_part)part, .number = number});
            ck_assert(opens(0, &s));
        }
    s.bytes[LEN / 2] ^= 1;
    ck_assert(!opens(0, &s));
    pair_free();
}
END_TEST

START_TEST(fragment_opens_nowhere_else)
{
    const gw_nonce_t place = {.turn = 2, .part = GW_PART_WHOLE, .number = 40};
    sealed_t s, other;
    pair_make();
    s = seal(0, place);
    ck_assert(!opens(0, &s)); /* the text is reflected to its sender */
    ck_assert(!opens_as(1, &s, (const char[GW_COVERED]){"ack 18"}));
    other = s;
    other.place.number++;
    ck_assert(!opens(1, &other));
    other = s;
    other.place.number += UINT64_C(1) << 32;
    ck_assert(!opens(1, &other));
    other = s;
    other.place.turn++;
    ck_assert(!opens(1, &other));
    other = s;
    other.place.part = GW_PART_BODY;
    ck_assert(!opens(1, &other));
    for (size_t i = 0; i < LEN; i++) {
        other = s;
        other.bytes[i] ^= 1;
        ck_assert(!opens(1, &other));
    }
    for (size_t i = 0; i < GW_TAG; i++) {
        other = s;
        other.tag[i] ^= 0x80;
        ck_assert(!opens(1, &other));
    }
    ck_assert(opens(1, &s)); /* the failures above changed no state */
    pair_free();
}
END_TEST

START_TEST(fragment_needs_the_key)
{
    unsigned char wrong[GW_SECRET];
    gw_cipher_t *stranger;
    sealed_t s;
    pair_make();
    memcpy(wrong, secret, sizeof wrong);
    wrong[31] ^= 1;
    ck_assert_ptr_nonnull(stranger = gw_cipher_new(wrong, false, FEW));
    s = seal(0, (gw_nonce_t){.number = 1});
    gw_cipher_free(ends[1]);
    ends[1] = stranger;
    ck_assert(!opens(1, &s));
    pair_free();
}
END_TEST

/* An end with the secret that took no part in the key exchange opens nothing. */
START_TEST(key_exchange_is_needed)
{
    static const unsigned char none[GW_PUBLIC];
    gw_cipher_t *later, *other;
    sealed_t s;
    pair_make();
    s = seal(0, (gw_nonce_t){.number = 1});
    ck_assert(opens(1, &s));
    other = ends[1];
    ck_assert_ptr_nonnull(later = gw_cipher_new(secret, false, FEW));
    ends[1] = later;
    ck_assert(!opens(1, &s));
    ck_assert(!gw_cipher_agree(later, gw_cipher_public(ends[0]))); /* the later end has not offered a public key */
    ck_assert(gw_cipher_offer(later) && !gw_cipher_agree(later, none));
    ck_assert(gw_cipher_offer(later) && gw_cipher_agree(later, gw_cipher_public(ends[0])));
    ck_assert(!opens(1, &s));
    gw_cipher_free(other);
    pair_free();
}
END_TEST

/* Equal plaintext on another path, or under another generation's key, gives a different ciphertext. */
START_TEST(new_path_changes_the_ciphertext)
{
    sealed_t first, s;
    pair_make();
    first = seal(0, (gw_nonce_t){.turn = 0, .number = 15});
    for (uint32_t turn = 1; turn < 4; turn++) {
        s = seal(0, (gw_nonce_t){.turn = turn, .number = 15});
        ck_assert(memcmp(s.bytes, first.bytes, 16) && memcmp(s.tag, first.tag, GW_TAG));
        ck_assert(opens(1, &s));
    }
    for (uint64_t number = 14; number < 40; number++) { /* these numbers cross two changes of generation */
        s = seal(0, (gw_nonce_t){.number = number});
        ck_assert(opens(1, &s));
    }
    s = seal(0, (gw_nonce_t){.number = 15}); /* back to an earlier number, as in a retransmission */
    ck_assert(!memcmp(s.bytes, first.bytes, sizeof s.bytes) && !memcmp(s.tag, first.tag, sizeof s.tag));
    ck_assert(opens(1, &s));
    pair_free();
}
END_TEST

START_TEST(fragment_numbers_go_on)
{
    gw_nonce_t place = {.number = 0};
    pair_make();
    ck_assert_uint_eq(gw_cipher_number(ends[0], GW_OURS, 5), 5);
    for (int i = 0; i < 10; i++) { /* each step is less than half of the 32-bit range */
        place.number += 0x70000000;
        ck_assert_uint_eq(gw_cipher_number(ends[0], GW_OURS, (uint32_t)place.number), place.number);
        seal(0, place);
        ck_assert_uint_eq(gw_cipher_number(ends[0], GW_OURS, (uint32_t)(place.number - 3)), place.number - 3);
    }
    ck_assert_uint_gt(place.number, UINT64_C(1) << 34);
    ck_assert_uint_eq(gw_cipher_number(ends[0], GW_THEIRS, 5), 5);
    pair_free();
}
END_TEST

START_TEST(proof_of_one_end_convinces_the_other)
{
    unsigned char proof[GW_TAG];
    const char said[] = "turn 3, ack 9", other[] = "turn 3, ack 8";
    pair_make();
    ck_assert(gw_cipher_prove(ends[0], said, sizeof said, proof));
    ck_assert(gw_cipher_proved(ends[1], said, sizeof said, proof));
    ck_assert(!gw_cipher_proved(ends[0], said, sizeof said, proof)); /* the proof is reflected to its maker */
    ck_assert(!gw_cipher_proved(ends[1], other, sizeof other, proof));
    ck_assert(!gw_cipher_proved(ends[1], said, sizeof said - 1, proof));
    proof[15] ^= 1;
    ck_assert(!gw_cipher_proved(ends[1], said, sizeof said, proof));
    memset(proof, 0, sizeof proof);
    ck_assert(!gw_cipher_proved(ends[1], said, sizeof said, proof));
    pair_free();
}
END_TEST

Suite *cipher_suite(void)
{
    const TTest *const tests[] = {
        fragment_opens_in_its_place,
        fragment_opens_nowhere_else,
        fragment_needs_the_key,
        key_exchange_is_needed,
        new_path_changes_the_ciphertext,
        fragment_numbers_go_on,
        proof_of_one_end_convinces_the_other,
    };
    return SUITE_OF("cipher", tests);
}
