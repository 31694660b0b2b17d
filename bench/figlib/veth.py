# SPDX-License-Identifier: BSD-3-Clause
"""Measure two processes in two network namespaces, joined by a veth: our driver eth, and our driver tcp on the same veth.
The namespaces are in a user namespace of their own, which ends with the measurement."""

import os

from .context import Missing, failure, run, run_rows

MTU = 65535  # the greatest: each frame costs the same time
INSIDE = """mount -t tmpfs tmpfs /run && ip netns add b &&
ip link add va mtu %d type veth peer name vb netns b mtu %d || exit 77
ip addr add 10.97.0.1/24 dev va && ip -n b addr add 10.97.0.2/24 dev vb || exit 77
ip link set lo up && ip link set va up && ip -n b link set lo up && ip -n b link set vb up || exit 77
for i in $(seq 200); do
    ip -o link show va | grep -q 'state UP' && ip -n b -o link show vb | grep -q 'state UP' && break
    sleep 0.02
done
exec "$@"
""" % (MTU, MTU)
AGENT = """#!/bin/sh
host=$1
shift
[ "$host" = a ] && exec "$@"
exec ip netns exec b "$@"
"""


def two_hosts(context, inside):
    """Return the command that runs a command on hosts that the script `inside` makes, and madrun's agent for them."""
    agent = os.path.join(context.scratch, "two-hosts-agent")
    with open(agent, "w") as file:
        file.write(AGENT)
    os.chmod(agent, 0o755)
    return ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", inside, "two-hosts"], agent


def over(driver):
    def measure(context, sizes):
        perf, madrun = context.program("mad_perf"), context.program("madrun")
        variables = {"MAD_DRIVERS": "self," + driver}
        modules = os.path.join(os.path.dirname(perf), "drivers", ".libs")
        if os.path.isdir(modules):  # in the build folder
            variables["MAD_MODULES"] = modules
        unshare, agent = two_hosts(context, INSIDE)
        code, out, err = run(unshare + ["true"])
        if code:
            raise Missing(failure(unshare, code, err))
        given = [word for name in variables for word in ("--env", "%s=%s" % (name, variables[name]))]
        return run_rows(unshare + [madrun, "--no-label", "-n", "2", "--bind", "none", "--hosts", "a,b", "--launch-agent",
                                   agent] + given + [perf, "pingpong", "--driver", driver] + context.tail(sizes), variables)
    return measure


SOURCES = {"veth-eth": over("eth"), "veth-tcp": over("tcp")}
