/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations: the choice of a form by its expected time. */
#include "coll/choose.h"

#include <string.h>

/* Times of a usual host and network.  All members need equal values, so the values do not come from this host's costs. */
const madi_coll_costs_t madi_coll_costs_default = {
    .turn_ns = {250, 10000, 40000}, .byte_ps = {120, 800, 8000}, .combine_ps = 100, .switch_ns = 1300};

/* ---- Names ---------------------------------------------------------------------------------------------------- */

const char *madi_coll_kind_name(unsigned kind)
{
    static const char *const names[MADI_COLL_KINDS] = {"abort",
#define KIND_NAME(id, value, name) [value] = (name),
                                                       MADI_COLL_KINDS_LIST(KIND_NAME)
#undef KIND_NAME
    };
    return kind < MADI_COLL_KINDS ? names[kind] : "unknown";
}

const char *madi_coll_form_name(unsigned form)
{
    static const char *const names[MADI_COLL_FORMS] = {"none",
#define FORM_NAME(id, value, name) [value] = (name),
                                                       MADI_COLL_FORMS_LIST(FORM_NAME)
#undef FORM_NAME
    };
    return form < MADI_COLL_FORMS ? names[form] : "unknown";
}

static bool word_is(const char *word, size_t len, const char *name)
{
    return strlen(name) == len && !strncmp(word, name, len);
}

static madi_coll_form_t form_of_name(const char *word, size_t len)
{
    unsigned form = 1;
    while (form < MADI_COLL_FORMS && !word_is(word, len, madi_coll_form_name(form)))
        form++;
    return form < MADI_COLL_FORMS ? (madi_coll_form_t)form : MADI_COLL_NO_FORM;
}

madi_coll_form_t madi_coll_forced(const char *forced, madi_coll_kind_t kind)
{
    while (*forced) {
        size_t len = strcspn(forced, ","), name = strcspn(forced, ",=");
        if (name < len && word_is(forced, name, madi_coll_kind_name(kind)))
            return form_of_name(forced + name + 1, len - name - 1);
        forced += len + (forced[len] == ',');
    }
    return MADI_COLL_NO_FORM;
}

/* ---- Which forms there are -------------------------------------------------------------------------------------- */

/* The forms of each kind: a bit for each. */
#define FORM(id) (1u << MADI_COLL_##id)
static const uint8_t forms_of_kind[MADI_COLL_KINDS] = {
    [MADI_COLL_BARRIER] = FORM(TREE) | FORM(DOUBLING),
    [MADI_COLL_BROADCAST] = FORM(TREE) | FORM(PIPELINE) | FORM(SPREAD),
    [MADI_COLL_REDUCE] = FORM(TREE) | FORM(PIPELINE),
    [MADI_COLL_ALLREDUCE] = FORM(TREE) | FORM(PIPELINE) | FORM(DOUBLING) | FORM(RING),
    [MADI_COLL_REDUCE_SCATTER] = FORM(TREE) | FORM(RING),
    [MADI_COLL_SCAN] = FORM(LINEAR) | FORM(DOUBLING),
    [MADI_COLL_EXSCAN] = FORM(LINEAR) | FORM(DOUBLING),
    [MADI_COLL_GATHER] = FORM(LINEAR) | FORM(TREE),
    [MADI_COLL_GATHER_V] = FORM(LINEAR),
    [MADI_COLL_SCATTER] = FORM(LINEAR) | FORM(TREE),
    [MADI_COLL_SCATTER_V] = FORM(LINEAR),
    [MADI_COLL_ALLGATHER] = FORM(TREE) | FORM(DOUBLING) | FORM(RING),
    [MADI_COLL_ALLGATHER_V] = FORM(TREE) | FORM(RING),
    [MADI_COLL_ALLTOALL] = FORM(LINEAR),
    [MADI_COLL_ALLTOALL_V] = FORM(LINEAR),
};

/* True if the form ignores hosts and networks, so that it would cross slow networks more than once. */
static bool form_is_flat(madi_coll_form_t form)
{
    return form == MADI_COLL_DOUBLING || form == MADI_COLL_RING || form == MADI_COLL_SPREAD;
}

bool madi_coll_form_fits(const madi_coll_case_t *c, madi_coll_form_t form)
{
    bool combines = c->kind == MADI_COLL_REDUCE_SCATTER || c->kind == MADI_COLL_ALLREDUCE;
    if (form <= MADI_COLL_NO_FORM || form >= MADI_COLL_FORMS || !(forms_of_kind[c->kind] & 1u << form))
        return false;
    if (form == MADI_COLL_RING && combines && !c->commutes) /* blocks are combined from each member on, round the ring */
        return false;
    return true;
}

/* ---- Expected times --------------------------------------------------------------------------------------------- */

/* Return the rounds of a binomial tree of n. */
static unsigned rounds_of(int n)
{
    unsigned rounds = 0;
    while (1 << rounds < n && rounds < 30)
        rounds++;
    return rounds;
}

static unsigned level_of(const madi_coll_case_t *c)
{
    return c->islands > 1 ? MADI_COLL_GATEWAY : c->hosts > 1 ? MADI_COLL_NETWORK : MADI_COLL_HOST;
}

/* Return the time in ns of a message on a level. */
static uint64_t message_ns(const madi_coll_costs_t *costs, unsigned level, uint64_t len)
{
    return costs->turn_ns[level] + len * costs->byte_ps[level] / 1000;
}

/* Return the rounds of the tree of n members of a host. */
static unsigned host_rounds(int n, uint64_t len)
{
    return len <= MADI_COLL_FLAT ? (rounds_of(n) + 1) / 2 : rounds_of(n);
}

/* Return the time in ns of those rounds.  Further messages of a round cost a fraction of its turn. */
static uint64_t host_tree_ns(const madi_coll_costs_t *costs, int n, uint64_t len)
{
    uint64_t messages = len > MADI_COLL_FLAT || n == 2 ? 1 : n == 3 ? 2 : 3; /* of a member in each round */
    return host_rounds(n, len) *
           (costs->turn_ns[MADI_COLL_HOST] * (3 + messages) / 4 + messages * len * costs->byte_ps[MADI_COLL_HOST] / 1000);
}

/* Return the time in ns of one pass along the tree, whose rounds are those of its levels. */
static uint64_t tree_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs, uint64_t len)
{
    int most = (c->n + c->hosts - 1) / c->hosts, hosts = (c->hosts + c->islands - 1) / c->islands;
    return host_tree_ns(costs, most, len) + rounds_of(hosts) * message_ns(costs, MADI_COLL_NETWORK, len) +
           rounds_of(c->islands) * message_ns(costs, MADI_COLL_GATEWAY, len);
}

/* Return the number of passes along the tree. */
static unsigned passes_of(madi_coll_kind_t kind)
{
    bool two = kind == MADI_COLL_BARRIER || kind == MADI_COLL_ALLREDUCE || kind == MADI_COLL_REDUCE_SCATTER ||
               kind == MADI_COLL_ALLGATHER || kind == MADI_COLL_ALLGATHER_V;
    return two ? 2 : 1;
}

/* Return the bytes of a member's contribution to all. */
static uint64_t tree_len(const madi_coll_case_t *c)
{
    switch (c->kind) {
    case MADI_COLL_GATHER:
    case MADI_COLL_SCATTER:
    case MADI_COLL_ALLGATHER:
    case MADI_COLL_ALLGATHER_V:
    case MADI_COLL_REDUCE_SCATTER: return (uint64_t)c->len * (uint64_t)c->n;
    default: return c->len;
    }
}

/* A pipeline takes the depth of the tree once, and for each further segment the time of its slowest link, where messages
 * follow each other. */
static uint64_t pipeline_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs)
{
    uint64_t most = madi_coll_segment_len(c->len), segment = c->len < most ? c->len : most;
    uint64_t segments = segment ? (c->len + segment - 1) / segment : 1;
    unsigned children = rounds_of((c->n + c->hosts - 1) / c->hosts);
    uint64_t one = costs->turn_ns[level_of(c)] / 4 + segment * costs->byte_ps[level_of(c)] / 1000 +
                   children * segment * costs->byte_ps[MADI_COLL_HOST] / 2000;
    return tree_ns(c, costs, segment) + (segments - 1) * one;
}

static uint64_t ring_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs)
{
    uint64_t steps = (uint64_t)c->n - 1, n = (uint64_t)c->n, combine = 0, rounds = 1;
    uint64_t block = c->len;
    if (c->kind == MADI_COLL_ALLREDUCE) {
        block = c->len / n;
        rounds = 2;
        combine = block * costs->combine_ps / 1000;
    } else if (c->kind == MADI_COLL_REDUCE_SCATTER) {
        combine = block * costs->combine_ps / 1000;
    }
    return steps * (rounds * message_ns(costs, level_of(c), block) + combine);
}

static uint64_t doubling_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs)
{
    uint64_t rounds = rounds_of(c->n), combine = (uint64_t)c->len * costs->combine_ps / 1000;
    unsigned odd = (unsigned)((c->n & (c->n - 1)) != 0);
    if (c->kind == MADI_COLL_ALLGATHER)
        return rounds * costs->turn_ns[level_of(c)] +
               (uint64_t)c->len * (uint64_t)c->n * 2 * costs->byte_ps[level_of(c)] / 1000;
    if (c->kind == MADI_COLL_ALLREDUCE)
        rounds += 2 * odd;
    return rounds * (message_ns(costs, level_of(c), c->len) + combine);
}

/* True if a linear operation combines elements, from each member to the next. */
static bool combines_along(madi_coll_kind_t kind)
{
    return kind == MADI_COLL_SCAN || kind == MADI_COLL_EXSCAN;
}

/* ---- Expected times where members outnumber the cores ------------------------------------------------------------
 *
 * There a core passes from one member to another for nearly each message, and only as many members as there are cores copy at
 * the same time.  The factors fit measurements of 4 and 8 members on 2 cores. */

/* Return the time in ns of one pass along the tree in segments. */
static uint64_t crowd_pass_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs, uint64_t segment, bool combines)
{
    uint64_t turn = costs->switch_ns * (uint64_t)c->n / (uint64_t)c->cores, len = tree_len(c);
    uint64_t segments = segment && segment < len ? (len + segment - 1) / segment : 1;
    uint64_t byte_ps = costs->byte_ps[MADI_COLL_HOST] + (combines ? costs->combine_ps : 0);
    return (segments + 1) * turn + rounds_of(c->n) * len * byte_ps / 1000;
}

static uint64_t crowd_tree_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs, uint64_t segment)
{
    bool combines = c->kind == MADI_COLL_REDUCE || c->kind == MADI_COLL_ALLREDUCE || c->kind == MADI_COLL_REDUCE_SCATTER;
    uint64_t ns = crowd_pass_ns(c, costs, segment, combines);
    return passes_of(c->kind) == 2 ? ns + crowd_pass_ns(c, costs, segment, false) : ns;
}

/* Return the time in ns of `steps` in which all members exchange len bytes. */
static uint64_t crowd_steps_ns(const madi_coll_case_t *c, const madi_coll_costs_t *costs, uint64_t steps, uint64_t len,
                               uint64_t byte_ps)
{
    uint64_t n = (uint64_t)c->n, cores = (uint64_t)c->cores;
    return steps * (costs->switch_ns * n / cores + len * n * byte_ps / 1000 / cores);
}

static uint64_t crowd_ns(const madi_coll_case_t *c, madi_coll_form_t form, const madi_coll_costs_t *costs)
{
    uint64_t steps = (uint64_t)c->n - 1, rounds = rounds_of(c->n), byte_ps = costs->byte_ps[MADI_COLL_HOST];
    switch (form) {
    case MADI_COLL_TREE: return crowd_tree_ns(c, costs, 0);
    case MADI_COLL_PIPELINE: return crowd_tree_ns(c, costs, madi_coll_segment_len(c->len));
    case MADI_COLL_DOUBLING:
        if (c->kind == MADI_COLL_ALLGATHER)
            return crowd_steps_ns(c, costs, rounds, (uint64_t)c->len * steps / rounds, 2 * byte_ps) * 13 / 10;
        return crowd_steps_ns(c, costs, rounds, c->len, byte_ps + costs->combine_ps) * 13 / 10;
    case MADI_COLL_RING:
        if (c->kind == MADI_COLL_ALLREDUCE)
            return crowd_steps_ns(c, costs, 2 * steps, c->len / (uint64_t)c->n, byte_ps + costs->combine_ps / 2);
        return crowd_steps_ns(c, costs, steps, c->len, byte_ps) * 8 / 10;
    case MADI_COLL_SPREAD: return crowd_steps_ns(c, costs, steps + rounds, c->len / (uint64_t)c->n, byte_ps);
    default:
        if (combines_along(c->kind))
            byte_ps += costs->combine_ps;
        return costs->switch_ns * (uint64_t)c->n / (uint64_t)c->cores + steps * c->len * byte_ps / 1000;
    }
}

uint64_t madi_coll_form_ns(const madi_coll_case_t *c, madi_coll_form_t form, const madi_coll_costs_t *costs)
{
    uint64_t n = (uint64_t)c->n, block;
    if (c->hosts == 1 && c->cores && c->cores < c->n)
        return crowd_ns(c, form, costs);
    switch (form) {
    case MADI_COLL_TREE: return passes_of(c->kind) * tree_ns(c, costs, tree_len(c));
    case MADI_COLL_PIPELINE: return passes_of(c->kind) * pipeline_ns(c, costs);
    case MADI_COLL_DOUBLING: return doubling_ns(c, costs);
    case MADI_COLL_RING: return ring_ns(c, costs);
    case MADI_COLL_SPREAD:
        block = c->len / n;
        /* each step waits for two neighbours, whose delays add up round the ring */
        return 4 * (rounds_of(c->n) + n - 1) * costs->turn_ns[level_of(c)] +
               (uint64_t)c->len * costs->byte_ps[level_of(c)] / 1000 + (n - 1) * block * costs->byte_ps[level_of(c)] / 1000;
    default:
        if (combines_along(c->kind))
            return (n - 1) * (message_ns(costs, level_of(c), c->len) + (uint64_t)c->len * costs->combine_ps / 1000);
        return (n - 1) * (costs->turn_ns[level_of(c)] / 2 + (uint64_t)c->len * costs->byte_ps[level_of(c)] / 1000);
    }
}

/* ---- The choice ------------------------------------------------------------------------------------------------- */

madi_coll_form_t madi_coll_choose(const madi_coll_case_t *c, const madi_coll_costs_t *costs, const char *forced)
{
    madi_coll_form_t best = MADI_COLL_NO_FORM, wanted = madi_coll_forced(forced, c->kind);
    bool levels = c->islands > 1 || (c->hosts > 1 && !c->one_a_host);
    uint64_t best_ns = 0;
    if (madi_coll_form_fits(c, wanted))
        return wanted;
    for (unsigned f = 1; f < MADI_COLL_FORMS; f++) {
        madi_coll_form_t form = (madi_coll_form_t)f;
        uint64_t ns;
        if (!madi_coll_form_fits(c, form))
            continue;
        ns = madi_coll_form_ns(c, form, costs);
        if (levels && form_is_flat(form)) /* only if the kind has no other form */
            ns += UINT64_MAX / 2;
        if (best == MADI_COLL_NO_FORM || ns < best_ns) {
            best = form;
            best_ns = ns;
        }
    }
    return best;
}
