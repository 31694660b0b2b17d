/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/draw.h"

#include "topology/range.h"
#include "topology/value.h"
#include <stdlib.h>
#include <string.h>

typedef struct cell_namer {
    const madi_topo_t *topo;
    const int *host;
} cell_namer_t;

static const char *cell_name_at(const void *arg, int i)
{
    const cell_namer_t *namer = arg;
    return namer->topo->host[namer->host[i]].name;
}

mad_status_t madi_cells_make(const madi_topo_t *topo, const madi_live_t *live, madi_cells_t *c)
{
    int *last = malloc((size_t)topo->kinds * sizeof *last), *cell_of = malloc((size_t)topo->hosts * sizeof *cell_of);
    int sum = 0;
    *c = (madi_cells_t){.cell = calloc((size_t)topo->hosts, sizeof *c->cell),
                        .host = malloc((size_t)topo->hosts * sizeof(int))};
    if (!last || !cell_of || !c->cell || !c->host)
        goto free_all;
    for (int k = 0; k < topo->kinds; k++)
        last[k] = -1;
    for (int i = 0; i < topo->clusters; i++)
        for (int h = 0; h < topo->cluster[i].hosts; h++) {
            int host = topo->cluster[i].host[h], kind = topo->host[host].kind;
            bool alone = live && topo->host[host].gateway >= 0;
            if (last[kind] < 0 || c->cell[last[kind]].cluster != i || alone) {
                last[kind] = c->cells;
                c->cell[c->cells++] = (madi_cell_t){.cluster = i, .kind = kind};
            }
            cell_of[host] = last[kind];
            c->cell[last[kind]].hosts++;
        }
    for (int i = 0; i < c->cells; i++) {
        c->cell[i].host = c->host + sum;
        sum += c->cell[i].hosts;
        c->cell[i].hosts = 0;
    }
    for (int h = 0; h < topo->hosts; h++)
        c->cell[cell_of[h]].host[c->cell[cell_of[h]].hosts++] = h;
    for (int i = 0; i < c->cells; i++) {
        cell_namer_t namer = {topo, c->cell[i].host};
        madi_range_fold(cell_name_at, &namer, c->cell[i].hosts, c->cell[i].label, sizeof c->cell[i].label);
    }
    free(last);
    free(cell_of);
    return MAD_OK;
free_all:
    free(last);
    free(cell_of);
    madi_cells_fini(c);
    return MAD_ERR_NOMEM;
}

void madi_cells_fini(madi_cells_t *c)
{
    free(c->cell);
    free(c->host);
}

const char *madi_cell_interface(const madi_topo_t *topo, const madi_cell_t *cell, int network)
{
    const char *interface = NULL;
    for (int i = 0; i < cell->hosts; i++) {
        const char *mine = madi_topo_host_on(topo, cell->host[i], network)->interface;
        if (!mine || (interface && strcmp(mine, interface)))
            return "";
        interface = mine;
    }
    return interface ? interface : "";
}

void madi_network_text(const madi_topo_network_t *n, char *text, size_t len)
{
    char latency[MADI_VALUE_MAX], bandwidth[MADI_VALUE_MAX];
    snprintf(text, len, "%s, %s, %s", n->driver, madi_value_time_text(n->latency_ps, latency),
             madi_value_bandwidth_text(n->bandwidth, bandwidth));
}
