/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of drivers/fabric/registration.c and unmap.c: which regions are kept, and that none outlives its memory. */
#include "unit.h"

#include "drivers/fabric/registration.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#define LIMIT (64 * PAGE)

static atomic_int n_registered;
static int rights_seen;
static bool full;

static void *pages_add(void *arg, void *at, size_t len, int rights, bool lasts)
{
    (void)arg;
    if (full) {
        errno = ENOMEM;
        return NULL;
    }
    if (madvise(at, len, MADV_POPULATE_WRITE) && errno != EINVAL) /* as a device does, make the pages present */
        return NULL;
    rights_seen = lasts ? -1 : rights;
    atomic_fetch_add(&n_registered, 1);
    return at;
}

static void pages_drop(void *arg, void *handle)
{
    (void)arg;
    (void)handle;
    atomic_fetch_sub(&n_registered, 1);
}

static const fabric_registrar_t registrar = {pages_add, pages_drop, NULL};
static fabric_registrations_t all;

static char *pages_map(size_t n)
{
    char *at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(at != MAP_FAILED);
    return at;
}

static void block_use(void *at, size_t len)
{
    fabric_region_t *r = fabric_registration_get(&all, at, len, 1);
    ck_assert_ptr_nonnull(r);
    ck_assert(r->from <= (uintptr_t)at && r->to >= (uintptr_t)at + len);
    fabric_registration_put(&all, r);
}

/* Begin.  False, with the reason on standard output, if the kernel reports nothing to this process. */
static bool all_open(bool checks)
{
    char reason[200];
    if (fabric_registrations_open(&all, &registrar, LIMIT, checks, reason, sizeof reason))
        return true;
    printf("# skipped: %s\n", reason);
    block_use(reason, sizeof reason); /* which is not kept then */
    ck_assert_int_eq(n_registered, 0);
    return false;
}

static void all_end(void)
{
    fabric_registrations_fini(&all);
    ck_assert_int_eq(n_registered, 0);
    ck_assert_ptr_null(all.root);
    ck_assert_uint_eq(all.bytes, 0);
}

START_TEST(block_stays_registered)
{
    char *at = pages_map(8);
    if (!all_open(false))
        return;
    for (int i = 0; i < 10; i++)
        block_use(at + 100, 3 * PAGE);
    ck_assert_int_eq(rights_seen, -1);
    ck_assert_uint_eq(all.added, 1);
    ck_assert_uint_eq(all.found, 9);
    ck_assert_uint_eq(all.bytes, 4 * PAGE);
    all_end();
}
END_TEST

START_TEST(nothing_stays_registered_without_limit)
{
    char *at = pages_map(1), reason[100];
    ck_assert(fabric_registrations_open(&all, &registrar, 0, false, reason, sizeof reason));
    block_use(at, 10);
    ck_assert_int_eq(rights_seen, 1);
    ck_assert_int_eq(n_registered, 0);
    all_end();
}
END_TEST

START_TEST(overlapping_blocks_become_one_region)
{
    char *at = pages_map(16);
    if (!all_open(false))
        return;
    block_use(at, 4 * PAGE);
    block_use(at + 6 * PAGE, 2 * PAGE);
    ck_assert_int_eq(n_registered, 2);
    fabric_region_t *used = fabric_registration_get(&all, at + PAGE, PAGE, 1);
    block_use(at + 3 * PAGE, 4 * PAGE); /* touches both */
    ck_assert_uint_eq(all.bytes, 8 * PAGE);
    ck_assert_int_eq(n_registered, 2); /* the one in use lasts until it is put */
    ck_assert(!used->kept);
    fabric_registration_put(&all, used);
    ck_assert_int_eq(n_registered, 1);
    block_use(at, 8 * PAGE);
    ck_assert_uint_eq(all.added, 3);
    all_end();
}
END_TEST

START_TEST(least_recently_used_regions_leave)
{
    char *at = pages_map(200);
    if (!all_open(false))
        return;
    for (size_t i = 0; i < 8; i++) /* 8 regions of 8 pages are the limit */
        block_use(at + i * 20 * PAGE, 8 * PAGE);
    ck_assert_uint_eq(all.bytes, LIMIT);
    block_use(at, 8 * PAGE); /* now number 1 is the oldest */
    block_use(at + 160 * PAGE, 8 * PAGE);
    ck_assert_uint_eq(all.bytes, LIMIT);
    uint64_t added = all.added;
    block_use(at, 8 * PAGE);
    ck_assert_uint_eq(all.added, added);
    block_use(at + 20 * PAGE, 8 * PAGE);
    ck_assert_uint_eq(all.added, added + 1);
    block_use(at, LIMIT + PAGE); /* longer than the limit: for one use */
    ck_assert_int_eq(rights_seen, 1);
    all_end();
}
END_TEST

START_TEST(regions_in_use_stay_at_limit)
{
    char *at = pages_map(200);
    fabric_region_t *used[9];
    if (!all_open(false))
        return;
    for (size_t i = 0; i < 9; i++)
        used[i] = fabric_registration_get(&all, at + i * 20 * PAGE, 8 * PAGE, 1);
    ck_assert_int_eq(n_registered, 9);
    ck_assert(used[0]->kept && used[7]->kept && !used[8]->kept);
    for (size_t i = 0; i < 9; i++)
        fabric_registration_put(&all, used[i]);
    ck_assert_int_eq(n_registered, 8);
    all_end();
}
END_TEST

START_TEST(idle_regions_leave_when_memory_is_short)
{
    char *at = pages_map(20);
    if (!all_open(false))
        return;
    block_use(at, PAGE);
    block_use(at + 2 * PAGE, PAGE);
    full = true;
    ck_assert_ptr_null(fabric_registration_get(&all, at + 10 * PAGE, PAGE, 1));
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(n_registered, 0);
    full = false;
    all_end();
}
END_TEST

/* Each way in which memory goes ends its region, before the thread goes on. */
START_TEST(region_ends_with_its_memory)
{
    if (!all_open(true))
        return;
    for (int way = 0; way < 6; way++) {
        char *at = pages_map(8), *again;
        uint64_t lost = all.lost;
        block_use(at, 8 * PAGE);
        switch (way) {
        case 0: ck_assert_int_eq(munmap(at, 8 * PAGE), 0); break;
        case 1: ck_assert_int_eq(munmap(at + 3 * PAGE, PAGE), 0); break;
        case 2: ck_assert_int_eq(madvise(at + PAGE, PAGE, MADV_DONTNEED), 0); break;
        case 3:
            again = mmap(at, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
            ck_assert_ptr_eq(again, at);
            break;
        case 4: ck_assert(mremap(at, 8 * PAGE, 1024 * PAGE, MREMAP_MAYMOVE) != MAP_FAILED); break;
        case 5: ck_assert_ptr_eq(mremap(at, 8 * PAGE, 4 * PAGE, 0), at); break;
        default: break;
        }
        fabric_unmap_lock();
        ck_assert_msg(all.lost == lost + 1, "way %d: %d regions were lost", way, (int)(all.lost - lost));
        fabric_unmap_unlock();
        ck_assert(fabric_registrations_reapable(&all));
        fabric_registrations_reap(&all);
        ck_assert_int_eq(n_registered, 0);
    }
    ck_assert_uint_eq(all.replaced, 0);
    all_end();
}
END_TEST

START_TEST(heap_that_shrinks_is_noticed)
{
    if (!all_open(false))
        return;
    char *at = sbrk(64 * PAGE);
    ck_assert(at != (char *)-1);
    block_use(at + PAGE, 32 * PAGE);
    ck_assert(sbrk(-(intptr_t)(64 * PAGE)) != (char *)-1);
    fabric_unmap_lock();
    ck_assert_uint_eq(all.lost, 1);
    fabric_unmap_unlock();
    all_end();
}
END_TEST

START_TEST(shared_memory_is_not_kept)
{
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(at != MAP_FAILED);
    if (!all_open(false))
        return;
    block_use(at, PAGE);
    ck_assert_int_eq(n_registered, 0);
    ck_assert_ptr_null(all.root);
    all_end();
}
END_TEST

START_TEST(program_can_end_regions)
{
    char *at = pages_map(8);
    if (!all_open(false))
        return;
    block_use(at, 2 * PAGE);
    block_use(at + 4 * PAGE, 2 * PAGE);
    fabric_registrations_forget(&all, at + 5 * PAGE, 1);
    ck_assert_int_eq(n_registered, 1);
    fabric_registrations_forget(&all, at + 2 * PAGE, PAGE);
    ck_assert_int_eq(n_registered, 1);
    all_end();
}
END_TEST

static void nothing_done(fabric_unmap_listener_t *listener, uintptr_t from, uintptr_t to)
{
    (void)listener, (void)from, (void)to;
}

/* Without events, a check of each use finds memory that was replaced. */
START_TEST(check_finds_memory_that_was_replaced)
{
    char *at = pages_map(4);
    if (!all_open(true))
        return;
    all.listener.unmapped = nothing_done;
    block_use(at, 4 * PAGE);
    ck_assert_ptr_eq(mmap(at, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
    memset(at, 1, 4 * PAGE);
    err_keep();
    block_use(at, 4 * PAGE);
    ck_assert_uint_eq(all.replaced, 1);
    ck_assert_ptr_nonnull(strstr(err_text(), "was replaced while it was registered"));
    block_use(at, 4 * PAGE);
    ck_assert_uint_eq(all.replaced, 1);
    all_end();
}
END_TEST

START_TEST(child_of_fork_unmaps_freely)
{
    int status;
    char *at = pages_map(8);
    if (!all_open(false))
        return;
    block_use(at, 8 * PAGE);
    pid_t child = fork();
    if (!child) {
        alarm(10);
        munmap(at, 8 * PAGE);
        _exit(all.lost != 0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    all_end();
}
END_TEST

/* Check order and heap of a tree, and return the number of its regions. */
static int tree_check(const fabric_region_t *r, uintptr_t from, uintptr_t to, size_t *bytes)
{
    if (!r)
        return 0;
    ck_assert(r->from >= from && r->to <= to && r->from < r->to && r->kept && r->ready);
    ck_assert(!r->left || r->left->priority <= r->priority);
    ck_assert(!r->right || r->right->priority <= r->priority);
    *bytes += r->to - r->from;
    return 1 + tree_check(r->left, from, r->from, bytes) + tree_check(r->right, r->to, to, bytes);
}

START_TEST(tree_stays_in_order)
{
    enum { PAGES = 4096 };
    char *at = pages_map(PAGES), reason[200];
    unsigned seed = 1;
    if (!all_open(false))
        return;
    all_end();
    ck_assert(fabric_registrations_open(&all, &registrar, PAGES / 2 * PAGE, false, reason, sizeof reason));
    for (int i = 0; i < 3000; i++) {
        size_t first = (size_t)rand_r(&seed) % (PAGES - 8), n = 1 + (size_t)rand_r(&seed) % 7, bytes = 0;
        if (i % 4 == 3)
            fabric_registrations_forget(&all, at + first * PAGE, n * PAGE);
        else
            block_use(at + first * PAGE, n * PAGE);
        ck_assert_uint_le(all.bytes, PAGES / 2 * PAGE);
        if (i > 300 && i % 16) /* a broken order stays broken */
            continue;
        ck_assert_int_eq(tree_check(all.root, 0, UINTPTR_MAX, &bytes), n_registered);
        ck_assert_uint_eq(bytes, all.bytes);
    }
    ck_assert_uint_eq(all.lost, 0);
    all_end();
}
END_TEST

/* Threads map, use and unmap memory at addresses that others have just left; checks would find each stale region. */
static void *churn(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 1500; i++) {
        size_t n = 1 + (size_t)rand_r(&seed) % 4;
        char *at = pages_map(n);
        fabric_region_t *r = fabric_registration_get(&all, at, n * PAGE, 1);
        if (r)
            fabric_registration_put(&all, r);
        munmap(at, n * PAGE);
    }
    return NULL;
}

START_TEST(threads_that_unmap_get_no_stale_region)
{
    pthread_t threads[4];
    if (!all_open(true))
        return;
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(all.replaced, 0);
    all_end();
}
END_TEST

Suite *registration_suite(void)
{
    const TTest *const tests[] = {block_stays_registered,
                                  nothing_stays_registered_without_limit,
                                  overlapping_blocks_become_one_region,
                                  least_recently_used_regions_leave,
                                  regions_in_use_stay_at_limit,
                                  idle_regions_leave_when_memory_is_short,
                                  region_ends_with_its_memory,
                                  heap_that_shrinks_is_noticed,
                                  shared_memory_is_not_kept,
                                  program_can_end_regions,
                                  check_finds_memory_that_was_replaced,
                                  child_of_fork_unmaps_freely,
                                  tree_stays_in_order,
                                  threads_that_unmap_get_no_stale_region};
    return SUITE_OF("registration", tests);
}
