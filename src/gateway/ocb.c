/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-128-OCB by vectors of 512 bits (ocb.h), four blocks each, eight vectors at a time.
 *
 * The block number i is encrypted as offset(i) ^ AES(offset(i) ^ text), where offset(i) = offset(i - 1) ^ l[zeros at the end of
 * i].  Within 32 blocks from a multiple of 32 on these are the offset before ^ sum[1..31], which are the same each time; only
 * the last one's depends on the number. */
#include "gateway/ocb.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WIDE __attribute__((target("aes,avx512f,avx512vl,avx512bw,vaes")))
#define AT_ONCE 32 /* blocks */
#define VECTORS (AT_ONCE / 4)
#ifdef __clang__
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif

bool gw_ocb_there(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("vaes") && __builtin_cpu_supports("aes");
}

/* ---- Keys --------------------------------------------------------------------------------------------------------- */

static WIDE __m128i key_next(__m128i key, __m128i assist)
{
    assist = _mm_shuffle_epi32(assist, 0xff);
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    return _mm_xor_si128(key, assist);
}

static WIDE void rounds_make(gw_ocb_t *ocb, const unsigned char *key)
{
    __m128i k[11] = {_mm_loadu_si128((const __m128i *)(const void *)key)};
    k[1] = key_next(k[0], _mm_aeskeygenassist_si128(k[0], 0x01));
    k[2] = key_next(k[1], _mm_aeskeygenassist_si128(k[1], 0x02));
    k[3] = key_next(k[2], _mm_aeskeygenassist_si128(k[2], 0x04));
    k[4] = key_next(k[3], _mm_aeskeygenassist_si128(k[3], 0x08));
    k[5] = key_next(k[4], _mm_aeskeygenassist_si128(k[4], 0x10));
    k[6] = key_next(k[5], _mm_aeskeygenassist_si128(k[5], 0x20));
    k[7] = key_next(k[6], _mm_aeskeygenassist_si128(k[6], 0x40));
    k[8] = key_next(k[7], _mm_aeskeygenassist_si128(k[7], 0x80));
    k[9] = key_next(k[8], _mm_aeskeygenassist_si128(k[8], 0x1b));
    k[10] = key_next(k[9], _mm_aeskeygenassist_si128(k[9], 0x36));
    for (int i = 0; i < 11; i++) {
        __m128i back = i == 0 || i == 10 ? k[10 - i] : _mm_aesimc_si128(k[10 - i]);
        _mm_store_si128((__m128i *)(void *)ocb->encrypt[i], k[i]);
        _mm_store_si128((__m128i *)(void *)ocb->decrypt[i], back);
    }
}

static inline WIDE __m128i round_key(const unsigned char (*keys)[16], int i)
{
    return _mm_load_si128((const __m128i *)(const void *)keys[i]);
}

static inline WIDE __m128i block_encrypt(const gw_ocb_t *ocb, __m128i x)
{
    x = _mm_xor_si128(x, round_key(ocb->encrypt, 0));
    for (int i = 1; i < 10; i++)
        x = _mm_aesenc_si128(x, round_key(ocb->encrypt, i));
    return _mm_aesenclast_si128(x, round_key(ocb->encrypt, 10));
}

static inline WIDE __m128i block_decrypt(const gw_ocb_t *ocb, __m128i x)
{
    x = _mm_xor_si128(x, round_key(ocb->decrypt, 0));
    for (int i = 1; i < 10; i++)
        x = _mm_aesdec_si128(x, round_key(ocb->decrypt, i));
    return _mm_aesdeclast_si128(x, round_key(ocb->decrypt, 10));
}

static void block_double(const unsigned char in[16], unsigned char out[16])
{
    unsigned char over = (unsigned char)(0u - (in[0] >> 7)) & 0x87;
    for (int i = 0; i < 15; i++)
        out[i] = (unsigned char)(in[i] << 1 | in[i + 1] >> 7);
    out[15] = (unsigned char)(in[15] << 1) ^ over;
}

static int zeros_at_end(uint64_t number)
{
    return __builtin_ctzll(number);
}

WIDE void gw_ocb_key(gw_ocb_t *ocb, const unsigned char *key)
{
    rounds_make(ocb, key);
    _mm_storeu_si128((__m128i *)(void *)ocb->star, block_encrypt(ocb, _mm_setzero_si128()));
    block_double(ocb->star, ocb->dollar);
    block_double(ocb->dollar, ocb->l[0]);
    for (int i = 1; i < 32; i++)
        block_double(ocb->l[i - 1], ocb->l[i]);
    memset(ocb->sum[0], 0, 16);
    for (int i = 1; i < AT_ONCE; i++)
        for (int b = 0; b < 16; b++)
            ocb->sum[i][b] = ocb->sum[i - 1][b] ^ ocb->l[zeros_at_end((uint64_t)i)][b];
}

/* The offset before the first block. */
static WIDE __m128i offset_first(const gw_ocb_t *ocb, const unsigned char nonce[12])
{
    unsigned char top[16] = {0, 0, 0, 1}, stretch[24], offset[16];
    unsigned bottom, bytes, bits;
    memcpy(top + 4, nonce, 12);
    bottom = top[15] & 63;
    top[15] &= 0xc0;
    _mm_storeu_si128((__m128i *)(void *)stretch, block_encrypt(ocb, _mm_loadu_si128((const __m128i *)(const void *)top)));
    for (int i = 0; i < 8; i++)
        stretch[16 + i] = stretch[i] ^ stretch[i + 1];
    bytes = bottom / 8;
    bits = bottom % 8;
    for (unsigned i = 0; i < 16; i++)
        offset[i] = (unsigned char)((unsigned)stretch[bytes + i] << bits | (unsigned)stretch[bytes + i + 1] >> (8 - bits));
    return _mm_loadu_si128((const __m128i *)(const void *)offset);
}

/* ---- Text --------------------------------------------------------------------------------------------------------- */

/* What has been done. */
typedef struct progress {
    __m128i offset, checksum;
    uint64_t blocks;
} progress_t;

static inline WIDE __m128i block_load(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* 32 blocks at a time; returns how many bytes. */
static inline WIDE __attribute__((always_inline)) size_t blocks_wide(const gw_ocb_t *ocb, progress_t *p, bool seals,
                                                                     const unsigned char *from, unsigned char *to, size_t len)
{
    const unsigned char(*keys)[16] = seals ? ocb->encrypt : ocb->decrypt;
    __m512i key[11], sum = _mm512_setzero_si512();
    size_t done = 0;
    UNROLLED for (int i = 0; i < 11; i++)
        key[i] = _mm512_broadcast_i32x4(round_key(keys, i));
    for (; len - done >= 16 * AT_ONCE; done += 16 * AT_ONCE) {
        __m512i before = _mm512_broadcast_i32x4(p->offset), x[VECTORS], offset[VECTORS];
        __m128i last = block_load(ocb->l[zeros_at_end(p->blocks + AT_ONCE)]);
        UNROLLED for (int v = 0; v < VECTORS; v++) /* of blocks 4 v + 1 to 4 v + 4 */
            offset[v] = _mm512_xor_si512(before, _mm512_loadu_si512(ocb->sum[4 * v + 1]));
        p->offset = _mm_xor_si128(_mm_xor_si128(p->offset, block_load(ocb->sum[AT_ONCE - 1])), last);
        offset[VECTORS - 1] = _mm512_inserti32x4(offset[VECTORS - 1], p->offset, 3);
        UNROLLED for (int v = 0; v < VECTORS; v++) {
            x[v] = _mm512_loadu_si512(from + done + 64 * v);
            if (seals)
                sum = _mm512_xor_si512(sum, x[v]);
            x[v] = _mm512_xor_si512(_mm512_xor_si512(x[v], offset[v]), key[0]);
        }
        UNROLLED for (int i = 1; i < 10; i++)
            UNROLLED for (int v = 0; v < VECTORS; v++)
                x[v] = seals ? _mm512_aesenc_epi128(x[v], key[i]) : _mm512_aesdec_epi128(x[v], key[i]);
        UNROLLED for (int v = 0; v < VECTORS; v++) {
            x[v] = seals ? _mm512_aesenclast_epi128(x[v], key[10]) : _mm512_aesdeclast_epi128(x[v], key[10]);
            x[v] = _mm512_xor_si512(x[v], offset[v]);
            if (!seals)
                sum = _mm512_xor_si512(sum, x[v]);
            _mm512_storeu_si512(to + done + 64 * v, x[v]);
        }
        p->blocks += AT_ONCE;
    }
    p->checksum = _mm_xor_si128(_mm_xor_si128(_mm512_extracti32x4_epi32(sum, 0), _mm512_extracti32x4_epi32(sum, 1)),
                                _mm_xor_si128(_mm512_extracti32x4_epi32(sum, 2), _mm512_extracti32x4_epi32(sum, 3)));
    return done;
}

/* One block, that is whole. */
static WIDE void block_one(const gw_ocb_t *ocb, progress_t *p, bool seals, const unsigned char *from, unsigned char *to)
{
    __m128i x = block_load(from), y;
    p->offset = _mm_xor_si128(p->offset, block_load(ocb->l[zeros_at_end(++p->blocks)]));
    y = _mm_xor_si128(x, p->offset);
    y = _mm_xor_si128(seals ? block_encrypt(ocb, y) : block_decrypt(ocb, y), p->offset);
    p->checksum = _mm_xor_si128(p->checksum, seals ? x : y);
    _mm_storeu_si128((__m128i *)(void *)to, y);
}

/* What is less than a block. */
static WIDE void block_rest(const gw_ocb_t *ocb, progress_t *p, bool seals, const unsigned char *from, unsigned char *to,
                            size_t len)
{
    unsigned char pad[16], plain[16] = {0};
    p->offset = _mm_xor_si128(p->offset, block_load(ocb->star));
    _mm_storeu_si128((__m128i *)(void *)pad, block_encrypt(ocb, p->offset));
    for (size_t i = 0; i < len; i++) {
        unsigned char in = from[i];
        to[i] = in ^ pad[i];
        plain[i] = seals ? in : to[i];
    }
    plain[len] = 0x80;
    p->checksum = _mm_xor_si128(p->checksum, block_load(plain));
}

static inline WIDE __attribute__((always_inline)) void text_pass(const gw_ocb_t *ocb, const unsigned char nonce[12],
                                                                 const unsigned char *covered, bool seals,
                                                                 const unsigned char *from, unsigned char *to, size_t len,
                                                                 unsigned char tag[16])
{
    progress_t p = {.offset = offset_first(ocb, nonce)};
    size_t done = blocks_wide(ocb, &p, seals, from, to, len);
    __m128i sum;
    for (; len - done >= 16; done += 16)
        block_one(ocb, &p, seals, from + done, to + done);
    if (len > done)
        block_rest(ocb, &p, seals, from + done, to + done, len - done);
    sum = block_encrypt(ocb, _mm_xor_si128(_mm_xor_si128(p.checksum, p.offset), block_load(ocb->dollar)));
    if (covered)
        sum = _mm_xor_si128(sum, block_encrypt(ocb, _mm_xor_si128(block_load(covered), block_load(ocb->l[0]))));
    _mm_storeu_si128((__m128i *)(void *)tag, sum);
}

WIDE void gw_ocb_seal(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered,
                      const unsigned char *from, unsigned char *to, size_t len, unsigned char tag[16])
{
    text_pass(ocb, nonce, covered, true, from, to, len, tag);
}

WIDE void gw_ocb_open(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered, unsigned char *text,
                      size_t len, unsigned char tag[16])
{
    text_pass(ocb, nonce, covered, false, text, text, len, tag);
}

#else

bool gw_ocb_there(void)
{
    return false;
}

void gw_ocb_key(gw_ocb_t *ocb, const unsigned char *key)
{
    (void)ocb;
    (void)key;
}

void gw_ocb_seal(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered, const unsigned char *from,
                 unsigned char *to, size_t len, unsigned char tag[16])
{
    (void)ocb;
    (void)nonce;
    (void)covered;
    (void)from;
    (void)to;
    (void)len;
    (void)tag;
}

void gw_ocb_open(const gw_ocb_t *ocb, const unsigned char nonce[12], const unsigned char *covered, unsigned char *text,
                 size_t len, unsigned char tag[16])
{
    (void)ocb;
    (void)nonce;
    (void)covered;
    (void)text;
    (void)len;
    (void)tag;
}

#endif
