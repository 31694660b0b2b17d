/* SPDX-License-Identifier: BSD-3-Clause */
/* Live data of a topology as texts, line widths and colours. */
#include "topology/draw.h"

#include <stdarg.h>
#include <string.h>

/* ---- Lines ------------------------------------------------------------------------------------------------------ */

/* Load class, by the share of the declared bandwidth that the busier direction takes; UNKNOWN if no bandwidth is
 * declared. */
enum { IDLE, LOW, MIDDLE, HIGH, UNKNOWN };
static const struct {
    const char *colour, *meaning;
} colours[] = {[IDLE] = {"#aab7b8", "nothing"},
               [LOW] = {"#1e8449", "below 40 % of the bandwidth"},
               [MIDDLE] = {"#d68910", "40 to 80 %"},
               [HIGH] = {"#c0392b", "80 % and more"},
               [UNKNOWN] = {"#2471a3", "something; no bandwidth is declared"}};

const char *madi_live_colour(int i, const char **meaning)
{
    if (i < 0 || i >= (int)(sizeof colours / sizeof *colours))
        return NULL;
    *meaning = colours[i].meaning;
    return colours[i].colour;
}

static int load_of(const madi_topo_network_t *n, const madi_live_on_t *on)
{
    double most = on->bytes_out > on->bytes_in ? on->bytes_out : on->bytes_in;
    if (most <= 0)
        return IDLE;
    if (!n->bandwidth_given)
        return UNKNOWN;
    return most < 0.4 * (double)n->bandwidth ? LOW : most < 0.8 * (double)n->bandwidth ? MIDDLE : HIGH;
}

/* Width of a line: one step per power of ten, starting at 10 kB/s. */
double madi_live_width(const madi_live_on_t *on)
{
    double most = on->bytes_out > on->bytes_in ? on->bytes_out : on->bytes_in, width = 1;
    for (double step = 1; step <= most && width < 10; step *= step < 1e4 ? 1e4 : 10)
        width++;
    return width;
}

static void bytes_text(double n, char *text, size_t len)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    for (; n >= 999.5 && unit < 4; unit++)
        n /= 1000;
    snprintf(text, len, "%.3g %s/s", n, units[unit]);
}

static void number_text(double n, char *text, size_t len)
{
    static const char *const units[] = {"", "k", "M", "G"};
    int unit = 0;
    for (; n >= 9999.5 && unit < 3; unit++)
        n /= 1000;
    snprintf(text, len, n < 10 && unit == 0 && n != (int)n ? "%.1f%s" : "%.0f%s", n, units[unit]);
}

static void rate_text(const char *name, double bytes, double messages, char *text)
{
    char a[16], b[16];
    bytes_text(bytes, a, sizeof a);
    number_text(messages, b, sizeof b);
    snprintf(text, MADI_LIVE_LINE, "%s %s, %s/s", name, a, b);
}

static void on_add(madi_live_on_t *sum, const madi_live_on_t *on)
{
    sum->messages_out += on->messages_out;
    sum->bytes_out += on->bytes_out;
    sum->messages_in += on->messages_in;
    sum->bytes_in += on->bytes_in;
}

void madi_live_link(const madi_topo_t *topo, const madi_live_t *live, const madi_cell_t *cell, int network,
                    madi_live_link_t *link)
{
    const madi_topo_network_t *n = &topo->network[network];
    const int *host = cell ? cell->host : n->host;
    int hosts = cell ? cell->hosts : n->hosts, load = IDLE;
    *link = (madi_live_link_t){.width = 1};
    for (int i = 0; i < hosts; i++) {
        const madi_topo_on_t *on = madi_topo_host_on(topo, host[i], network);
        const madi_live_on_t *own = &live->host[host[i]].on[on - topo->host[host[i]].on];
        if (load_of(n, own) > load)
            load = load_of(n, own);
        on_add(&link->sum, own);
    }
    link->width = madi_live_width(&link->sum);
    link->colour = colours[load].colour;
    rate_text(cell ? "out" : "sent", link->sum.bytes_out, link->sum.messages_out, link->out);
    rate_text(cell ? "in" : "received", link->sum.bytes_in, link->sum.messages_in, link->in);
}

/* ---- Boxes ------------------------------------------------------------------------------------------------------ */

static madi_live_host_t cell_sum(const madi_live_t *live, const madi_cell_t *cell)
{
    madi_live_host_t sum = {0};
    for (int i = 0; i < cell->hosts; i++) {
        const madi_live_host_t *h = &live->host[cell->host[i]];
        sum.other += h->other;
        sum.passed += h->passed;
        sum.passed_bytes += h->passed_bytes;
        sum.stalls += h->stalls;
        sum.resends += h->resends;
        sum.held += h->held;
        sum.held_bytes += h->held_bytes;
        sum.budget += h->budget;
        sum.processes += h->processes;
        sum.gateways += h->gateways;
        sum.silent += h->silent;
        sum.ended += h->ended;
        sum.draining += h->draining;
        sum.lost_to += h->lost_to;
    }
    return sum;
}

static void __attribute__((format(printf, 3, 4))) live_line_add(char line[][MADI_LIVE_LINE], int *n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(line[(*n)++], MADI_LIVE_LINE, format, args);
    va_end(args);
}

int madi_live_text(const madi_live_t *live, const madi_cell_t *cell, char line[][MADI_LIVE_LINE], int *bad)
{
    madi_live_host_t s = cell_sum(live, cell);
    char a[16], b[16], wrong[MADI_LIVE_LINE] = "";
    int n = 0;
    if (s.processes)
        live_line_add(line, &n, "%d process%s", s.processes, s.processes == 1 ? "" : "es");
    else if (!s.silent && !s.ended)
        live_line_add(line, &n, "no process here");
    if (s.gateways) {
        rate_text("passes", s.passed_bytes, s.passed, line[n++]);
        live_line_add(line, &n, "holds %.0f, %.3g of %.4g MiB", s.held, s.held_bytes / 1048576, s.budget / 1048576);
    } else if (s.other > 0) {
        bytes_text(s.other, a, sizeof a);
        live_line_add(line, &n, "other ways %s", a);
    }
    if (s.stalls > 0 || s.resends > 0) {
        number_text(s.stalls, a, sizeof a);
        number_text(s.resends, b, sizeof b);
        live_line_add(line, &n, "stalls %s/s, resends %s/s", a, b);
    }
    if (s.lost_to)
        snprintf(wrong, sizeof wrong, "lost to %d process%s", s.lost_to, s.lost_to == 1 ? "" : "es");
    else if (s.draining)
        snprintf(wrong, sizeof wrong, "%d draining", s.draining);
    if (s.silent || s.ended)
        snprintf(wrong + strlen(wrong), sizeof wrong - strlen(wrong), "%s%d %s", wrong[0] ? ", " : "",
                 s.silent ? s.silent : s.ended, s.silent ? "silent" : "ended");
    *bad = wrong[0] != 0;
    if (wrong[0])
        live_line_add(line, &n, "%s", wrong);
    return n;
}

madi_live_mark_t madi_live_mark(const madi_live_t *live, const madi_cell_t *cell)
{
    madi_live_host_t s = cell_sum(live, cell);
    if (s.silent || s.lost_to)
        return MADI_LIVE_LOST;
    return s.draining ? MADI_LIVE_DRAINS : s.processes ? MADI_LIVE_RUNS : MADI_LIVE_IDLE;
}
