/* SPDX-License-Identifier: BSD-3-Clause */
/* A parallel sum with user-level threads: the range is halved until the parts are small.  Run: ./parallel */
#include <marcel.h>
#include <stdio.h>
#include <stdlib.h>

#define SMALL 64

typedef struct range {
    const int *values;
    int from, to;
    long sum;
} range_t;

static void *sum_up(void *arg)
{
    range_t *range = arg;
    int middle = range->from + (range->to - range->from) / 2;
    range_t left = {range->values, range->from, middle, 0}, right = {range->values, middle, range->to, 0};
    marcel_t thread;
    if (range->to - range->from > SMALL && marcel_create(&thread, NULL, sum_up, &right) == 0) {
        sum_up(&left);
        marcel_join(thread, NULL); /* if the thread has not started, it runs here, now */
        range->sum = left.sum + right.sum;
        return NULL;
    }
    for (int i = range->from; i < range->to; i++)
        range->sum += range->values[i];
    return NULL;
}

int main(void)
{
    enum { N = 100000 };
    int *values = malloc(N * sizeof *values);
    marcel_t first;
    if (!values)
        return 1;
    for (int i = 0; i < N; i++)
        values[i] = i;
    range_t all = {values, 0, N, 0};
    if (marcel_create(&first, NULL, sum_up, &all) || marcel_join(first, NULL))
        return 1;
    printf("the numbers below %d make %ld\n", N, all.sum);
    free(values);
    return marcel_fini() ? 1 : 0;
}
