/* SPDX-License-Identifier: BSD-3-Clause */
/* Knobs: settings from MAD_* environment variables and from the program (madi_knob_set).  Each is a row of knobs.h.  Each
 * library that contains knob.c keeps its own values. */
#ifndef MADI_KNOB_H
#define MADI_KNOB_H

#include "base/knobs.h"

#include <madeleine/status.h>
#include <stdint.h>

#define MADI_KNOB_ID(id, ...) MADI_KNOB_##id,
typedef enum madi_knob_id { MADI_KNOBS(MADI_KNOB_ID) MADI_KNOB_COUNT } madi_knob_id_t;
#undef MADI_KNOB_ID

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
/* Read one knob without checking for unknown names: for libmarcel, which has only its own knobs. */
mad_status_t madi_knob_load(madi_knob_id_t id);
/* Return the value of a numeric knob in its base unit (bytes; nanoseconds for MS), or of a text knob.  After
 * madi_knobs_load. */
int64_t madi_knob_int(madi_knob_id_t id);
const char *madi_knob_text(madi_knob_id_t id);
/* Return the text from the environment or the program; NULL if the default applies. */
const char *madi_knob_origin(madi_knob_id_t id);

#endif
