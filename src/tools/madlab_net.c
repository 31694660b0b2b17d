/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/madlab_net.h"

#include "topology/value.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEARCHED "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static char ip_path[256], tc_path[256];

static bool program_find(const char *name, char *path, size_t len)
{
    char *all = madi_lab_text("%s:%s", getenv("PATH") ? getenv("PATH") : "", SEARCHED), *save = NULL;
    bool found = false;
    for (char *dir = strtok_r(all, ":", &save); dir && !found; dir = strtok_r(NULL, ":", &save))
        found = dir[0] == '/' && (size_t)snprintf(path, len, "%s/%s", dir, name) < len && access(path, X_OK) == 0;
    free(all);
    return found;
}

bool madi_lab_links_tools(void)
{
    if (program_find("ip", ip_path, sizeof(ip_path)) && program_find("tc", tc_path, sizeof(tc_path)))
        return true;
    madi_lab_say("the commands ip and tc are needed and not found: install iproute2");
    return false;
}

static _Noreturn void batch_run(const char *program, int space, int in, bool quiet)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(in, 0);
    if (quiet) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
    } else {
        dup2(2, 1);
    }
    if (space >= 0 && setns(space, CLONE_NEWNET) != 0)
        _exit(125);
    execl(program, program, "-batch", "-", (char *)NULL);
    _exit(127);
}

/* Run a batch of commands with `program` (ip or tc), in the network namespace `space` (-1: the current one).  Frees the
 * text. */
static int commands_run(const char *program, int space, char *text, bool quiet)
{
    int fds[2], status = -1;
    size_t len = strlen(text), done = 0;
    pid_t pid;
    if (pipe2(fds, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        madi_lab_say("%s cannot be started: %s", program, strerror(errno));
        free(text);
        return -1;
    }
    if (pid == 0)
        batch_run(program, space, fds[0], quiet);
    close(fds[0]);
    while (done < len) {
        ssize_t n = write(fds[1], text + done, len - done);
        if (n < 0 && errno != EINTR)
            break;
        done += n > 0 ? (size_t)n : 0;
    }
    close(fds[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0 && !quiet)
        madi_lab_say("%s failed, at one of these commands:\n%.2000s", program, text);
    free(text);
    return status == 0 ? 0 : -1;
}

/* --- commands for ip and tc --- */

typedef struct script {
    FILE *file;
    char *text;
    size_t len;
} script_t;

static FILE *script_begin(script_t *script)
{
    script->file = open_memstream(&script->text, &script->len);
    if (!script->file)
        abort();
    return script->file;
}

static int script_run(script_t *script, const char *program, int space)
{
    fclose(script->file);
    if (script->len > 0)
        return commands_run(program, space, script->text, false);
    free(script->text);
    return 0;
}

/* Return the burst size in bytes: smaller than a message, but large enough for a late timer at high rates.  If the
 * rate allows it, it is also large enough for a 64 KiB segment that the kernel splits late. */
static long long burst_of(int64_t rate)
{
    long long burst = rate / 1700 > 80000 ? 80000 : rate / 1700;
    if (burst < rate / 6700)
        burst = rate / 6700;
    return burst < 10000 ? 10000 : burst;
}

/* Write the command that limits an interface to `rate`; up to 50 ms of data may queue. */
static void shape_write(FILE *out, const char *interface, int64_t rate)
{
    long long burst = burst_of(rate);
    long long room = rate / 20 > 256 * 1024 ? rate / 20 : 256 * 1024;
    fprintf(out, "qdisc replace dev %s root tbf rate %lldbit burst %lldb limit %lldb\n", interface, (long long)rate * 8,
            burst, burst + room);
}

static void delay_write(FILE *out, const char *interface, int64_t delay_ps, int64_t rate)
{
    /* Queue as many packets as can be in flight: twice the bandwidth-delay product, in small packets, and at least
     * 1000. */
    const double us = (double)delay_ps / 1e6, packets = rate > 0 ? (double)rate * us / 1e6 / 100 * 2 : 100000;
    fprintf(out, "qdisc replace dev %s root netem delay %.0fus limit %.0f", interface, us, packets > 1000 ? packets : 1000);
    if (rate > 0)
        fprintf(out, " rate %lldbit", (long long)rate * 8);
    fprintf(out, "\n");
}

/* Write the commands for a port's qdiscs: on the host's side, and on the bridge's side. */
static void inside_write(const madi_lab_links_t *links, int p, FILE *out)
{
    if (links->tbf && links->rate[p] > 0)
        shape_write(out, links->plan->port[p].interface, links->rate[p]);
}

static void outside_write(const madi_lab_links_t *links, int p, FILE *out)
{
    const madi_lab_port_t *port = &links->plan->port[p];
    const int64_t delay_ps = links->netem ? links->plan->net[port->net].delay_ps : 0;
    const int64_t rate = links->tbf ? links->rate[p] : 0;
    if (delay_ps > 0)
        delay_write(out, port->peer, delay_ps, rate);
    else if (rate > 0)
        shape_write(out, port->peer, rate);
}

bool madi_lab_links_probe(madi_lab_links_t *links)
{
    static const char *const needed[] = {"bridge", "veth"};
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (commands_run(ip_path, -1, madi_lab_text("link add name probe type %s\nlink del dev probe\n", needed[i]), true) !=
            0) {
            madi_lab_say("interfaces of type %s cannot be made: this kernel has none (module %s), or does not permit it",
                         needed[i], needed[i]);
            return false;
        }
    }
    links->tbf =
        commands_run(tc_path, -1, madi_lab_text("qdisc add dev lo root tbf rate 1gbit burst 64k limit 1m\n"), true) == 0;
    commands_run(tc_path, -1, madi_lab_text("qdisc del dev lo root\n"), true);
    links->netem = commands_run(tc_path, -1, madi_lab_text("qdisc add dev lo root netem delay 1ms\n"), true) == 0;
    commands_run(tc_path, -1, madi_lab_text("qdisc del dev lo root\n"), true);
    return true;
}

static void missing_say(const madi_lab_links_t *links)
{
    char text[MADI_VALUE_MAX];
    for (int i = 0; i < links->plan->nets; i++) {
        const madi_lab_net_t *net = &links->plan->net[i];
        if (net->rate > 0 && !links->tbf)
            madi_lab_say("network '%s' is not limited to %s: this kernel has no tbf (module sch_tbf)", net->name,
                         madi_value_bandwidth_text(net->rate, text));
        if (net->delay_ps > 0 && !links->netem)
            madi_lab_say("network '%s' has no latency of %s: this kernel has no netem (module sch_netem)", net->name,
                         madi_value_time_text(net->delay_ps, text));
    }
}

/* Make a network namespace for each host. */
static int spaces_make(madi_lab_links_t *links)
{
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < links->plan->hosts; i++) {
        if (here < 0 || unshare(CLONE_NEWNET) != 0 ||
            (links->space[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) < 0 || setns(here, CLONE_NEWNET) != 0) {
            madi_lab_say("no network namespace for host '%s': %s%s", links->plan->host[i].name, strerror(errno),
                         errno == ENOSPC ? ": raise /proc/sys/user/max_net_namespaces" : "");
            return -1;
        }
    }
    close(here);
    return 0;
}

/* Make bridges and interface pairs.  Qdiscs are set while the interfaces are down, which is faster. */
static int bridges_make(const madi_lab_links_t *links)
{
    const madi_lab_plan_t *plan = links->plan;
    script_t script;
    FILE *out = script_begin(&script);
    for (int i = 0; i < plan->nets; i++) /* a bridge has no address, so frames for unknown destinations end there */
        fprintf(out,
                "link add name b%d type bridge forward_delay 0 mcast_snooping 0\n"
                "link set dev b%d addrgenmode none up\n",
                i, i);
    for (int i = 0; i < plan->ports; i++)
        fprintf(out, "link add name %s type veth peer name %s netns /proc/%d/fd/%d\n", plan->port[i].peer,
                plan->port[i].interface, (int)getpid(), links->space[plan->port[i].host]);
    if (script_run(&script, ip_path, -1) != 0)
        return -1;
    out = script_begin(&script);
    for (int i = 0; i < plan->ports; i++)
        outside_write(links, i, out);
    if (script_run(&script, tc_path, -1) != 0)
        return -1;
    out = script_begin(&script);
    for (int i = 0; i < plan->ports; i++)
        fprintf(out, "link set dev %s addrgenmode none master b%d up\n", plan->port[i].peer, plan->port[i].net);
    return script_run(&script, ip_path, -1);
}

static int host_join(const madi_lab_links_t *links, int host)
{
    const madi_lab_plan_t *plan = links->plan;
    script_t script;
    FILE *out = script_begin(&script);
    for (int i = 0; i < plan->ports; i++)
        if (plan->port[i].host == host)
            inside_write(links, i, out);
    if (script_run(&script, tc_path, links->space[host]) != 0)
        return -1;
    out = script_begin(&script);
    fprintf(out, "link set dev lo up\n");
    for (int i = 0; i < plan->ports; i++)
        if (plan->port[i].host == host)
            fprintf(out, "address add %s dev %s\nlink set dev %s addrgenmode none up\n", plan->port[i].address,
                    plan->port[i].interface, plan->port[i].interface);
    return script_run(&script, ip_path, links->space[host]);
}

int madi_lab_links_make(madi_lab_links_t *links, const madi_lab_plan_t *plan)
{
    links->plan = plan;
    links->space = madi_lab_alloc((size_t)plan->hosts, sizeof(int));
    links->net_cut = madi_lab_alloc((size_t)plan->nets, sizeof(bool));
    links->port_cut = madi_lab_alloc((size_t)plan->ports, sizeof(bool));
    links->rate = madi_lab_alloc((size_t)plan->ports, sizeof(int64_t));
    for (int i = 0; i < plan->ports; i++)
        links->rate[i] = plan->net[plan->port[i].net].rate;
    missing_say(links);
    if (spaces_make(links) != 0 || bridges_make(links) != 0)
        return -1;
    for (int h = 0; h < plan->hosts; h++)
        if (host_join(links, h) != 0)
            return -1;
    return 0;
}

/* --- while the lab runs --- */

static int net_command(char *text)
{
    return commands_run(ip_path, -1, text, false);
}

/* Connect or cut a port.  A cut is silent: neither side's interface goes down. */
static int port_join(madi_lab_links_t *links, int p, bool cut)
{
    const madi_lab_port_t *port = &links->plan->port[p];
    if (links->port_cut[p] == cut)
        return 0;
    links->port_cut[p] = cut;
    return net_command(cut ? madi_lab_text("link set dev %s nomaster\n", port->peer)
                           : madi_lab_text("link set dev %s master b%d\n", port->peer, port->net));
}

static int net_join(madi_lab_links_t *links, int net, bool cut)
{
    if (links->net_cut[net] == cut)
        return 0;
    links->net_cut[net] = cut;
    return net_command(madi_lab_text("link set dev b%d %s\n", net, cut ? "down" : "up"));
}

int madi_lab_links_cut(madi_lab_links_t *links, int net, int port)
{
    return port >= 0 ? port_join(links, port, true) : net_join(links, net, true);
}

/* Set a port's qdiscs to its current rate.  Without a rate the qdisc is removed, or replaced by one with only a delay. */
static int port_shape(const madi_lab_links_t *links, int p)
{
    const madi_lab_port_t *port = &links->plan->port[p];
    script_t inside, outside;
    int result;
    FILE *out = script_begin(&inside);
    inside_write(links, p, out);
    if (fflush(out) == 0 && inside.len == 0)
        fprintf(out, "qdisc del dev %s root\n", port->interface);
    result = script_run(&inside, tc_path, links->space[port->host]);
    out = script_begin(&outside);
    outside_write(links, p, out);
    if (fflush(out) == 0 && outside.len == 0)
        fprintf(out, "qdisc del dev %s root\n", port->peer);
    return script_run(&outside, tc_path, -1) != 0 ? -1 : result;
}

int madi_lab_links_throttle(madi_lab_links_t *links, int net, int port, int64_t rate)
{
    int result = 0;
    for (int i = 0; i < links->plan->ports; i++) {
        if (links->plan->port[i].net == net && (port < 0 || port == i) && links->rate[i] != rate) {
            links->rate[i] = rate;
            if (port_shape(links, i) != 0)
                result = -1;
        }
    }
    return result;
}

int madi_lab_links_restore(madi_lab_links_t *links, int net, int port)
{
    int result = port < 0 ? net_join(links, net, false) : 0;
    for (int i = 0; i < links->plan->ports; i++)
        if (links->plan->port[i].net == net && (port < 0 || port == i) && port_join(links, i, false) != 0)
            result = -1;
    if (madi_lab_links_throttle(links, net, port, links->plan->net[net].rate) != 0)
        result = -1;
    return result;
}
