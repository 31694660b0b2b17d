/* SPDX-License-Identifier: BSD-3-Clause */
/* gateway/ocb.c: vectors of RFC 7253, and the same as OpenSSL for texts of all lengths. */
#include "unit.h"

#include "gateway/ocb.h"
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 70000

static unsigned char text[ROOM], want[ROOM], got[ROOM], want_tag[16], got_tag[16];

static void by_openssl(const unsigned char *key, const unsigned char *nonce, const unsigned char *covered, size_t len)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0, rest = 0;
    ck_assert_int_eq(EVP_EncryptInit_ex(ctx, EVP_aes_128_ocb(), NULL, key, nonce), 1);
    if (covered)
        ck_assert_int_eq(EVP_EncryptUpdate(ctx, NULL, &n, covered, 16), 1);
    n = 0;
    if (len)
        ck_assert_int_eq(EVP_EncryptUpdate(ctx, want, &n, text, (int)len), 1);
    ck_assert_int_eq(EVP_EncryptFinal_ex(ctx, want + n, &rest), 1);
    ck_assert_int_eq(EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, 16, want_tag), 1);
    EVP_CIPHER_CTX_free(ctx);
}

/* Of so many bytes, somewhere in memory. */
static void compare(uint32_t seed, size_t len, size_t at)
{
    unsigned char key[16], nonce[12], covered[16];
    const unsigned char *also = seed % 2 ? covered : NULL;
    gw_ocb_t ocb;
    for (int i = 0; i < 16; i++) {
        seed = seed * 1664525 + 1013904223;
        key[i] = (unsigned char)(seed >> 16);
        covered[i] = (unsigned char)(seed >> 24);
        nonce[i % 12] = (unsigned char)(seed >> 20);
    }
    by_openssl(key, nonce, also, len);
    gw_ocb_key(&ocb, key);
    gw_ocb_seal(&ocb, nonce, also, text, got + at, len, got_tag);
    ck_assert_mem_eq(got + at, want, len);
    ck_assert_mem_eq(got_tag, want_tag, 16);
    memset(got_tag, 0, 16);
    gw_ocb_open(&ocb, nonce, also, got + at, len, got_tag);
    ck_assert_mem_eq(got + at, text, len);
    ck_assert_mem_eq(got_tag, want_tag, 16);
    memcpy(got + at, text, len);
    gw_ocb_seal(&ocb, nonce, also, got + at, got + at, len, got_tag); /* in place */
    ck_assert_mem_eq(got + at, want, len);
    ck_assert_mem_eq(got_tag, want_tag, 16);
}

START_TEST(as_openssl)
{
    if (!gw_ocb_there())
        return;
    for (size_t i = 0; i < ROOM; i++)
        text[i] = (unsigned char)(i * 131 + (i >> 8));
    for (uint32_t len = 0; len < 1200; len++)
        compare(len, len, len % 5);
    for (uint32_t len = 1200; len < ROOM - 8; len += 997)
        compare(len, len, len % 7);
}
END_TEST

/* RFC 7253, appendix A. */
START_TEST(vectors)
{
    static const unsigned char empty[16] = {0x78, 0x54, 0x07, 0xbf, 0xff, 0xc8, 0xad, 0x9e,
                                            0xdc, 0xc5, 0x52, 0x0a, 0xc9, 0x11, 0x1e, 0xe6};
    static const unsigned char block[32] = {0x57, 0x1d, 0x53, 0x5b, 0x60, 0xb2, 0x77, 0x18, 0x8b, 0xe5, 0x14,
                                            0x71, 0x70, 0xa9, 0xa2, 0x2c, 0x3a, 0xd7, 0xa4, 0xff, 0x38, 0x35,
                                            0xb8, 0xc5, 0x70, 0x1c, 0x1c, 0xce, 0xc8, 0xfc, 0x33, 0x58};
    unsigned char nonce[12] = {0xbb, 0xaa, 0x99, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x00}, key[16];
    gw_ocb_t ocb;
    if (!gw_ocb_there())
        return;
    for (int i = 0; i < 16; i++)
        key[i] = text[i] = (unsigned char)i;
    gw_ocb_key(&ocb, key);
    gw_ocb_seal(&ocb, nonce, NULL, text, got, 0, got_tag);
    ck_assert_mem_eq(got_tag, empty, 16);
    nonce[11] = 0x04;
    gw_ocb_seal(&ocb, nonce, key, text, got, 16, got_tag);
    ck_assert_mem_eq(got, block, 16);
    ck_assert_mem_eq(got_tag, block + 16, 16);
}
END_TEST

Suite *ocb_suite(void)
{
    const TTest *tests[] = {as_openssl, vectors};
    return SUITE_OF("ocb", tests);
}
