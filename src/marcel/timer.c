/* SPDX-License-Identifier: BSD-3-Clause */
#include "marcel/timer.h"

/* Join two heaps, neither of which is NULL or has siblings: the one that is due first gets the other as a child. */
static madi_timer_t *heap_meld(madi_timer_t *a, madi_timer_t *b)
{
    if (b->deadline < a->deadline) {
        madi_timer_t *t = a;
        a = b;
        b = t;
    }
    b->next = a->child;
    if (b->next)
        b->next->back = &b->next;
    b->back = &a->child;
    a->child = b;
    return a;
}

/* Make one heap of a list of siblings: meld pairs from the left, then all results from the right. */
static madi_timer_t *heap_meld_list(madi_timer_t *list)
{
    madi_timer_t *pairs = NULL, *all = NULL;
    while (list) {
        madi_timer_t *a = list, *b = a->next;
        list = b ? b->next : NULL;
        a->next = NULL;
        if (b) {
            b->next = NULL;
            a = heap_meld(a, b);
        }
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        madi_timer_t *a = pairs;
        pairs = a->next;
        a->next = NULL;
        all = all ? heap_meld(all, a) : a;
    }
    return all;
}

static void root_set(madi_timers_t *timers, madi_timer_t *root)
{
    timers->first = root;
    if (root) {
        root->next = NULL;
        root->back = &timers->first;
    }
}

void madi_timer_arm(madi_timers_t *timers, madi_timer_t *timer, int64_t deadline)
{
    timer->deadline = deadline;
    timer->child = timer->next = NULL;
    root_set(timers, timers->first ? heap_meld(timers->first, timer) : timer);
}

void madi_timer_disarm(madi_timers_t *timers, madi_timer_t *timer)
{
    madi_timer_t *rest;
    if (!timer->back)
        return;
    *timer->back = timer->next;
    if (timer->next)
        timer->next->back = timer->back;
    timer->back = NULL;
    rest = heap_meld_list(timer->child);
    if (rest && timers->first)
        root_set(timers, heap_meld(timers->first, rest));
    else if (rest)
        root_set(timers, rest);
}

madi_timer_t *madi_timer_due(madi_timers_t *timers, int64_t now)
{
    madi_timer_t *first = timers->first;
    if (!first || first->deadline > now)
        return NULL;
    madi_timer_disarm(timers, first);
    return first;
}
