/* SPDX-License-Identifier: BSD-3-Clause */
/* Sources of the provider's key, in this order:
 *
 *   FI_MAD_KEY                      a text, through scrypt
 *   MADELEINE_KEY, Open MPI's own   mpi/key.h
 *   FI_MAD_KEY_FILE                 a file that the user names
 *   the job's first process         by PMIx, if the launcher provides it (key_pmix.c)
 *   $HOME/.madeleine-key            a file that is made with random bytes if it does not exist
 *
 * PMI-1 is not used: the MPI library already uses its only socket, and a value is visible only after a barrier of all
 * processes. */
#ifndef MAD_OFI_KEY_H
#define MAD_OFI_KEY_H

#include "mpi/key.h"

/* Each function returns 1 with a key, 0 if its source does not exist, or -1 with the reason in key->why if the source
 * is refused. */
int mad_ofi_key_text(mad_mpi_key_t *key); /* reads FI_MAD_KEY; takes a tenth of a second */
int mad_ofi_key_file(mad_mpi_key_t *key, const char *path);
int mad_ofi_key_pmix(mad_mpi_key_t *key);

#endif
