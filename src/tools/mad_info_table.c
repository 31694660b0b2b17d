/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables whose columns are as wide as their contents. */
#include "tools/mad_info_stats.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void madi_table_text(madi_table_t *t, const char *text)
{
    char **cells = realloc(t->cells, (size_t)(t->n + 1) * sizeof *cells);
    if (!cells)
        return;
    t->cells = cells;
    t->cells[t->n++] = strdup(text);
}

void madi_table_number(madi_table_t *t, double n)
{
    char text[32];
    snprintf(text, sizeof text, n < 100 && n != (double)(long long)n ? "%.1f" : "%.0f", n);
    madi_table_text(t, text);
}

void madi_table_bytes(madi_table_t *t, double n)
{
    madi_table_text(t, madi_info_bytes(n));
}

static int width(const madi_table_t *t, int column)
{
    size_t most = 0;
    for (int i = column; i < t->n; i += t->columns)
        if (t->cells[i] && strlen(t->cells[i]) > most)
            most = strlen(t->cells[i]);
    return (int)most;
}

/* True if the first cell of the column, below the head, is a number. */
static bool is_of_numbers(const madi_table_t *t, int column)
{
    int at = column + t->columns;
    return at < t->n && t->cells[at] && isdigit((unsigned char)t->cells[at][0]);
}

void madi_table_print(madi_table_t *t, const char *indent)
{
    for (int i = 0; i < t->n && t->n > t->columns; i++) {
        int column = i % t->columns, w = width(t, column);
        if (!column)
            fputs(indent, stdout);
        printf("%*s%s", is_of_numbers(t, column) ? w : -w, t->cells[i] ? t->cells[i] : "",
               column == t->columns - 1 ? "\n" : "  ");
    }
    for (int i = 0; i < t->n; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (madi_table_t){.columns = t->columns};
}
