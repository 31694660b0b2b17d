# SPDX-License-Identifier: BSD-3-Clause
"""List the figures of MPI.  Each of the two ways into Open MPI (the component, and the provider for libfabric) has the
same rows."""

from . import mpi, rows_rate
from .figure import KIB, LAYER, MIB, NETWORKS, PLUGS, Figure, at_most, bandwidth, latency, of_floor, over, times

OWN = "%s x Open MPI's best path"
LARGE = ((64 * KIB, "64K", "64 KiB"), (MIB, "1M", "1 MiB"), (4 * MIB, "4M", "4 MiB"))
QUEUES = (("unexpected", "unexpected messages"), ("posted", "posted receives"))


def sizes(name, what, way):
    """Make the figures of ping-pongs."""
    def row(kind, network, size, short, words, sign, factor):
        return kind("%s-%s-%s" % (name, network, short), words, "mpi-sizes", "mpi-%s-%s" % (way, network), size,
                    ("openmpi-" + network, "openmpi-ucx-" + network), (), (), OWN % ("%s %s" % (sign, factor)), times(factor))
    return [row(latency, "shm", 8, "8", "%s over shared memory, 8 B" % what, "<=", 1.0)] + [
        row(latency, "shm", size, short, "the same, " + words, "<=", 0.95) for size, short, words in LARGE] + [
        row(latency, "tcp", 8, "8", what + " over TCP on loopback, 8 B", "<=", 0.95),
        row(latency, "tcp", *LARGE[0][:2], "the same, " + LARGE[0][2], "<=", 1.0)] + [
        row(bandwidth, "tcp", size, short, "the same, " + words, ">=", 1.0) for size, short, words in LARGE[1:]]


def overlap(name, what, way, network, words):
    return Figure("%s-overlap-%s" % (name, network), "%s over %s, 1 MiB beside computing: not hidden" % (what, words),
                  "mpi-overlap", "mpi-%s-%s-overlap" % (way, network), MIB, "exposed_percent", "%",
                  ("openmpi-%s-overlap" % network,), (), ("raw-overlap",) if network == "tcp" else (),
                  "<= 5 % of the shorter", at_most(5))


def matching(plug, test, words, target, allowed):
    name, what, way = plug
    return Figure("%s-%s" % (name, test), "%s, 8 B beside %d %s" % (what, mpi.OTHERS, words), "mpi-matching",
                  "mpi-%s-shm-matching" % way, mpi.OTHERS, test, "x beside none", ("openmpi-shm-matching",), (), (), target,
                  allowed)


def of_size(operation, size):
    """Return the size as a part of a figure's name, and in words."""
    return ("", "") if operation == "barrier" else ("-8", " of 8 B") if size == 8 else ("-64K", " of 64 KiB")


def on_hosts(operation, size):
    """Make a figure for two processes on each of two hosts: some peers are reached through memory, others over TCP."""
    short, words = of_size(operation, size)
    return Figure("mpi-hosts-%s%s" % (operation, short), "%s%s, two processes on each of two hosts" % (operation, words),
                  "mpi-hosts", "mpi-pml-hosts", size, operation, "us", ("openmpi-hosts",),
                  ("mpi-mad-hosts", "mpi-ofi-hosts"), (),
                  OWN % "<= 1.0", times(1.0))


def across(operation, size):
    """Make a figure for four processes in each of two clusters, which a gateway connects."""
    short, words = of_size(operation, size)
    return Figure("mpi-clusters-%s%s" % (operation, short),
                  "%s%s, four processes in each of two clusters, links of 1 Gbit/s" % (operation, words), "mpi-clusters",
                  "mpi-pml-clusters", size, operation, "us", ("mpi-pml-clusters-tuned",), (), (),
                  "<= 0.5 x Open MPI's own algorithms over our layer", times(0.5))


def collective(operation, size, ranks):
    short, words = of_size(operation, size)
    long = {"allreduce": 0.8, "alltoall": 1.0, "bcast": 0.9}
    factor = 0.7 if ranks == 2 and size == 8 else 0.9 if size == 8 else long[operation]
    return Figure("mpi-%s%s-%d" % (operation, short, ranks), "%s%s, %d processes" % (operation, words, ranks),
                  "mpi-collectives", "mpi-pml-shm-%d" % ranks, size, operation, "us", ("openmpi-shm-%d" % ranks,),
                  ("mpi-mad-shm-%d" % ranks, "mpi-ofi-shm-%d" % ranks), (), OWN % ("<= %s" % factor), times(factor))


def crowds(ranks):
    """Make the figures of that many processes on this host."""
    def row(short, words, field, unit, factor, limit):
        return Figure("scale-%s-%d" % (short, ranks), "%d processes: %s" % (ranks, words), "scale", "mpi-pml-shm-crowd",
                      ranks, field, unit, ("openmpi-shm-crowd",), ("mpi-mad-shm-crowd",), (),
                      "<= %g KiB" % limit if limit else OWN % ("<= %s" % factor), at_most(limit) if limit else times(factor))
    return [row("first", "the first exchange of all pairs, 8 B", "first_ms", "ms", 1.5, None),
            row("run", "the whole run", "run_s", "s", 1.1, None),
            row("memory", "memory of a process for each peer that it has spoken to", "kib_per_peer", "KiB", None, 48)]


def one_sided(plug, network, test, size):
    """Make a figure of a window: a short operation ends when it has been done at the target; long ones are measured as
    a batch."""
    name, what, way = plug
    short, kind, field, words = ("8", "us", test, "8 B") if size == 8 else ("1M", "MB/s", test + "s", "many of 1 MiB")
    return Figure("%s-%s-%s-%s" % (name, test, network[0], short), "%s over %s, %s, %s" % (what, network[1], test, words),
                  "mpi-rma", "mpi-%s-%s-rma" % (way, network[0]), size, field, kind, ("openmpi-%s-rma" % network[0],),
                  (), (), "none", None)


def gateway_stream(name, way, size, short, words, floor, factor, target):
    return bandwidth("%s-gateway-%s" % (name, short), "the same, stream of " + words, "mpi-gateway",
                     "mpi-%s-gateway-stream" % way, size, ("openmpi-kernel-stream",), (), ("lab-relay", "lab-gateway"),
                     target, of_floor(floor, factor))


def gateways(name, what, way):
    """Make the figures through a gateway: against the gateway's figure without MPI, and against the limit for 1 MiB
    streams."""
    return [latency(name + "-gateway-8", what + " through a gateway, 8 B", "mpi-gateway", "mpi-%s-gateway" % way, 8,
                    ("openmpi-kernel",), (), ("lab-pingpong",), "<= without MPI + max(5 %, 0.3 us)",
                    over("lab-pingpong", lambda us: max(0.05 * us, 0.3))),
            gateway_stream(name, way, *LARGE[0], "lab-gateway", 1 / 1.05, ">= without MPI - 5 %"),
            gateway_stream(name, way, *LARGE[1], "lab-relay", 0.9 / 1.05, ">= 0.9 x a relay of sockets - 5 %")]


def alone(program, network, words, size, short, text):
    """Make a figure of libfabric without an MPI library."""
    return latency("%s-%s-%s" % (program, network, short), "%s over %s, %s" % (program, words, text), "libfabric",
                   "%s-mad-%s" % (program, network), size, ("%s-%s" % (program, network),), (), (), "<= 1.0 x libfabric's own provider",
                   times(1.0))


WAITS = {"sread": "fi_cq_sread", "cntr": "fi_cntr_wait", "fd": "poll after fi_trywait",
         "cond": "mad_cond_wait, messages to a handler", "outside": "poll after mad_progress_hand_over, messages to a handler"}
WAIT_SIZES = ((8, "8", "8 B", 1, 0.6, "the library's own blocking receive + 0.6 us"),
              (16 * MIB, "16M", "16 MiB", 1.15, 0, "1.15 x the library's own blocking receive"))
# The kernel first wakes the progress thread, and then the program: this is the time of one of these wake-ups at a peer.
OUTSIDE = (8, "8", "8 B", 1, 0, "ahead of sockets")


def waited(wait, network, words, size, short, text, factor, more, target):
    """Make the figures of a method of waiting, compared with the library's own and with the peers'."""
    native = wait in ("cond", "outside")
    own = "ours-" + network
    peers = tuple("libfabric-%s-%s" % (peer, "fd" if wait == "outside" else "sread" if native else wait)
                  for peer in ("sockets", "tcp"))
    ahead = target.startswith("ahead")
    return latency("blocking-%s-%s-%s" % (wait, network, short), "%s, %s, %s" % (words, text, WAITS[wait]), "blocking",
                   "%s-%s" % (own, wait) if native else "libfabric-mad-%s-%s" % (network, wait), size,
                   peers[:1] if ahead else (), peers if not ahead else peers[1:], (own,),
                   target if ahead else "<= " + target,
                   times(1.0) if ahead else over(own, lambda us: (factor - 1) * us + more))


def waits(wait, network, words):
    sizes = [OUTSIDE if wait == "outside" else WAIT_SIZES[0], WAIT_SIZES[1]]
    return [waited(wait, network, words, *size) for size in sizes]


FIGURES = [row for plug in PLUGS + (LAYER,) for row in sizes(*plug)] + rows_rate.MPI_FIGURES + [
    overlap(*plug, *network) for plug in PLUGS for network in NETWORKS] + [
    matching(PLUGS[0], *queue, "<= 1.1 x Open MPI's own, as Open MPI matches", times(1.1)) for queue in QUEUES] + [
    matching(PLUGS[1], *queue, "<= 2 x beside none", at_most(2)) for queue in QUEUES] + [
    collective("barrier", 8, ranks) for ranks in mpi.RANKS] + [
    collective(operation, size, ranks)
    for operation in mpi.COLLECTIVES for size in mpi.SIZES for ranks in mpi.RANKS] + [
    on_hosts("barrier", 8)] + [
    on_hosts(operation, size) for operation in mpi.COLLECTIVES for size in mpi.SIZES] + [
    across("barrier", 8)] + [
    across(operation, size) for operation in mpi.COLLECTIVES for size in mpi.SIZES] + [
    row for ranks in mpi.CROWDS for row in crowds(ranks)] + [
    one_sided(plug, network, test, size)
    for plug in PLUGS for test in ("put", "get", "accumulate") for network in NETWORKS for size in (8, MIB)] + [
    row for plug in PLUGS for row in gateways(*plug)] + [
    alone("libfabric", *network, *size) for network in NETWORKS for size in ((8, "8", "8 B"),) + LARGE[:2]] + [
    alone("fi_pingpong", *network, *size) for network in NETWORKS for size in ((8, "8", "8 B"),) + LARGE[:1]] + [
    row for wait in WAITS for network in NETWORKS for row in waits(wait, *network)]
