/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

void madi_lab_say(const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    if (vasprintf(&text, format, list) >= 0)
        fprintf(stderr, "madlab: %s\n", text); /* a single write: other processes write to standard error too */
    va_end(list);
    free(text);
}

void *madi_lab_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory) {
        madi_lab_say("out of memory");
        _Exit(1);
    }
    return memory;
}

char *madi_lab_text(const char *format, ...)
{
    va_list list;
    char *text = NULL;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) {
        madi_lab_say("out of memory");
        _Exit(1);
    }
    va_end(list);
    return text;
}

static char *title;
static size_t title_len;

char **madi_lab_title_prepare(int argc, char **argv)
{
    char **copy = madi_lab_alloc((size_t)argc + 1, sizeof(char *));
    for (int i = 0; i < argc; i++)
        copy[i] = madi_lab_text("%s", argv[i]);
    if (argc > 0) {
        title = argv[0];
        title_len = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
    }
    return copy;
}

void madi_lab_title(const char *name, const char *host)
{
    prctl(PR_SET_NAME, name);
    if (title) {
        memset(title, 0, title_len);
        snprintf(title, title_len, "%s %s", name, host);
    }
}
