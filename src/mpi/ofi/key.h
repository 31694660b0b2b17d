/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the provider's key comes from, in this order:
 *
 *   FI_MAD_KEY                      a text, through scrypt
 *   MADELEINE_KEY, Open MPI's own   mpi/key.h
 *   FI_MAD_KEY_FILE                 a file that the user names
 *   the job's first process         by PMIx, where the launcher speaks it (key_pmix.c)
 *   $HOME/.madeleine-key            a file that is made with random bytes if it is not there
 *
 * PMI-1 is left to the MPI library: its one socket is in use, and a value is seen only after a barrier of all processes. */
#ifndef MAD_OFI_KEY_H
#define MAD_OFI_KEY_H

#include "mpi/key.h"

/* Each returns 1 with a key, 0 if its source is not there, -1 with why if the source is refused. */
int mad_ofi_key_text(mad_mpi_key_t *key); /* FI_MAD_KEY; takes a tenth of a second */
int mad_ofi_key_file(mad_mpi_key_t *key, const char *path);
int mad_ofi_key_pmix(mad_mpi_key_t *key);

#endif
