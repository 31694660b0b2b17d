/* SPDX-License-Identifier: BSD-3-Clause */
/* Historic spellings of Madeleine's interface, defined in terms of <madeleine.h>, for programs that follow the slides
 * of the first Madeleine; and the names of 0.1. */
#ifndef MADELEINE_LEGACY_H
#define MADELEINE_LEGACY_H

#include <madeleine.h>
#include <madeleine/names_0_1.h>

typedef mad_message_t *p_mad_connection_t;
typedef mad_channel_t *p_mad_channel_t;

#define send_SAFER MAD_SEND_SAFER
#define send_LATER MAD_SEND_LATER
#define send_CHEAPER MAD_SEND_CHEAPER
#define receive_EXPRESS MAD_RECEIVE_EXPRESS
#define receive_CHEAPER MAD_RECEIVE_CHEAPER

#endif
