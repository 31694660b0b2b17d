/* SPDX-License-Identifier: BSD-3-Clause */
/* Knobs: settings from MAD_* environment variables and from the program (madi_knob_set), all in one table (knob.c).  The
 * parser, mad_info and the manual page are generated from that table.  Each library that contains knob.c keeps its own
 * values. */
#ifndef MADI_KNOB_H
#define MADI_KNOB_H

#include <madeleine/status.h>
#include <stdint.h>

typedef enum madi_knob_id {
    MADI_KNOB_LOG,
    MADI_KNOB_DRIVERS,
    MADI_KNOB_PREFER,
    MADI_KNOB_CONNECT_TIMEOUT,
    MADI_KNOB_CONNECT_DELAY,
    MADI_KNOB_EXIT_TIMEOUT,
    MADI_KNOB_PEER_TIMEOUT,
    MADI_KNOB_CREDIT_FLOOR,
    MADI_KNOB_CREDIT_BUDGET,
    MADI_KNOB_CHECK_SEND_MODE,
    MADI_KNOB_SPIN,
    MADI_KNOB_PROGRESS_THREAD,
    MADI_KNOB_WORKERS,
    MADI_KNOB_WORKERS_BIND,
    MADI_KNOB_MONITOR,
    MADI_KNOB_STACK_SIZE,
    MADI_KNOB_STACK_GUARDS,
    MADI_KNOB_SHM_DIR,
    MADI_KNOB_SHM_DIRECT,
    MADI_KNOB_SHM_READ_MIN,
    MADI_KNOB_COSTS,
    MADI_KNOB_TCP_INTERFACES,
    MADI_KNOB_TCP_PORTS,
    MADI_KNOB_TCP_NETWORK,
    MADI_KNOB_TCP_ALLOW,
    MADI_KNOB_TCP_SECURITY,
    MADI_KNOB_SEAL_CIPHER,
    MADI_KNOB_SEAL_CERTIFICATE,
    MADI_KNOB_SEAL_PRIVATE_KEY,
    MADI_KNOB_SEAL_AUTHORITY,
    MADI_KNOB_SEAL_KERNEL,
    MADI_KNOB_TOPOLOGY,
    MADI_KNOB_GATEWAYS,
    MADI_KNOB_HOST,
    MADI_KNOB_VIRTUAL_CHANNEL,
    MADI_KNOB_FORWARD_BUDGET,
    MADI_KNOB_FORWARD_FRAGMENT,
    MADI_KNOB_FORWARD_LINGER,
    MADI_KNOB_FORWARD_WINDOW,
    MADI_KNOB_FORWARD_DETECT,
    MADI_KNOB_FORWARD_DEADLINE,
    MADI_KNOB_TRACE,
    MADI_KNOB_TRACE_EVENTS,
    MADI_KNOB_FAULT,
    MADI_KNOB_FAULT_SEED,
    MADI_KNOB_FAULT_DELAY,
    MADI_KNOB_FAULT_DELAY_US,
    MADI_KNOB_FAULT_AGAIN,
    MADI_KNOB_FAULT_ARM,
    MADI_KNOB_FAULT_SHORT,
    MADI_KNOB_FAULT_LOAN,
    MADI_KNOB_FAULT_CUT,
    MADI_KNOB_FAULT_CUT_ONE_IN,
    MADI_KNOB_COUNT
} madi_knob_id_t;

typedef enum madi_knob_type {
    MADI_KNOB_TEXT,
    MADI_KNOB_INT,
    MADI_KNOB_BYTES,
    MADI_KNOB_MS,
    MADI_KNOB_BOOL
} madi_knob_type_t;

typedef struct madi_knob {
    const char *name; /* "MAD_LOG" */
    madi_knob_type_t type;
    const char *def; /* default, as a user would write it */
    const char *help;
    int64_t min, max; /* limits of numeric values */
} madi_knob_t;

extern const madi_knob_t madi_knobs[MADI_KNOB_COUNT];

/* Set a knob for later loads, as if its default were `value`; NULL: the default again.  An environment variable takes
 * precedence.  The value is copied.  Errors: MAD_ERR_INVAL (no knob of that name) and MAD_ERR_CONFIG (bad value), both
 * logged; MAD_ERR_BUSY (the knob has been loaded), MAD_ERR_NOMEM. */
mad_status_t madi_knob_set(const char *name, const char *value);
/* Load all knobs when a session starts.  An invalid value is MAD_ERR_CONFIG; an unknown MAD_* variable is a warning with
 * the nearest known name.  Both are logged. */
mad_status_t madi_knobs_load(void);
/* Reset the mutex in the child of a fork, where no other thread reads knobs. */
void madi_knobs_forked(void);
/* Read one knob without checking for unknown names: for libmarcel, which has only its own knobs. */
mad_status_t madi_knob_load(madi_knob_id_t id);
/* Return the value of a numeric knob in its base unit (bytes; nanoseconds for MS), or of a text knob.  After
 * madi_knobs_load. */
int64_t madi_knob_int(madi_knob_id_t id);
const char *madi_knob_text(madi_knob_id_t id);
/* Return the text from the environment or the program; NULL if the default applies. */
const char *madi_knob_origin(madi_knob_id_t id);

#endif
