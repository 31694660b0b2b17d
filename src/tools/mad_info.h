/* SPDX-License-Identifier: BSD-3-Clause */
/* mad_info: shared declarations.  A subcommand builds one JSON object and prints it, as JSON (--json) or as text. */
#ifndef MAD_INFO_H
#define MAD_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct madi_info_options {
    bool json;
    double timeout; /* seconds that a process has to answer */
    double watch;   /* seconds between two rounds; 0: a single round */
    double live;    /* seconds over which a topology's traffic is measured; 0: no measurement */
    bool prometheus;
    bool dot;
    const char *svg, *span, *size, *channel, *output; /* values of these options; NULL if not given */
    int argc;                                         /* arguments after the subcommand */
    char **argv;
} madi_info_options_t;

/* Subcommands.  Return the exit code. */
int madi_info_host(const madi_info_options_t *options);        /* mad_info_host.c */
int madi_info_knobs(const madi_info_options_t *options);       /* mad_info_host.c */
int madi_info_explain(const madi_info_options_t *options);     /* mad_info_explain.c */
int madi_info_stats(const madi_info_options_t *options);       /* mad_info_stats.c */
int madi_info_trace(const madi_info_options_t *options);       /* mad_info_trace.c */
int madi_info_doctor(const madi_info_options_t *options);      /* mad_info_doctor.c */
int madi_info_topology(const madi_info_options_t *options);    /* mad_info_topology.c */
int madi_info_route(const madi_info_options_t *options);       /* mad_info_route.c */
int madi_info_collectives(const madi_info_options_t *options); /* mad_info_collectives.c */

/* mad_info_query.c: query a live process; return an array with the answers of its sessions. question: as in
 * core/inspect/query.h, for instance "explain 3".  Return NULL on failure; `why` gives the reason and a remedy. */
#define MADI_INFO_WHY_MAX 400
json_t *madi_info_query(int pid, const char *question, double timeout, char *why);
/* Query all processes of this user (as root: of all users).  Return [{pid sessions[]}], with {pid error} for a process
 * that does not answer. */
json_t *madi_info_query_all(const char *question, double timeout);
/* Return the answer to "explain" from a session of this process, which is opened for this purpose with the current knobs. */
json_t *madi_info_query_self(char *why);

/* mad_info_explain.c: parse a number that is not negative; madi_info_program: write the name of the program that a
 * process runs. */
bool madi_info_pid(const char *text, int *n);
void madi_info_program(int pid, char *name, size_t len);

/* mad_info_calibrate.c: measure this host, in about a second. */
/* mad_info_costs.c: measure costs between these cores; return an empty object if both are the same core */
json_t *madi_info_costs(int first, int last);
json_t *madi_info_calibrate(void);

/* mad_info_print.c: members of JSON objects; missing ones are "", 0 and false. */
const char *madi_info_text(const json_t *object, const char *key);
double madi_info_number(const json_t *object, const char *key);
bool madi_info_true(const json_t *object, const char *key);
const char *madi_info_bytes(double n);             /* return a text such as "64 KiB", in one of four static buffers */
const char *madi_info_rank(const json_t *session); /* "rank 2 of 3, ", "rank 2, " or ""; in a static buffer */
void madi_info_print_json(const json_t *object);
void madi_info_print_adapters(const json_t *session);
void madi_info_column(const char *text, int width);          /* print text, padded with blanks (at least two) to the width */
void madi_info_print_knobs(const json_t *session, bool all); /* all: with defaults and help */
/* Report the failure of a subcommand: to stderr, and with --json also as {"error": why} to stdout.  Return 1. */
int madi_info_failed(const madi_info_options_t *options, const char *why);

/* mad_info_doctor.c: record the finding of a check. remedy: NULL if nothing has to be done. */
typedef enum madi_verdict { MADI_OK, MADI_WARNING, MADI_BAD } madi_verdict_t;
void madi_info_found(json_t *findings, const char *check, madi_verdict_t verdict, const char *remedy, const char *format,
                     ...) __attribute__((format(printf, 5, 6)));
/* Return a number from a file such as /proc/sys/...; `missing` if the file has none.  "max" gives -1. */
long long madi_info_file_number(const char *path, long long missing);

/* The checks, one file each: limits of the process and its cgroup, memory, network, the library itself. */
void madi_info_check_limits(json_t *findings);
void madi_info_check_memory(json_t *findings);
void madi_info_check_network(json_t *findings);
void madi_info_check_library(json_t *findings);

#endif
