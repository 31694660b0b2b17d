/* SPDX-License-Identifier: BSD-3-Clause */
/* madrun: start the ranks of a session, here or on several hosts, and supervise them until the last one has ended.
 *
 *   madrun.c          from the command line to a job
 *   madrun_options.c  the command line             madrun_hosts.c   lists of hosts, placement of ranks
 *   madrun_same.c     names of the same host
 *   madrun_topology.c the clusters of a file       madrun_gateways.c  gateways between them
 *   madrun_job.c      the job as a whole           madrun_pmi.c     the ranks' exchange of values
 *   madrun_local.c    the ranks of this host       madrun_bind.c    their binding to cores
 *   madrun_remote.c   other hosts, through a launch agent that runs  madrun_proxy.c  there
 *   madrun_frame.c, madrun_spec.c                  protocol between madrun and a proxy
 *   madrun_output.c   lines and labels             madrun_orphans.c processes left by ranks
 *   madrun_loop.c, madrun_signals.c   events
 *   madrun_jobfile.c  the job file, for processes that join      madrun_around.c  another launcher amid gateways */
#include "tools/costs.h"
#include "tools/madrun_job.h"
#include "tools/madrun_loop.h"
#include "tools/madrun_remote.h"
#include "tools/madrun_same.h"
#include "tools/madrun_topology.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Occupy descriptors 0 to 2, so that madrun's pipes do not get these numbers. */
static void descriptors_prepare(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd < 3);
    if (fd >= 0)
        close(fd);
}

/* Make --wdir an absolute path, which is used on all hosts. */
static int wdir_prepare(madi_run_options_t *options)
{
    static char path[2 * PATH_MAX];
    char here[PATH_MAX];
    if (!options->wdir || options->wdir[0] == '/')
        return 0;
    if (!getcwd(here, sizeof(here)) || (size_t)snprintf(path, sizeof(path), "%s/%s", here, options->wdir) >= sizeof(path)) {
        fprintf(stderr, "madrun: --wdir %s: the directory we are in has no name: give an absolute path\n", options->wdir);
        return -1;
    }
    options->wdir = path;
    return 0;
}

static int hosts_prepare(const madi_run_options_t *options, madi_run_hosts_t *hosts)
{
    char why[512];
    int result = 0;
    if (options->topology && madi_run_topology_open(options->topology) != 0)
        return -1;
    if (options->hosts)
        result = madi_run_hosts_add(hosts, options->hosts, why, sizeof(why));
    else if (options->hostfile)
        result = madi_run_hosts_read(hosts, options->hostfile, why, sizeof(why));
    else if (!options->topology || options->around)
        result = madi_run_hosts_add(hosts, "localhost", why, sizeof(why));
    if (result == 0 && options->topology && !options->around)
        result = madi_run_topology_hosts(hosts, options->count, !options->agent, why, sizeof(why));
    else if (result == 0)
        madi_run_same_merge(hosts, !options->agent, NULL);
    if (result == 0)
        result = madi_run_hosts_place(hosts, options->count, why, sizeof(why));
    if (result != 0) {
        fprintf(stderr, "madrun: %s: %s\n",
                options->hostfile                      ? "--hostfile"
                : options->topology && !options->hosts ? "--topology"
                                                       : "--hosts",
                why);
        return -1;
    }
    return 0;
}

/* Check that the hosts' names can be resolved, before anything is started. */
static int hosts_check(const madi_run_options_t *options, const madi_run_hosts_t *hosts)
{
    for (int i = 0; i < hosts->count && !options->agent; i++) {
        const char *name = hosts->host[i].name, *why;
        if (options->around || madi_run_job_here(options, name) || (why = madi_run_remote_resolve(name)) == NULL)
            continue;
        fprintf(stderr, "madrun: host '%s' does not resolve (%s): correct its name, or add it to DNS or /etc/hosts\n", name,
                why);
        return -1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    madi_run_options_t options;
    madi_run_hosts_t hosts = {0};
    int code;

    descriptors_prepare();
    if (argc == 2 && strcmp(argv[1], "--proxy") == 0)
        return madi_run_proxy();
    code = madi_run_options_parse(&options, argc, argv);
    if (code < 0 &&
        (wdir_prepare(&options) != 0 || hosts_prepare(&options, &hosts) != 0 || hosts_check(&options, &hosts) != 0))
        code = 2;
    if (code < 0) {
        if (!options.hosts && !options.hostfile && !options.topology)
            options.agent = NULL; /* run here */
        madi_costs_provide();
        code = madi_run_job(&options, &hosts);
    }
    madi_run_topology_close();
    madi_run_hosts_fini(&hosts);
    free(options.env);
    return code;
}
