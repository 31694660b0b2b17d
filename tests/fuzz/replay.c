/* SPDX-License-Identifier: BSD-3-Clause */
/* replay TARGET FILE...: run files through a target, without libFuzzer. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int replay(const target_t *target, const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    uint8_t *data;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    if (size < 0) {
        perror(path);
        return 1;
    }
    rewind(file);
    data = malloc(size ? (size_t)size : 1); /* exactly this size, so that a read past the end is detected */
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        return 1;
    }
    fclose(file);
    target->run(data, (size_t)size);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    const target_t *target = argc > 1 ? fuzz_find(argv[1]) : NULL;
    if (!target || argc < 3) {
        fprintf(stderr, "replay TARGET FILE...\n");
        return 2;
    }
    fuzz_begin(target);
    for (int i = 2; i < argc; i++) {
        alarm(30); /* a hang is a finding too */
        if (replay(target, argv[i]))
            return 1;
    }
    printf("ok fuzz-%s-%d-files\n", target->name, argc - 2);
    return 0;
}
