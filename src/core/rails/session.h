/* SPDX-License-Identifier: BSD-3-Clause */
/* Rails of a session, which are switched on when the session starts. */
#ifndef MADI_RAILS_SESSION_H
#define MADI_RAILS_SESSION_H

struct mad_session;

/* Let the session use rails, if MAD_RAILS permits.  Precondition: all adapters are open.  Called without locks. */
void madi_rails_session_start(struct mad_session *session);

#endif
