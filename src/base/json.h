/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON text, written piece by piece into growing memory.  Commas are inserted automatically. */
#ifndef MADI_JSON_H
#define MADI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* JSON under construction; initialise it to zeros.  text has no final zero.  The caller consumes len bytes by setting len
 * to 0. */
typedef struct madi_json {
    char *text;
    size_t len, cap;
    bool comma;  /* true if the next value needs a comma before it */
    bool failed; /* out of memory: text is incomplete */
} madi_json_t;

/* In these calls key is NULL inside an array, and for the outermost value. */
void madi_json_begin(madi_json_t *json, const char *key, char bracket);     /* '{' or '[' */
void madi_json_end(madi_json_t *json, char bracket);                        /* '}' or ']' */
void madi_json_text(madi_json_t *json, const char *key, const char *value); /* any bytes: non-ASCII ones become '?' */
void madi_json_int(madi_json_t *json, const char *key, int64_t value);
void madi_json_thousandths(madi_json_t *json, const char *key, int64_t value); /* writes value / 1000, exactly */
void madi_json_real(madi_json_t *json, const char *key, double value);
void madi_json_bool(madi_json_t *json, const char *key, bool value);
void madi_json_fini(madi_json_t *json);

#endif
