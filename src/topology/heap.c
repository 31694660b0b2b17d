/* SPDX-License-Identifier: BSD-3-Clause */
#include "topology/graph.h"

#include <stdlib.h>

bool madi_heap_push(madi_heap_t *heap, int item)
{
    int i = heap->count;
    if (i == heap->size) {
        int size = heap->size ? 2 * heap->size : 64;
        int *more = realloc(heap->item, (size_t)size * sizeof *more);
        if (!more)
            return false;
        heap->item = more;
        heap->size = size;
    }
    heap->count++;
    for (; i && heap->less(heap->arg, item, heap->item[(i - 1) / 2]); i = (i - 1) / 2)
        heap->item[i] = heap->item[(i - 1) / 2];
    heap->item[i] = item;
    return true;
}

int madi_heap_pop(madi_heap_t *heap)
{
    int top = heap->item[0], item = heap->item[--heap->count], i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && heap->less(heap->arg, heap->item[child + 1], heap->item[child]))
            child++;
        if (!heap->less(heap->arg, heap->item[child], item))
            break;
        heap->item[i] = heap->item[child];
        i = child;
    }
    heap->item[i] = item;
    return top;
}

void madi_heap_fini(madi_heap_t *heap)
{
    free(heap->item);
}
