/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists to which any thread adds at the front, and which one thread takes as a whole. */
#ifndef MAD_MPI_OLDEST_FIRST_H
#define MAD_MPI_OLDEST_FIRST_H

#include <stddef.h>

/* Reverse a list that is linked by `next`, and set oldest to the former last entry; NULL if the list is empty. */
#define MAD_OLDEST_FIRST(list, oldest) \
    do { \
        __typeof__(list) left_ = (list), next_; \
        for ((oldest) = NULL; left_; left_ = next_) { \
            next_ = left_->next; \
            left_->next = (oldest); \
            (oldest) = left_; \
        } \
    } while (0)

#endif
