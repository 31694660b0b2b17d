/* SPDX-License-Identifier: BSD-3-Clause */
/* A job's file: what a process needs to know to join the job from outside.  madrun --job-file writes it, madgw --join reads
 * it, and adds itself.  Lines, the key of the job's gateways (core/secret.h) among them, so that it is for the user's eyes only:
 *
 *     madeleine-job 4
 *     gateway-key HEX
 *     address HEX PLACE   for each process; PLACE: its processors, as madi_place has them, if that is known
 *     topology BYTES      that follow
 *     address HEX PLACE   for each gateway that has joined since
 */
#ifndef MADI_MADGW_JOIN_H
#define MADI_MADGW_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MADI_JOB_FILE "madeleine-job 4" /* counts up with each change of it */

typedef struct madi_job_file {
    unsigned char key[32]; /* of gateways */
    size_t key_len;
    struct {
        unsigned char *bytes;
        size_t len;
        uint64_t place; /* 0: not known */
    } *address;
    size_t addresses;
    char *topology;
    size_t topology_len;
} madi_job_file_t;

/* A descriptor of the file at path, "-": of standard input; *adds: lines can be added to it.  -1, with the reason in why. */
int madi_job_file_open(const char *path, bool *adds, char *why, size_t len);
/* Read the open file from its beginning, or standard input.  0, or -1 with the reason in why. */
int madi_job_file_read(madi_job_file_t *job, int fd, char *why, size_t len);
/* Like madi_job_file_read, but of a text. */
int madi_job_file_parse(madi_job_file_t *job, const char *text, size_t text_len, char *why, size_t len);
/* One more process: append its line to the open file, then read that again, so that of two that join at once at least one
 * finds the other.  *job, as it was read before, is replaced; it stays as it is with -1, and the reason in why. */
int madi_job_file_add(madi_job_file_t *job, int fd, const void *address, size_t address_len, char *why, size_t len);
/* How many of these processes share the processors of this one. */
size_t madi_job_file_beside(const madi_job_file_t *job);
/* Write that line. */
int madi_job_file_line(FILE *file, const void *address, size_t address_len);
void madi_job_file_free(madi_job_file_t *job);

#endif
