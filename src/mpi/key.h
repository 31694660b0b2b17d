/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of a job that a launcher of MPI starts: its sources, in this order, and a check of its strength.
 *
 *   1  MADELEINE_KEY, set by madrun --around, or by a user: hexadecimal digits;
 *   2  the variable in which Open MPI's mpirun passes 128 random bits to a job and to the jobs that this job starts.
 *      Without mpirun, Open MPI itself fills the variable with the number of the job, which is public; the variable
 *      is then ignored.
 *   3  a random key, made by the job's first process; the other processes get it by the exchange of the MPI library
 *      (openmpi/key.c, ofi/key_pmix.c).
 *
 * The libfabric provider also has keys of its user, which come before and after these (ofi/key.c). */
#ifndef MAD_MPI_KEY_H
#define MAD_MPI_KEY_H

#include <stdbool.h>
#include <stddef.h>

#define MAD_MPI_KEY_MIN 16 /* bytes of a key */
#define MAD_MPI_KEY_MAX 64
#define MAD_MPI_KEY_MADE 32     /* bytes of a key that is generated here */
#define MAD_MPI_KEY_BITS_MIN 64 /* bits of entropy, as estimated by mad_mpi_key_bits, below which a key is refused */
#define MAD_MPI_KEY_WAIT 60     /* s that a process waits for the key of the job's first process */
#define MAD_MPI_KEY_TEXT (2 * MAD_MPI_KEY_MAX + 1)

/* Remedy for a missing key; follows a semicolon in log lines. */
#define MAD_MPI_KEY_REMEDY "set MADELEINE_KEY to 64 random hexadecimal digits (openssl rand -hex 32) for all processes"

typedef struct mad_mpi_key {
    unsigned char bytes[MAD_MPI_KEY_MAX];
    size_t len;         /* bytes; 0: there is no key */
    const char *source; /* origin of the key, for log texts; static; NULL if there is no key */
    char why
        /* the reason why there is no key, or why an earlier source was ignored; one line without a newline; "" if
         * neither applies */
        [512];
} mad_mpi_key_t;

/* Upper bound of the bits of entropy of a text or binary key, estimated from the key itself: its alphabet, the frequency
 * of symbols, and repeated or evenly rising parts.  A key derived from a public number in a way that does not show, such
 * as a hash, is not detected. */
int mad_mpi_key_bits(const void *key, size_t len);

/* True if the key has a valid length and enough entropy.  Otherwise clear the key, and set why: "NAME holds ...; REMEDY". */
bool mad_mpi_key_fit(mad_mpi_key_t *key, const char *name, const char *remedy);

/* Take the key from the environment (1 and 2 above).  Return 1 with a key; 0 if there is none: the text in why then
 * says whether Open MPI's variable was ignored.  Return -1 if MADELEINE_KEY is refused, with the reason in why. */
int mad_mpi_key_environment(mad_mpi_key_t *key);

/* Make a random key.  Return false, with the reason in why, if the system has no random bytes. */
bool mad_mpi_key_make(mad_mpi_key_t *key, const char *source);

/* Write the key as hexadecimal digits, for an exchange.  The calling function overwrites text with zeros afterwards. */
void mad_mpi_key_write(const mad_mpi_key_t *key, char text[MAD_MPI_KEY_TEXT]);
/* Read hexadecimal digits.  Return false, with the key cleared, if text is anything else. */
bool mad_mpi_key_read(mad_mpi_key_t *key, const char *text, const char *source);

/* Overwrite the key with zeros; the text in why stays. */
void mad_mpi_key_wipe(mad_mpi_key_t *key);

#endif
