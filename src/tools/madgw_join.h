/* SPDX-License-Identifier: BSD-3-Clause */
/* The job file: everything that a process needs to join a job from outside. madrun --job-file writes it; madgw --join reads
 * it and appends itself.  The file contains the key of the job's gateways (core/security/secret.h), so only the user may
 * read it:
 *
 *     madeleine-job 4
 *     gateway-key HEX
 *     address HEX PLACE   for each process; PLACE: its processors (madi_place), if known
 *     topology BYTES      followed by that many bytes
 *     address HEX PLACE   for each gateway that has joined since
 */
#ifndef MADI_MADGW_JOIN_H
#define MADI_MADGW_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MADI_JOB_FILE "madeleine-job 4" /* increased with each change of the format */

typedef struct madi_job_file {
    unsigned char key[32]; /* key of gateways */
    size_t key_len;
    struct {
        unsigned char *bytes;
        size_t len;
        uint64_t place; /* 0: unknown */
    } * address;
    size_t addresses;
    char *topology;
    size_t topology_len;
} madi_job_file_t;

/* Open the file at path ("-": standard input).  *adds: true if lines can be appended.  Return a descriptor, or -1 with
 * the reason in why. */
int madi_job_file_open(const char *path, bool *adds, char *why, size_t len);
/* Read the open file from its beginning, or standard input.  Return 0, or -1 with the reason in why. */
int madi_job_file_read(madi_job_file_t *job, int fd, char *why, size_t len);
/* Like madi_job_file_read, but from a text. */
int madi_job_file_parse(madi_job_file_t *job, const char *text, size_t text_len, char *why, size_t len);
/* Append this process's line to the open file, then read the file again, so that of two processes that join at the same
 * time at least one finds the other.  Replaces *job.  On failure return -1, with the reason in why; *job is unchanged. */
int madi_job_file_add(madi_job_file_t *job, int fd, const void *address, size_t address_len, char *why, size_t len);
/* Return the number of processes in the file that share this one's processors. */
size_t madi_job_file_beside(const madi_job_file_t *job);
/* Write the line of this process. */
int madi_job_file_line(FILE *file, const void *address, size_t address_len);
void madi_job_file_free(madi_job_file_t *job);

#endif
