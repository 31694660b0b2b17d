/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of coll: the form of an operation, trees over islands, hosts and members, and early messages. */
#include "unit.h"

#include "coll/choose.h"
#include "coll/coll.h"
#include "coll/tree.h"
#include <stdlib.h>
#include <string.h>

#define MEMBERS 64

static madi_coll_form_t chosen(madi_coll_kind_t kind, size_t len, int n, int hosts, int islands, const char *forced)
{
    madi_coll_case_t c = {.kind = kind,
                          .len = len,
                          .size = 8,
                          .n = n,
                          .hosts = hosts,
                          .islands = islands,
                          .one_a_host = hosts == n,
                          .commutes = true};
    return madi_coll_choose(&c, &madi_coll_costs_default, forced);
}

/* ---- The choice ------------------------------------------------------------------------------------------------ */

START_TEST(every_case_has_a_form_that_fits)
{
    for (unsigned kind = 1; kind < MADI_COLL_KINDS; kind++)
        for (int n = 1; n < 20; n++)
            for (int hosts = 1; hosts <= n; hosts++)
                for (size_t len = 0; len < 1 << 22; len = len * 8 + 1)
                    for (int commutes = 0; commutes < 2; commutes++) {
                        madi_coll_case_t c = {.kind = (madi_coll_kind_t)kind,
                                              .len = len,
                                              .size = 1,
                                              .n = n,
                                              .hosts = hosts,
                                              .islands = hosts > 2 ? 2 : 1,
                                              .one_a_host = hosts == n,
                                              .commutes = commutes};
                        madi_coll_form_t form = madi_coll_choose(&c, &madi_coll_costs_default, "");
                        ck_assert(madi_coll_form_fits(&c, form));
                    }
}
END_TEST

START_TEST(short_and_long_messages_take_different_forms)
{
    ck_assert_int_eq(chosen(MADI_COLL_ALLREDUCE, 8, 8, 1, 1, ""), MADI_COLL_DOUBLING);
    ck_assert_int_eq(chosen(MADI_COLL_ALLREDUCE, 1 << 20, 8, 1, 1, ""), MADI_COLL_RING);
    ck_assert_int_eq(chosen(MADI_COLL_BROADCAST, 8, 8, 1, 1, ""), MADI_COLL_TREE);
    ck_assert_int_ne(chosen(MADI_COLL_BROADCAST, 4 << 20, 8, 1, 1, ""), MADI_COLL_TREE);
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 0, 8, 1, 1, ""), MADI_COLL_DOUBLING);
}
END_TEST

/* Four or eight members on two cores: forms with fewer turns. */
START_TEST(a_crowded_host_takes_other_forms)
{
    static const struct {
        madi_coll_kind_t kind;
        size_t len;
        int n;
        madi_coll_form_t form;
    } rows[] = {
        {MADI_COLL_BARRIER, 0, 4, MADI_COLL_DOUBLING},          {MADI_COLL_BROADCAST, 8, 4, MADI_COLL_TREE},
        {MADI_COLL_BROADCAST, 1 << 19, 4, MADI_COLL_TREE},      {MADI_COLL_REDUCE, 1 << 19, 8, MADI_COLL_TREE},
        {MADI_COLL_ALLREDUCE, 8, 4, MADI_COLL_DOUBLING},        {MADI_COLL_ALLREDUCE, 1 << 16, 4, MADI_COLL_RING},
        {MADI_COLL_ALLREDUCE, 1 << 19, 8, MADI_COLL_TREE},      {MADI_COLL_ALLGATHER, 8, 8, MADI_COLL_DOUBLING},
        {MADI_COLL_ALLGATHER, 1 << 13, 8, MADI_COLL_RING},      {MADI_COLL_GATHER, 8, 8, MADI_COLL_LINEAR},
        {MADI_COLL_SCATTER, 1 << 16, 8, MADI_COLL_LINEAR},      {MADI_COLL_SCAN, 8, 8, MADI_COLL_LINEAR},
        {MADI_COLL_REDUCE_SCATTER, 1 << 16, 4, MADI_COLL_RING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        madi_coll_case_t c = {.kind = rows[i].kind,
                              .len = rows[i].len,
                              .size = 8,
                              .n = rows[i].n,
                              .hosts = 1,
                              .islands = 1,
                              .cores = 2,
                              .commutes = true};
        madi_coll_form_t form = madi_coll_choose(&c, &madi_coll_costs_default, "");
        ck_assert_msg(form == rows[i].form, "row %zu: %s", i, madi_coll_form_name(form));
        c.cores = c.n; /* enough cores */
        ck_assert(madi_coll_form_ns(&c, form, &madi_coll_costs_default) > 0);
    }
}
END_TEST

/* Messages of many operations, which are taken by their numbers, whatever their order. */
START_TEST(early_messages_are_taken_by_their_numbers)
{
    struct madi_coll_session *coll = calloc(1, sizeof *coll);
    struct mad_group *group = calloc(1, sizeof *group + sizeof *group->peers);
    madi_coll_op_t op = {.group = group, .envelope = {.kind = MADI_COLL_BARRIER}};
    madi_coll_step_t step = {.tag = 3};
    group->coll = coll;
    madi_coll_early_init(group);
    for (uint32_t seq = 0; seq < 100; seq++)
        for (uint16_t tag = 0; tag < 5; tag++) {
            madi_coll_early_t head = {.envelope = {.seq = seq, .tag = tag, .kind = MADI_COLL_BARRIER}, .len = sizeof seq};
            ck_assert(madi_coll_early_keep(coll, group, &head, &seq));
        }
    for (uint32_t seq = 99; seq < 100; seq--) {
        madi_coll_early_t *early;
        op.envelope.seq = seq;
        early = madi_coll_early_take(group, &op, &step);
        ck_assert(early && !memcmp(early->bytes, &seq, sizeof seq));
        madi_coll_early_free(early);
        ck_assert(!madi_coll_early_take(group, &op, &step));
        ck_assert(!madi_coll_early_differs(&op));
        op.envelope.kind = MADI_COLL_REDUCE;
        ck_assert(madi_coll_early_differs(&op) != NULL);
        op.envelope.kind = MADI_COLL_BARRIER;
    }
    ck_assert_uint_eq(group->n_early, 400);
    madi_coll_early_free_all(madi_coll_early_cut(group, 50));
    ck_assert_uint_eq(group->n_early, 200);
    madi_coll_early_free_all(madi_coll_early_cut_all(group));
    ck_assert_uint_eq(group->n_early, 0);
    ck_assert_uint_eq(coll->n_early, 0);
    free(coll->peers);
    free(coll);
    free(group);
}
END_TEST

START_TEST(several_hosts_take_the_tree)
{
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 0, 8, 2, 1, ""), MADI_COLL_TREE);
    ck_assert_int_eq(chosen(MADI_COLL_ALLREDUCE, 8, 8, 4, 2, ""), MADI_COLL_TREE);
    ck_assert_int_eq(chosen(MADI_COLL_ALLREDUCE, 1 << 20, 8, 2, 1, ""), MADI_COLL_PIPELINE);
    ck_assert_int_eq(chosen(MADI_COLL_ALLGATHER, 1 << 16, 8, 2, 1, ""), MADI_COLL_TREE);
    /* one process a host: the levels are one */
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 0, 8, 8, 1, ""), MADI_COLL_DOUBLING);
}
END_TEST

START_TEST(the_knob_overrides_the_choice)
{
    ck_assert_int_eq(chosen(MADI_COLL_ALLREDUCE, 8, 8, 1, 1, "barrier=tree,allreduce=ring"), MADI_COLL_RING);
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 8, 8, 1, 1, "barrier=tree,allreduce=ring"), MADI_COLL_TREE);
    /* a form that does not fit, or is unknown */
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 0, 8, 1, 1, "barrier=spread"), MADI_COLL_DOUBLING);
    ck_assert_int_eq(chosen(MADI_COLL_BARRIER, 0, 8, 1, 1, "barrier=fast,barrier"), MADI_COLL_DOUBLING);
    ck_assert_int_eq(madi_coll_forced("allreduce=rings", MADI_COLL_ALLREDUCE), MADI_COLL_NO_FORM);
    ck_assert_int_eq(madi_coll_forced(",,allreduce=ring", MADI_COLL_ALLREDUCE), MADI_COLL_RING);
}
END_TEST

START_TEST(an_ordered_operation_never_goes_round_a_ring)
{
    madi_coll_case_t c = {.kind = MADI_COLL_ALLREDUCE, .len = 1 << 20, .size = 8, .n = 8, .hosts = 1, .islands = 1};
    ck_assert(!madi_coll_form_fits(&c, MADI_COLL_RING));
    ck_assert_int_ne(madi_coll_choose(&c, &madi_coll_costs_default, "allreduce=ring"), MADI_COLL_RING);
}
END_TEST

START_TEST(names_of_unknown_values)
{
    ck_assert_str_eq(madi_coll_kind_name(MADI_COLL_ALLTOALL_V), "alltoall_v");
    ck_assert_str_eq(madi_coll_kind_name(200), "unknown");
    ck_assert_str_eq(madi_coll_form_name(MADI_COLL_RING), "ring");
    ck_assert_str_eq(madi_coll_form_name(200), "unknown");
}
END_TEST

/* ---- Trees ----------------------------------------------------------------------------------------------------- */

typedef struct places_memory {
    int host[MEMBERS], island[MEMBERS], host_first[MEMBERS], island_first[MEMBERS];
} places_memory_t;

/* Make places: member i is on the i-th host of `hosts`, and that host on the island of `islands`. */
static madi_coll_places_t places_of(places_memory_t *m, int n, const int *hosts, const int *islands)
{
    madi_coll_places_t p = {
        .n = n, .host = m->host, .island = m->island, .host_first = m->host_first, .island_first = m->island_first};
    p.hosts = p.islands = 0;
    for (int i = 0; i < n; i++) {
        m->host[i] = hosts[i];
        m->island[i] = islands[hosts[i]];
        if (hosts[i] == p.hosts)
            m->host_first[p.hosts++] = i;
        if (m->island[i] == p.islands)
            m->island_first[p.islands++] = i;
    }
    return p;
}

/* Check that a tree has all members, that parents and children agree, and how often the levels are crossed. */
static void tree_check_radix(const madi_coll_places_t *p, int root, int radix)
{
    madi_coll_tree_t trees[MEMBERS];
    int list[MEMBERS], seen[MEMBERS] = {0}, host_crossings = 0, island_crossings = 0;
    for (int i = 0; i < p->n; i++)
        madi_coll_tree_make(p, root, radix, i, &trees[i]);
    ck_assert_int_eq(trees[root].parent, -1);
    for (int i = 0; i < p->n; i++) {
        int found = 0;
        if (i == root)
            continue;
        ck_assert_int_ge(trees[i].parent, 0);
        for (int k = 0; k < trees[trees[i].parent].n_children; k++)
            found += trees[trees[i].parent].child[k] == i;
        ck_assert_int_eq(found, 1);
        host_crossings += p->host[i] != p->host[trees[i].parent];
        island_crossings += p->island[i] != p->island[trees[i].parent];
    }
    ck_assert_int_eq(host_crossings, p->hosts - 1);
    ck_assert_int_eq(island_crossings, p->islands - 1);
    ck_assert_int_eq(madi_coll_tree_list(p, root, root, list), p->n);
    for (int i = 0; i < p->n; i++)
        seen[list[i]]++;
    for (int i = 0; i < p->n; i++)
        ck_assert_int_eq(seen[i], 1);
}

static void tree_check(const madi_coll_places_t *p, int root)
{
    tree_check_radix(p, root, 2);
    tree_check_radix(p, root, 4);
}

START_TEST(each_host_and_island_is_entered_once)
{
    static const int hosts[12] = {0, 0, 1, 1, 1, 2, 3, 3, 0, 2, 4, 5}, islands[6] = {0, 0, 1, 1, 2, 0};
    static const int one[MEMBERS];
    places_memory_t m;
    for (int n = 1; n <= 12; n++)
        for (int root = 0; root < n; root++) {
            madi_coll_places_t p = places_of(&m, n, hosts, islands);
            tree_check(&p, root);
            p = places_of(&m, n, one, one);
            tree_check(&p, root);
        }
    for (int n = 13; n <= MEMBERS; n++) {
        madi_coll_places_t p = places_of(&m, n, one, one);
        tree_check(&p, n / 2);
    }
}
END_TEST

START_TEST(subtrees_of_contiguous_places_are_contiguous)
{
    static const int hosts[12] = {0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 4}, islands[5] = {0, 0, 1, 1, 2};
    places_memory_t m;
    madi_coll_places_t p = places_of(&m, 12, hosts, islands);
    for (int i = 0; i < 12; i++) {
        int list[MEMBERS], n = madi_coll_tree_list(&p, 0, i, list), least = list[0], most = list[0];
        madi_coll_tree_t tree;
        for (int k = 1; k < n; k++) {
            least = list[k] < least ? list[k] : least;
            most = list[k] > most ? list[k] : most;
        }
        ck_assert_int_eq(least, i);
        ck_assert_int_eq(most, i + n - 1);
        /* children from the last to the first have rising indices, as reductions need them */
        madi_coll_tree_make(&p, 0, 2 + 2 * (i % 2), i, &tree);
        for (int k = 1; k < tree.n_children; k++)
            ck_assert_int_lt(tree.child[k], tree.child[k - 1]);
    }
}
END_TEST

/* ---- Early messages ---------------------------------------------------------------------------------------------- */

/* A member can send messages of groups that do not exist here, up to its bound; other members still have theirs. */
START_TEST(early_messages_of_one_member_are_bounded)
{
    static unsigned char bytes[sizeof(madi_coll_envelope_t) + MADI_COLL_EAGER];
    const madi_coll_envelope_t envelope = {.group = 7, .kind = MADI_COLL_BARRIER};
    mad_session_t *session;
    mad_group_t *group;
    mad_peer_t self = 0;
    struct madi_coll_session *coll;
    setenv("MAD_DRIVERS", "self", 1);
    ck_assert_int_eq(mad_init(NULL, NULL, &session), MAD_OK);
    ck_assert_int_eq(mad_group_new(session, &self, 1, 0, 1, &group), MAD_OK);
    coll = session->coll;
    memcpy(bytes, &envelope, sizeof envelope);
    for (size_t sent = 0; sent < 2 * MADI_COLL_EARLY_BYTES; sent += MADI_COLL_EAGER)
        ck_assert(!madi_coll_arrived(coll, 5, NULL, bytes, sizeof bytes));
    ck_assert_uint_eq(coll->early_bytes, MADI_COLL_EARLY_BYTES);
    ck_assert(!madi_coll_arrived(coll, 6, NULL, bytes, sizeof bytes));
    ck_assert_uint_eq(coll->early_bytes, MADI_COLL_EARLY_BYTES + MADI_COLL_EAGER);
    ck_assert_int_eq(mad_group_free(group), MAD_OK);
    ck_assert_int_eq(mad_group_new(session, &self, 1, 0, 7, &group), MAD_OK); /* the messages are this group's */
    ck_assert_int_eq(mad_group_free(group), MAD_OK);
    ck_assert_uint_eq(coll->early_bytes, 0);
    ck_assert_uint_eq(coll->n_early, 0);
    mad_exit(session);
}
END_TEST

Suite *coll_suite(void)
{
    const TTest *tests[] = {
        every_case_has_a_form_that_fits,
        short_and_long_messages_take_different_forms,
        a_crowded_host_takes_other_forms,
        early_messages_are_taken_by_their_numbers,
        several_hosts_take_the_tree,
        the_knob_overrides_the_choice,
        an_ordered_operation_never_goes_round_a_ring,
        names_of_unknown_values,
        each_host_and_island_is_entered_once,
        subtrees_of_contiguous_places_are_contiguous,
        early_messages_of_one_member_are_bounded,
    };
    return SUITE_OF("coll", tests);
}
