/* SPDX-License-Identifier: BSD-3-Clause */
/* Unit tests of internal functions: one file and suite per subject, and one process per test. */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stddef.h>

/* The driver mpi is not built with configure --without-mpi. */
#ifdef HAVE_MPI_DRIVER
#define UNIT_MPI(X) X(mpi)
#else
#define UNIT_MPI(X)
#endif

/* Without hwloc nothing is near or far. */
#ifdef HAVE_HWLOC
#define UNIT_NEAR(X) X(near)
#else
#define UNIT_NEAR(X)
#endif

/* The driver ofi is built only with libfabric's headers. */
#ifdef HAVE_OFI_DRIVER
#define UNIT_OFI(X) X(ofi)
#else
#define UNIT_OFI(X)
#endif

/* The driver ucx is built only with UCX's headers. */
#ifdef HAVE_UCX_DRIVER
#define UNIT_UCX(X) X(ucx)
#else
#define UNIT_UCX(X)
#endif

/* The driver verbs is built only with the headers of libibverbs. */
#ifdef HAVE_VERBS_DRIVER
#define UNIT_VERBS(X) X(verbs)
#else
#define UNIT_VERBS(X)
#endif

/* The suites, by name: address is address_suite, in address_test.c. */
#define UNIT_SUITES(X) \
    X(address) \
    X(aead) \
    X(base) \
    X(begun) \
    X(boot) \
    X(borrow) \
    X(cipher) \
    X(coll) \
    X(cond) \
    X(core) \
    X(costs) \
    X(eth) \
    X(fabric) \
    X(frames) \
    X(frames_stranger) \
    X(gateway) \
    X(json) \
    X(key) \
    X(knob) \
    X(ledger) \
    X(madrun) \
    X(madrun_hosts) \
    X(memory) \
    UNIT_MPI(X) \
    UNIT_NEAR(X) \
    UNIT_OFI(X) \
    X(policy) \
    X(posted) \
    X(progress_thread) \
    X(rails) \
    X(range) \
    X(registration) \
    X(route) \
    X(seal) \
    X(search) \
    X(share) \
    X(tally) \
    X(topology) \
    UNIT_UCX(X) \
    UNIT_VERBS(X) \
    X(wait) \
    X(wire)

#define UNIT_SUITE_DECLARE(name) Suite *name##_suite(void);
UNIT_SUITES(UNIT_SUITE_DECLARE)

/* Capture standard error from here on.  err_text returns it in static memory, which the next call overwrites. */
void err_keep(void);
const char *err_text(void);

/* Make a suite with one test case. */
Suite *suite_of(const char *name, const TTest *const *tests, size_t count);
#define SUITE_OF(name, tests) suite_of(name, tests, sizeof(tests) / sizeof *(tests))

#endif
