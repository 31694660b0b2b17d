# SPDX-License-Identifier: BSD-3-Clause
"""Measure two network namespaces that two networks join, each with a bandwidth limit: streams over one of the networks,
and over both (MAD_RAILS).  The namespaces are in a user namespace of their own, which ends with the measurement."""

from .context import Missing, failure, run, run_rows
from .veth import two_hosts

RATE = "400mbit"
INSIDE = """mount -t tmpfs tmpfs /run && ip netns add b || exit 77
for n in 1 2; do
    ip link add va$n type veth peer name vb$n netns b || exit 77
    ip addr add 10.98.$n.1/24 dev va$n && ip -n b addr add 10.98.$n.2/24 dev vb$n || exit 77
    tc qdisc replace dev va$n root tbf rate %s burst 256k latency 50ms || { echo "no tbf" >&2; exit 77; }
    ip netns exec b tc qdisc replace dev vb$n root tbf rate %s burst 256k latency 50ms || exit 77
    ip link set va$n up && ip -n b link set vb$n up || exit 77
done
ip link set lo up && ip -n b link set lo up
for i in $(seq 200); do
    { ip -o link; ip -n b -o link; } | grep -c 'v[ab][12]@.* state UP' | grep -qx 4 && break
    sleep 0.02
done
exec "$@"
""" % (RATE, RATE)


def over(rails):
    def measure(context, sizes):
        unshare, agent = two_hosts(context, INSIDE)
        code, _, err = run(unshare + ["true"])
        if code:
            raise Missing("this kernel cannot limit a network (module sch_tbf)" if "no tbf" in err
                          else failure(unshare, code, err))
        command = unshare + [context.program("madrun"), "--no-label", "-n", "2", "--bind", "none", "--hosts", "a,b",
                             "--launch-agent", agent, "--env", "MAD_DRIVERS=self,tcp", "--env", "MAD_RAILS=%d" % rails,
                             context.program("mad_perf"), "bandwidth", "--sizes", ",".join(map(str, sorted(sizes))), "--json",
                             "--iters", "1", "--batches", "6"]
        return run_rows(command)
    return measure


SOURCES = {"rails-one": over(1), "rails-two": over(2)}
