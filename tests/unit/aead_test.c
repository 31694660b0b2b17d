/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of core/security/aead.c: vectors of GCM's specification, and equal results of intel-ipsec-mb and OpenSSL for many
 * lengths. */
#include "unit.h"

#include "core/security/aead.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM ((size_t)(256 << 10) + 64)
#define PIECES 5

static unsigned char text[ROOM], want[ROOM], got[ROOM], back[ROOM], want_tag[MADI_AEAD_TAG], got_tag[MADI_AEAD_TAG];
static uint32_t seed = 1;

static size_t draw(size_t below)
{
    seed = seed * 1664525 + 1013904223;
    return below ? (seed >> 8) % below : 0;
}

static void bytes_draw(unsigned char *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)draw(256);
}

/* Split len bytes at `at` into n pieces, some of them empty. */
static void pieces_cut(struct iovec *vec, int n, unsigned char *at, size_t len)
{
    for (int i = 0; i < n; i++) {
        size_t part = i == n - 1 ? len : draw(3) ? draw(len + 1) : 0;
        vec[i] = (struct iovec){part ? at : NULL, part};
        at += part;
        len -= part;
    }
}

/* Three objects of one cipher: seal and open use the fastest implementation at hand, plain uses OpenSSL. */
typedef struct objects {
    madi_aead_t *seal, *open, *plain;
} objects_t;

static objects_t objects_make(const EVP_CIPHER *cipher)
{
    objects_t o = {madi_aead_new(cipher, true), madi_aead_new(cipher, false), madi_aead_new_plain(cipher, true)};
    ck_assert(o.seal && o.open && o.plain && !madi_aead_is_fast(o.plain));
    ck_assert_int_eq(madi_aead_is_fast(o.seal), madi_aead_is_fast(o.open));
    return o;
}

static void objects_key(const objects_t *o)
{
    unsigned char key[32];
    bytes_draw(key, sizeof key);
    ck_assert(madi_aead_key_set(o->seal, key) && madi_aead_key_set(o->open, key) && madi_aead_key_set(o->plain, key));
}

static void objects_free(const objects_t *o)
{
    madi_aead_free(o->seal);
    madi_aead_free(o->open);
    madi_aead_free(o->plain);
}

static void same_opens(const objects_t *o, const madi_aead_about_t *about, size_t len, size_t at)
{
    struct iovec vec[PIECES], one = {back + at, len};
    ck_assert(madi_aead_open(o->open, about, want, &one, 1, want_tag));
    ck_assert_mem_eq(back + at, text, len);
    pieces_cut(vec, PIECES, back, len);
    memset(back, 0x55, len);
    ck_assert(madi_aead_open(o->open, about, want, vec, PIECES, want_tag));
    ck_assert_mem_eq(back, text, len);
    memcpy(back + at, want, len); /* the bytes are opened in place */
    ck_assert(madi_aead_open(o->open, about, back + at, &one, 1, want_tag));
    ck_assert_mem_eq(back + at, text, len);
}

static void same_seals(const objects_t *o, const madi_aead_about_t *about, size_t len, size_t at)
{
    struct iovec vec[PIECES], one = {text, len};
    ck_assert(madi_aead_seal(o->plain, about, &one, 1, want, want_tag));
    ck_assert(madi_aead_seal(o->seal, about, &one, 1, got + at, got_tag));
    ck_assert_mem_eq(got + at, want, len);
    ck_assert_mem_eq(got_tag, want_tag, sizeof want_tag);
    pieces_cut(vec, PIECES, text, len);
    memset(got_tag, 0, sizeof got_tag);
    ck_assert(madi_aead_seal(o->seal, about, vec, PIECES, got + at, got_tag));
    ck_assert_mem_eq(got + at, want, len);
    ck_assert_mem_eq(got_tag, want_tag, sizeof want_tag);
    memcpy(got + at, text, len); /* the bytes are sealed in place */
    one.iov_base = got + at;
    ck_assert(madi_aead_seal(o->seal, about, &one, 1, got + at, got_tag));
    ck_assert_mem_eq(got + at, want, len);
    ck_assert_mem_eq(got_tag, want_tag, sizeof want_tag);
}

/* Compare both implementations for this length at a random alignment.  Every seventh length sets a new key. */
static void compare(const objects_t *o, size_t len)
{
    unsigned char iv[MADI_AEAD_IV], also[24];
    const madi_aead_about_t about = {iv, len % 3 ? also : NULL, len % 3 ? len % 25 : 0};
    if (len % 7 == 0)
        objects_key(o);
    bytes_draw(iv, sizeof iv);
    bytes_draw(also, sizeof also);
    same_seals(o, &about, len, draw(64));
    same_opens(o, &about, len, draw(64));
}

START_TEST(aead_equals_openssl)
{
    const EVP_CIPHER *const ciphers[] = {EVP_aes_128_gcm(), EVP_aes_256_gcm(), EVP_chacha20_poly1305()};
    bytes_draw(text, ROOM);
    for (int c = 0; c < 3; c++) {
        objects_t o = objects_make(ciphers[c]);
        for (size_t len = 0; len <= 4200; len++)
            compare(&o, len);
        for (size_t len = 4201; len < ROOM - 64; len += 5003)
            compare(&o, len);
        objects_key(&o);
        compare(&o, (size_t)256 << 10);
        objects_free(&o);
    }
}
END_TEST

/* True if the bytes open.  Otherwise check that no plaintext is left in the buffer. */
static bool opens(const objects_t *o, const madi_aead_about_t *about, const unsigned char *bytes, size_t len,
                  const unsigned char *tag, int n)
{
    struct iovec vec[PIECES];
    bool good;
    pieces_cut(vec, n, back, len);
    memset(back, 0x55, len);
    good = madi_aead_open(o->open, about, bytes, vec, n, tag);
    if (!good && len) /* the whole buffer must be zero */
        ck_assert(!back[0] && !memcmp(back, back + 1, len - 1));
    return good;
}

START_TEST(aead_notices_every_change)
{
    static const size_t lens[] = {1, 16, 40, 301, 2048, 2049, 5000};
    const EVP_CIPHER *const ciphers[] = {EVP_aes_128_gcm(), EVP_aes_256_gcm(), EVP_chacha20_poly1305()};
    unsigned char iv[MADI_AEAD_IV] = "number 0001", also[16] = "what is covered", zeros[MADI_AEAD_TAG] = {0};
    const madi_aead_about_t about = {iv, also, sizeof also};
    bytes_draw(text, 5000);
    for (size_t c = 0; c < 3 * sizeof lens / sizeof *lens; c++) {
        const size_t len = lens[c / 3];
        const int n = c % 2 ? 1 : PIECES;
        const struct iovec one = {text, len};
        objects_t o = objects_make(ciphers[c % 3]);
        objects_key(&o);
        ck_assert(madi_aead_seal(o.seal, &about, &one, 1, got, got_tag));
        for (size_t bit = 0; bit < 8 * sizeof got_tag; bit++) {
            got_tag[bit / 8] ^= (unsigned char)(1 << bit % 8);
            ck_assert(!opens(&o, &about, got, len, got_tag, n));
            got_tag[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        ck_assert(!opens(&o, &about, got, len, zeros, n));
        for (size_t at = 0; at<len; at += len> 100 ? 97 : 1) {
            got[at] ^= 4;
            ck_assert(!opens(&o, &about, got, len, got_tag, n));
            got[at] ^= 4;
        }
        ck_assert(!opens(&o, &about, got, len - 1, got_tag, n));
        ck_assert(!opens(&o, &(madi_aead_about_t){iv, also, 15}, got, len, got_tag, n));
        ck_assert(!opens(&o, &(madi_aead_about_t){also, also, 16}, got, len, got_tag, n));
        ck_assert(opens(&o, &about, got, len, got_tag, n));
        objects_key(&o);
        ck_assert(!opens(&o, &about, got, len, got_tag, n));
        objects_free(&o);
    }
}
END_TEST

/* Test cases 3 and 4 of "The Galois/Counter Mode of Operation" (McGrew, Viega): 64 bytes without additional data, and
 * 60 bytes with 20 bytes of additional data. */
START_TEST(aead_equals_published_vectors)
{
    static const unsigned char key[16] = {0xfe, 0xff, 0xe9, 0x92, 0x86, 0x65, 0x73, 0x1c,
                                          0x6d, 0x6a, 0x8f, 0x94, 0x67, 0x30, 0x83, 0x08};
    static const unsigned char iv[12] = {0xca, 0xfe, 0xba, 0xbe, 0xfa, 0xce, 0xdb, 0xad, 0xde, 0xca, 0xf8, 0x88};
    static const unsigned char covered[20] = {0xfe, 0xed, 0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xfe, 0xed,
                                              0xfa, 0xce, 0xde, 0xad, 0xbe, 0xef, 0xab, 0xad, 0xda, 0xd2};
    static const unsigned char known[64] = {0xd9, 0x31, 0x32, 0x25, 0xf8, 0x84, 0x06, 0xe5, 0xa5, 0x59, 0x09, 0xc5, 0xaf,
                                            0xf5, 0x26, 0x9a, 0x86, 0xa7, 0xa9, 0x53, 0x15, 0x34, 0xf7, 0xda, 0x2e, 0x4c,
                                            0x30, 0x3d, 0x8a, 0x31, 0x8a, 0x72, 0x1c, 0x3c, 0x0c, 0x95, 0x95, 0x68, 0x09,
                                            0x53, 0x2f, 0xcf, 0x0e, 0x24, 0x49, 0xa6, 0xb5, 0x25, 0xb1, 0x6a, 0xed, 0xf5,
                                            0xaa, 0x0d, 0xe6, 0x57, 0xba, 0x63, 0x7b, 0x39, 0x1a, 0xaf, 0xd2, 0x55};
    static const unsigned char begin[4] = {0x42, 0x83, 0x1e, 0xc2};
    static const unsigned char tags[2][16] = {
        {0x4d, 0x5c, 0x2a, 0xf3, 0x27, 0xcd, 0x64, 0xa6, 0x2c, 0xf3, 0x5a, 0xbd, 0x2b, 0xa6, 0xfa, 0xb4},
        {0x5b, 0xc9, 0x4f, 0xbc, 0x32, 0x21, 0xa5, 0xdb, 0x94, 0xfa, 0xe9, 0x5a, 0xe7, 0x12, 0x1a, 0x47}};
    for (int i = 0; i < 4; i++) {
        madi_aead_t *aead = (i < 2 ? madi_aead_new : madi_aead_new_plain)(EVP_aes_128_gcm(), true);
        const struct iovec one = {(void *)(uintptr_t)known, i % 2 ? 60 : 64};
        ck_assert(aead && madi_aead_key_set(aead, key));
        ck_assert(madi_aead_seal(aead, &(madi_aead_about_t){iv, covered, i % 2 ? 20 : 0}, &one, 1, got, got_tag));
        ck_assert_mem_eq(got, begin, 4);
        ck_assert_mem_eq(got_tag, tags[i % 2], 16);
        madi_aead_free(aead);
    }
}
END_TEST

Suite *aead_suite(void)
{
    const TTest *const tests[] = {
        aead_equals_openssl,
        aead_notices_every_change,
        aead_equals_published_vectors,
    };
    return SUITE_OF("aead", tests);
}
