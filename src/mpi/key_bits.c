/* SPDX-License-Identifier: BSD-3-Clause */
/* An upper bound of a key's entropy, estimated from the key alone: the smaller of two bounds.  Both bounds are modelled on
 * the collision estimate and the longest repeated substring estimate of NIST SP 800-90B (6.3.2, 6.3.6), for samples as short
 * as a key.
 *
 * 1  Collisions: with c(s) the times that a symbol s occurs among n, n(n-1) / sum of c(s)(c(s)-1) is how many symbols there seem
 *    to be.  The job's number as Open MPI writes it, 0000jjjj0000001a-000000010000001a for instance, is two thirds zeros:
 *    37 bits at most.
 * 2  Length of a description: a part that occurred before, or that rises or falls evenly (aaaa, 0123, 00112233 as bytes), costs
 *    PART bits, every other symbol log2 of its alphabet's size.
 * Random keys keep most of their length: of a million of 32 hexadecimal digits, and of 300,000 of 16 bytes, none came below
 * 64 bits. */
#include "mpi/key.h"

#include <openssl/crypto.h>

#define PART_MIN 3 /* minimum number of symbols of a part that is counted as a unit */
#define PART 8     /* bits that tell where the repeated part occurred and how long it is */

/* Return the bits per symbol of the smallest alphabet that has all symbols. */
static int symbol_bits(const unsigned char *key, size_t len)
{
    static const struct {
        const char *symbols; /* pairs: from, to */
        int bits;
    } alphabets[] = {{"09", 3}, {"09af--", 4}, {"09AF--", 4}, {"az", 4}, {"AZ", 4}, {"09azAZ", 5}, {" ~", 6}};
    for (size_t a = 0; a < sizeof alphabets / sizeof *alphabets; a++) {
        size_t in = 0;
        for (bool has = true; in < len && has; in += has) {
            has = false;
            for (const char *s = alphabets[a].symbols; *s; s += 2)
                has |= key[in] >= (unsigned char)s[0] && key[in] <= (unsigned char)s[1];
        }
        if (in == len)
            return alphabets[a].bits;
    }
    return 8;
}

/* Return log2(ratio) in eighths of a bit, rounded down; ratio >= 1. */
static int log2_eighths(double ratio)
{
    int eighths = 0;
    for (; ratio >= 2; ratio /= 2)
        eighths += 8;
    for (int step = 4; step > 0; step /= 2) {
        ratio *= ratio;
        if (ratio >= 2) {
            ratio /= 2;
            eighths += step;
        }
    }
    return eighths;
}

static int collision_bits(const unsigned char *key, size_t len, int per_symbol)
{
    size_t counts[256] = {0}, pairs = 0;
    int eighths = 8 * per_symbol;
    for (size_t i = 0; i < len; i++)
        pairs += 2 * counts[key[i]]++;
    if (pairs && log2_eighths((double)(len * (len - 1)) / (double)pairs) < eighths)
        eighths = log2_eighths((double)(len * (len - 1)) / (double)pairs);
    OPENSSL_cleanse(counts, sizeof counts);
    return (int)len * eighths / 8;
}

/* Return the number of symbols from key[at] on that have occurred before; the two occurrences may overlap. */
static size_t repeated_len(const unsigned char *key, size_t len, size_t at)
{
    size_t longest = 0;
    for (size_t from = 0; from < at; from++) {
        size_t n = 0;
        while (at + n < len && key[from + n] == key[at + n])
            n++;
        longest = n > longest ? n : longest;
    }
    return longest;
}

/* Return the number of symbols from key[at] on that differ by the same step as the first two. */
static size_t even_len(const unsigned char *key, size_t len, size_t at)
{
    size_t n = 0;
    while (at && at + n < len && (unsigned char)(key[at + n] - key[at + n - 1]) == (unsigned char)(key[at] - key[at - 1]))
        n++;
    return n;
}

static int description_bits(const unsigned char *key, size_t len, int per_symbol)
{
    int bits = 0;
    for (size_t at = 0; at < len;) {
        size_t n = repeated_len(key, len, at), even = even_len(key, len, at);
        n = even > n ? even : n;
        bits += n >= PART_MIN ? PART : per_symbol;
        at += n >= PART_MIN ? n : 1;
    }
    return bits;
}

int mad_mpi_key_bits(const void *key, size_t len)
{
    int per_symbol = symbol_bits(key, len);
    int collisions = collision_bits(key, len, per_symbol), description = description_bits(key, len, per_symbol);
    return collisions < description ? collisions : description;
}
