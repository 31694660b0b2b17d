/* SPDX-License-Identifier: BSD-3-Clause */
/* flip FD: map the memory of that descriptor, and change 16 bits there again and again.  A line "OFFSET A B" on standard
 * input makes the bits at OFFSET change between A and B until the next line; "0 0 0" stops the changes.  The program
 * answers each line by the same line. */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TIMES 2000 /* number of changes between two checks of standard input */
#define PAUSE 3    /* iterations of an empty loop between two changes */

static void pause_some(void)
{
    for (volatile int i = 0; i < PAUSE; i++)
        ;
}

static void flip(volatile uint16_t *at, uint16_t a, uint16_t b)
{
    for (int i = 0; i < TIMES; i++) {
        *at = b;
        pause_some();
        *at = a;
        pause_some();
    }
}

int main(int argc, char **argv)
{
    int fd = argc > 1 ? atoi(argv[1]) : -1;
    unsigned long offset = 0;
    unsigned a = 0, b = 0;
    char line[100];
    struct stat st;
    unsigned char *memory;
    if (fstat(fd, &st) ||
        (memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        perror("flip");
        return 1;
    }
    setvbuf(stdin, NULL, _IONBF, 0); /* unbuffered, so that poll sees every line */
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (;;) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        if (poll(&input, 1, a == b ? -1 : 0) > 0) {
            if (!fgets(line, sizeof line, stdin))
                return 0;
            if (sscanf(line, "%lu %u %u", &offset, &a, &b) != 3 || offset + 2 > (unsigned long)st.st_size)
                return 1;
            printf("%s", line);
        }
        if (a != b)
            flip((volatile uint16_t *)(void *)(memory + offset), (uint16_t)a, (uint16_t)b);
    }
}
