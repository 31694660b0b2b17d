/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: made and completed. */
#ifndef MADI_REQUEST_H
#define MADI_REQUEST_H

#include "core/object/request.h"

void madi_request_queue_callback(mad_request_t *request); /* queue the callback of a request that is done; any lock */
void madi_request_init(mad_request_t *request, mad_session_t *session, bool async);
void madi_request_free(mad_request_t *request);                      /* free a request that its owner no longer needs */
mad_request_t *madi_request_new(mad_session_t *session, bool async); /* async: needs progress while no thread waits */
/* Count a request as one that the peer completes.  Called before the peer can complete it. */
void madi_request_by_peer(mad_request_t *request);
/* Wake the progress thread if it is needed, before the request is returned to the program.  No lock. */
void madi_request_left(mad_request_t *request);
void madi_request_complete(mad_request_t *request, mad_status_t status); /* any lock */

#endif
