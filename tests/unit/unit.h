/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of internal functions: one file and suite per subject, and one process per test. */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stddef.h>

Suite *aead_suite(void);
Suite *begun_suite(void);
Suite *base_suite(void);
Suite *json_suite(void);
Suite *key_suite(void);
Suite *knob_suite(void);
Suite *address_suite(void);
Suite *wire_suite(void);
Suite *cipher_suite(void);
Suite *cond_suite(void);
Suite *ledger_suite(void);
Suite *core_suite(void);
Suite *costs_suite(void);
Suite *boot_suite(void);
Suite *gateway_suite(void);
Suite *hosts_suite(void);
Suite *madrun_suite(void);
Suite *range_suite(void);
Suite *route_suite(void);
Suite *search_suite(void);
Suite *seal_suite(void);
Suite *share_suite(void);
Suite *topology_suite(void);
Suite *path_suite(void);
Suite *progress_thread_suite(void);
Suite *wait_suite(void);

/* Capture standard error from here on.  err_text returns it in static memory, which the next call overwrites. */
void err_keep(void);
const char *err_text(void);

/* Make a suite with one test case. */
Suite *suite_of(const char *name, const TTest *const *tests, size_t count);
#define SUITE_OF(name, tests) suite_of(name, tests, sizeof(tests) / sizeof *(tests))

#endif
