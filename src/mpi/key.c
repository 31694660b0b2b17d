/* SPDX-License-Identifier: BSD-3-Clause */
/* The key in the environment. */
#include "mpi/key.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define OPEN_MPI "OMPI_MCA_orte_precondition_transports"

void mad_mpi_key_wipe(mad_mpi_key_t *key)
{
    OPENSSL_cleanse(key->bytes, sizeof key->bytes);
    key->len = 0;
    key->source = NULL;
}

/* ---- Hexadecimal digits ------------------------------------------------------------------------------------------- */

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool mad_mpi_key_read(mad_mpi_key_t *key, const char *text, const char *source)
{
    size_t digits = strlen(text);
    mad_mpi_key_wipe(key);
    if (digits % 2 || digits < 2 * MAD_MPI_KEY_MIN || digits > 2 * MAD_MPI_KEY_MAX)
        return false;
    for (size_t i = 0; i < digits / 2; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0) {
            mad_mpi_key_wipe(key);
            return false;
        }
        key->bytes[i] = (unsigned char)(high << 4 | low);
    }
    key->len = digits / 2;
    key->source = source;
    return true;
}

void mad_mpi_key_write(const mad_mpi_key_t *key, char text[MAD_MPI_KEY_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < key->len; i++) {
        text[2 * i] = digits[key->bytes[i] >> 4];
        text[2 * i + 1] = digits[key->bytes[i] & 15];
    }
    text[2 * key->len] = 0;
}

/* ---- Sources ------------------------------------------------------------------------------------------------------ */

bool mad_mpi_key_make(mad_mpi_key_t *key, const char *source)
{
    ssize_t n = getrandom(key->bytes, MAD_MPI_KEY_MADE, 0);
    if (n != MAD_MPI_KEY_MADE) {
        snprintf(key->why, sizeof key->why,
                 "the system gives no random bytes for a key (getrandom: %s); " MAD_MPI_KEY_REMEDY,
                 n < 0 ? strerror(errno) : "too few");
        mad_mpi_key_wipe(key);
        return false;
    }
    key->len = MAD_MPI_KEY_MADE;
    key->source = source;
    return true;
}

bool mad_mpi_key_fit(mad_mpi_key_t *key, const char *name, const char *remedy)
{
    int bits = mad_mpi_key_bits(key->bytes, key->len);
    if (key->len >= MAD_MPI_KEY_MIN && key->len <= MAD_MPI_KEY_MAX && bits >= MAD_MPI_KEY_BITS_MIN)
        return true;
    if (key->len < MAD_MPI_KEY_MIN)
        snprintf(key->why, sizeof key->why, "%.200s holds %zu bytes, and a key has %d at least; %s", name, key->len,
                 MAD_MPI_KEY_MIN, remedy);
    else
        snprintf(
            key->why, sizeof key->why,
            "%.200s holds a text that can be guessed: its %zu bytes have %d bits of entropy at most, and a key has %d at "
            "least; %s",
            name, key->len, bits, MAD_MPI_KEY_BITS_MIN, remedy);
    mad_mpi_key_wipe(key);
    return false;
}

static bool key_of_open_mpi(mad_mpi_key_t *key)
{
    const char *text = secure_getenv(OPEN_MPI);
    if (!text || !*text)
        return false;
    key->len = strnlen(text, sizeof key->bytes);
    memcpy(key->bytes, text, key->len);
    key->source = "Open MPI's launcher";
    return mad_mpi_key_fit(key, OPEN_MPI, "it is not used as a key");
}

int mad_mpi_key_environment(mad_mpi_key_t *key)
{
    const char *text = secure_getenv("MADELEINE_KEY");
    mad_mpi_key_wipe(key);
    key->why[0] = 0;
    if (!text || !*text)
        return key_of_open_mpi(key);
    if (mad_mpi_key_read(key, text, "MADELEINE_KEY"))
        return mad_mpi_key_fit(key, "MADELEINE_KEY", MAD_MPI_KEY_REMEDY) ? 1 : -1;
    snprintf(key->why, sizeof key->why,
             "MADELEINE_KEY has %zu characters, where a key is an even number of hexadecimal digits, %d to "
             "%d; " MAD_MPI_KEY_REMEDY,
             strlen(text), 2 * MAD_MPI_KEY_MIN, 2 * MAD_MPI_KEY_MAX);
    return -1;
}
