/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the keys of MPI jobs: which environment variables serve as a key, and which keys are too easy to guess. */
#include "unit.h"

#include "mpi/key.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static int bits_of(const char *text)
{
    return mad_mpi_key_bits(text, strlen(text));
}

/* Open MPI writes the job's number if mpirun gave no random bits: two words of 32 bits, twice.  These keys are refused. */
START_TEST(job_numbers_are_refused)
{
    char text[64];
    for (unsigned local = 0; local < 16; local++)
        for (unsigned family = 0; family < 65536; family++) {
            snprintf(text, sizeof text, "%08x%08x-%08x%08x", family, 0x1a, local, 0x1a);
            if (bits_of(text) >= MAD_MPI_KEY_BITS_MIN)
                ck_abort_msg("%s has %d bits", text, bits_of(text));
            snprintf(text, sizeof text, "%08X%08X-%08X%08X", family, 0u, local, family);
            if (bits_of(text) >= MAD_MPI_KEY_BITS_MIN)
                ck_abort_msg("%s has %d bits", text, bits_of(text));
        }
}
END_TEST

START_TEST(random_keys_are_taken)
{
    unsigned words[16];
    char text[64];
    for (int i = 0; i < 20000; i++) {
        ck_assert_int_eq(getrandom(words, sizeof words, 0), sizeof words);
        snprintf(text, sizeof text, "%08x%08x-%08x%08x", words[0], words[1], words[2], words[3]);
        ck_assert_msg(bits_of(text) >= MAD_MPI_KEY_BITS_MIN, "%s has %d bits", text, bits_of(text));
        ck_assert_int_ge(mad_mpi_key_bits(words, 32), 128);
        ck_assert_int_ge(mad_mpi_key_bits(words, 64), 256);
    }
}
END_TEST

START_TEST(patterns_are_refused)
{
    static const char *const texts[] = {"",
                                        "a",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                                        "abababababababababababababababab",
                                        "0123456789abcdef0123456789abcdef",
                                        "passwordpassword",
                                        "abcdefghijklmnopqrstuvwxyz",
                                        "zyxwvutsrqponmlk",
                                        "2026-11-25 10:00:00",
                                        "1234567812345678",
                                        "madeleinemadeleine",
                                        "acegikmoqsuwyacegikmoqsuwy"};
    unsigned char bytes[32];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(bits_of(texts[i]) < MAD_MPI_KEY_BITS_MIN, "%s has %d bits", texts[i], bits_of(texts[i]));
    for (int step = 0; step < 256; step++) {
        for (int i = 0; i < 32; i++)
            bytes[i] = (unsigned char)(step * i + 7);
        ck_assert_int_lt(mad_mpi_key_bits(bytes, sizeof bytes), MAD_MPI_KEY_BITS_MIN);
    }
}
END_TEST

START_TEST(key_sources_have_an_order)
{
    mad_mpi_key_t key;
    unsetenv("MADELEINE_KEY");
    unsetenv("OMPI_MCA_orte_precondition_transports");
    ck_assert_int_eq(mad_mpi_key_environment(&key), 0);
    ck_assert_str_eq(key.why, "");

    setenv("OMPI_MCA_orte_precondition_transports", "000075da0000001a-000000010000001a", 1);
    ck_assert_int_eq(mad_mpi_key_environment(&key), 0);
    ck_assert_ptr_nonnull(strstr(key.why, "OMPI_MCA_orte_precondition_transports holds a text that can be guessed"));
    ck_assert_ptr_null(strstr(key.why, "000075da"));
    ck_assert_uint_eq(key.len, 0);

    setenv("OMPI_MCA_orte_precondition_transports", "4914a17eaf05294d-a92c32e696be47ac", 1);
    ck_assert_int_eq(mad_mpi_key_environment(&key), 1);
    ck_assert_uint_eq(key.len, 33);
    ck_assert_mem_eq(key.bytes, "4914a17eaf05294d-a92c32e696be47ac", 33);

    setenv("MADELEINE_KEY", "5f1d0a93c27be64810f9a3d67c25e8b4", 1);
    ck_assert_int_eq(mad_mpi_key_environment(&key), 1);
    ck_assert_uint_eq(key.len, 16);
    ck_assert_mem_eq(key.bytes, "\x5f\x1d\x0a\x93\xc2\x7b\xe6\x48\x10\xf9\xa3\xd6\x7c\x25\xe8\xb4", 16);
}
END_TEST

/* A key that the user sets wrongly is an error, and no other source replaces it. */
START_TEST(wrong_key_is_not_replaced)
{
    static const char *const texts[] = {"short",
                                        "00",
                                        "00112233445566778899aabbccddeeff",
                                        "5f1d0a93c27be64810f9a3d67c25e8b",
                                        "5f1d0a93c27be64810f9a3d67c25e8bg",
                                        " f1d0a93c27be64810f9a3d67c25e8b4",
                                        "00000000000000000000000000000000"};
    mad_mpi_key_t key;
    setenv("OMPI_MCA_orte_precondition_transports", "4914a17eaf05294d-a92c32e696be47ac", 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        setenv("MADELEINE_KEY", texts[i], 1);
        ck_assert_int_eq(mad_mpi_key_environment(&key), -1);
        ck_assert_uint_eq(key.len, 0);
        ck_assert_ptr_nonnull(strstr(key.why, "MADELEINE_KEY"));
        ck_assert_ptr_nonnull(strstr(key.why, "openssl rand"));
    }
}
END_TEST

START_TEST(key_made_survives_text)
{
    mad_mpi_key_t made = {.len = 0}, again = {.len = 0}, other = {.len = 0};
    char text[MAD_MPI_KEY_TEXT];
    ck_assert(mad_mpi_key_make(&made, "a test"));
    ck_assert(mad_mpi_key_make(&other, "a test"));
    ck_assert_uint_eq(made.len, MAD_MPI_KEY_MADE);
    ck_assert_mem_ne(made.bytes, other.bytes, made.len);
    mad_mpi_key_write(&made, text);
    ck_assert_uint_eq(strlen(text), 2 * MAD_MPI_KEY_MADE);
    ck_assert(mad_mpi_key_read(&again, text, "a test"));
    ck_assert_uint_eq(again.len, made.len);
    ck_assert_mem_eq(again.bytes, made.bytes, made.len);
    mad_mpi_key_wipe(&again);
    ck_assert_uint_eq(again.len, 0);
    for (size_t i = 0; i < sizeof again.bytes; i++)
        ck_assert_int_eq(again.bytes[i], 0);
}
END_TEST

Suite *key_suite(void)
{
    const TTest *tests[] = {job_numbers_are_refused,   random_keys_are_taken,     patterns_are_refused,
                            key_sources_have_an_order, wrong_key_is_not_replaced, key_made_survives_text};
    return SUITE_OF("key", tests);
}
