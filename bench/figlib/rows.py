# SPDX-License-Identifier: BSD-3-Clause
"""List the figures, a row for each line of what was promised, and judge a row.  To add a line, add a row."""

import statistics

from . import (behaviour, cold, counts, failover, gateway, gateway_host, lab, mpi, mpi_gateway, rails, rates, rows_curve,
               rows_mpi, rows_rate, seal, sources, veth)
from .figure import (KIB, MIB, MORE, SHARE, Figure, at_most, bandwidth, count, latency, of_floor, over, times, times_lines,
                     times_or_floor, times_rmw)

FEW = 3  # number of rounds in which `others` are measured

SOURCES = dict(sources.SOURCES, **counts.SOURCES, **behaviour.SOURCES, **gateway.SOURCES, **gateway_host.SOURCES,
               **seal.SOURCES, **lab.SOURCES, **failover.SOURCES, **mpi.SOURCES, **mpi_gateway.SOURCES,
               **rates.SOURCES, **cold.SOURCES, **veth.SOURCES, **rails.SOURCES)

# For each group: a description; the seconds of one round on the developers' machine; the maximum number of rounds
# (counts need only one).
GROUPS = {
    "shm-small": ("small messages in shared memory", 4, None),
    "shm-large": ("large messages in shared memory", 9, None),
    "tcp": ("TCP on loopback", 9, None),
    "ofi": ("the driver ofi, beside libfabric alone", 12, 5),
    "ucx": ("the driver ucx, beside UCX alone", 12, 5),
    "mpi-openmpi": ("the driver mpi, beside Open MPI alone", 15, 5),
    "mpi-mpich": ("the driver mpi, beside MPICH alone", 8, 5),
    "eth": ("Ethernet frames over a veth, beside TCP", 12, 5),
    "rails": ("two limited networks together, beside one", 30, 3),
    "seal": ("sealed TCP on loopback", 12, None),
    "mpi-sizes": ("Open MPI over our channels, and over its own", 55, 10),
    "mpi-rate": ("message rates of Open MPI", 25, 5),
    "mpi-overlap": ("computing while messages of Open MPI go", 14, 5),
    "mpi-matching": ("messages and receives of Open MPI that do not match", 16, 5),
    "mpi-collectives": ("operations of many processes of Open MPI", 40, 3),
    "mpi-hosts": ("the same of processes on two hosts, in a lab", 40, 3),
    "mpi-clusters": ("the same on both sides of a gateway, in a lab", 40, 3),
    "mpi-rma": ("windows of Open MPI", 15, 5),
    "mpi-gateway": ("Open MPI through a gateway, in a lab", 15, 5),
    "libfabric": ("libfabric over our channels, and over its own", 12, 5),
    "blocking": ("waiting without polling, by each way", 30, 5),
    "gateway": ("through a gateway", 30, None),
    "gateway-load": ("many streams, fragments, the gateway's host", 40, 5),
    "gateway-lab": ("through a gateway, in a lab", 30, 5),
    "failover": ("gateways that die or hang", 40, 1),
    "counts": ("instructions of one message", 40, 1),
    "idle": ("a receiver that waits", 5, 3),
    "ring": ("four processes on two cores", 3, None),
    "ring-beside": ("the same beside two that compute", 6, None),
    "user-level": ("messages to user-level threads", 4, None),
    "overlap": ("computing while messages go", 6, 5),
    "marcel": ("user-level threads", 9, 5),
    "million": ("a million user-level threads", 15, 1),
    "scale": ("thousands of peers, and many processes on a host", 50, 3),
    "start": ("64 processes", 1, 3),
    "curve-shm": ("every size in shared memory, beside the peers", 40, 5),
    "curve-tcp": ("every size over TCP on loopback, beside the peers", 70, 5),
    "cold-shm": ("buffers that are not warm, in shared memory", 30, 5),
    "cold-tcp": ("buffers that are not warm, over TCP on loopback", 40, 5),
    "rate-shm": ("message rates in shared memory, in every form", 30, 5),
    "rate-tcp": ("message rates over TCP on loopback, in every form", 40, 5),
    "cliffs": ("every size in shared memory, and around every threshold", 14, 5),
    "worlds": ("mistakes and broken surroundings", 60, 1),
    "lost": ("a short soak", 60, 1),
}

# The promises in the order of the document: title, text, groups that measure them.
PROMISES = [
    ("Shared memory",
     "One way, every size 2^k and 1.5 x 2^k from 1 B to 16 MiB: none above 1.0 x the best at that size of Open MPI, UCX and"
     " libfabric, each in every build that is there; the geometric mean at most 0.75 x. 8 B: at most 0.90 x the best of "
     "Open MPI and UCX, and at most the time of a cache line + 42 ns. 1 KiB: at most 0.90 x. 64 KiB, 1 MiB, 4 MiB: at most "
     "0.9 x the best peer, or 1.1 x the raw copy of the same round where that is more. With buffers long unused, and with "
     "what the other core has just written: from 8 B to 16 MiB none above 1.0 x the best peer. No cliff: of all these "
     "sizes, and one byte around every threshold, none takes more than 1.15 x what its neighbours let expect. Messages of 8"
     " B in windows of 64, in every form: at least 1.3 x the rate of the best peer in that form.",
     ("curve-shm", "cold-shm", "rate-shm", "shm-small", "shm-large", "cliffs")),
    ("TCP",
     "On loopback, every size from 1 B to 16 MiB: none above 1.0 x the best at that size of Open MPI, UCX and libfabric. 8 "
     "B: at most a spinning raw socket + the larger of 5 % and 200 ns. 1 MiB and 4 MiB: at least 0.97 x the best of raw "
     "socket and Open MPI. Buffers that are not warm, and rates: as in shared memory. A receiver that waits long costs no "
     "processor.",
     ("curve-tcp", "cold-tcp", "rate-tcp", "tcp", "idle")),
    ("Over libfabric",
     "The driver ofi beside the same ping-pong written against libfabric alone, over its providers shm and tcp;ofi_rxm. 8 B"
     " and 1 KiB: at most the larger of 1.05 x and + 50 ns. 64 KiB, 1 MiB and 4 MiB: at least 0.98 x the bandwidth.",
     ("ofi",)),
    ("Over UCX",
     "The driver ucx beside the same ping-pong written against UCX alone, over its transports posix and tcp. 8 B and 1 KiB:"
     " at most the larger of 1.05 x and + 50 ns. 64 KiB, 1 MiB and 4 MiB: at least 0.98 x the bandwidth.",
     ("ucx",)),
    ("Over an MPI library",
     "The driver mpi beside the same ping-pong written against the MPI library alone: Open MPI over its transports vader and "
     "tcp, and MPICH. 8 B and 1 KiB: at most the larger of 1.05 x and + 50 ns. 64 KiB, 1 MiB and 4 MiB: at least 0.98 x the "
     "bandwidth.",
     ("mpi-openmpi", "mpi-mpich")),
    ("Raw Ethernet",
     "The driver eth between two network namespaces, over a veth of the greatest MTU (65535), beside our driver tcp on the "
     "same veth. 8 B: at most 0.8 x. 1 MiB: at least 0.9 x the bandwidth.",
     ("eth",)),
    ("Rails",
     "Two network namespaces that two networks of 400 Mbit/s (tbf) join. A stream of messages of 1 MiB over both together "
     "has at least 1.9 x the bandwidth of one over one of them.",
     ("rails",)),
    ("Sealed networks",
     "TCP on loopback with security seal (TLS 1.3). 1 MiB: at least 0.9 x what `openssl speed` says of the cipher on one "
     "core. It is also at least 0.8 x a core that encrypts at that speed and copies as a plain connection does: on loopback the "
     "two cores that encrypt and decrypt also copy into the kernel and out of it. 8 B: at most 1.5 us more than plain. "
     "A connection: at most 400 us of processor more than one that is not sealed, both sides together.",
     ("seal",)),
    ("MPI",
     "Open MPI's own programs run over our plug-ins (component, point-to-point layer, libfabric provider) and over Open "
     "MPI's best transport. Time, at most: 8 B 1.0 x in shared memory and 0.95 x over TCP; 64 KiB 0.95 x in shared memory"
     " and 1.0 x over TCP; 1 MiB and 4 MiB 0.95 x in shared memory, and over TCP at least the same bandwidth. Rates of 8 "
     "B in windows of 64: in every form, at least Open MPI's best. Overlap: of a message of 1 MiB and a "
     "computation of 1 to 2 times its length at least 95 % of the shorter one are hidden (`btl_mad_async` 1, "
     "FI_PROGRESS_AUTO; each row notes sends and receives). With two cores there is no free core for a receive: one "
     "computes, and the sender waits and copies on the other; `raw-overlap` is the result of a socket and a thread. "
     "Matching: 8 B beside 10,000 unexpected messages or posted receives that do not match. Over the provider, where our "
     "device matches, these 8 B take at most 2 x as long as with empty queues. Over the component, where Open MPI "
     "matches, these 8 B take at most 1.1 x as long as over its own transport. "
     "Through a gateway between hosts of a lab (madlab) that share no network: 8 B "
     "take at most 5 % or 0.3 us longer than without MPI; a stream of 64 KiB has the bandwidth of one without MPI, and a "
     "stream of 1 MiB 0.9 x that of a relay of sockets, both less 5 %. Barrier, broadcast, sum and all to all of two "
     "processes on each of two hosts of a lab, through memory and over TCP: at most 1.0 x. Ping-pongs by libfabric alone:"
     " at most 1.0 x the time over libfabric's own providers. Collective operations, of 2, 4 and 8 "
     "processes, which take turns where there are fewer cores: 8 B at most 0.7 x with 2, 0.9 x with more; 64 KiB at most 0.8 x "
     "(sum), 0.9 x (broadcast), 1.0 x (all to all); across a gateway at most 0.5 x Open MPI's own algorithms over our layer. "
     "Without targets: put, get and accumulate (one at a time, and in batches).",
     ("mpi-sizes", "mpi-rate", "mpi-overlap", "mpi-matching", "mpi-collectives", "mpi-hosts", "mpi-clusters", "mpi-rma",
      "mpi-gateway", "libfabric")),
    ("Waiting",
     "Every way of waiting that does not poll takes what the library's own blocking receive takes: fi_cq_sread, fi_cntr_wait "
     "and poll after fi_trywait above the provider for libfabric, mad_cond_wait for what a handler brings about: 8 B one way "
     "at most 0.6 us longer, 16 MiB 1.15 x. A program that sleeps outside the library, in poll on a descriptor that its "
     "handler writes to, is woken by the progress thread: 8 B ahead of libfabric's sockets, 16 MiB 1.15 x.",
     ("blocking",)),
    ("Gateways",
     "Three processes on this host, of which two have no network in common. The gateway adds to 8 B one way at most 1.3 x"
     " the time that a plain relay of sockets adds. A stream of messages of 1 MiB has at least 0.9 x the relay's "
     "bandwidth, and more than through socat and zmq_proxy. Encrypted from end to end a stream has at least 0.85 x the "
     "plain bandwidth, and 8 B take at most 1 / 0.85 as long. Between hosts of a lab (madlab) with networks of 1 Gbit/s "
     "(tbf) a stream has at least 0.98 x the bandwidth of a socket over one of them; the kernel's own forwarding between "
     "unlimited networks is shown without a target. The automatic length of fragments is good: with the best length of 4 "
     "to 256 KiB a message of 1 MiB is at most 1.15 x as fast. The slowest of a hundred streams has at least 0.8 of its "
     "share. A gateway never holds more than its budget. A program that computes on a gateway loses no more than the "
     "processor time of forwarding. When one of two gateways dies or hangs under load, messages go on within twice the "
     "time of detection (MAD_FORWARD_DETECT, here 500 ms). None is lost, doubled or out of order.",
     ("gateway", "gateway-load", "gateway-lab", "failover")),
    ("Instructions",
     "One message of 8 B, from begin to end of packing, and from begin to end of unpacking with the message there: at "
     "most 250 instructions, no system call, at most two locked instructions on each side. By request, to the end of the "
     "request: at most 310.",
     ("counts",)),
    ("Oversubscription",
     "Four processes on two processors pass a token through shared memory, median of 20 runs: at most 6 us for each hop, "
     "and at most 40 us beside two computing processes.",
     ("ring", "ring-beside")),
    ("User-level threads",
     "At most: a yield 8 ns; create and join 25 ns; an uncontended lock 1.1 x two atomic read-modify-writes; a hand-over "
     "on one worker 20 ns (by a condition 35), between two workers 2.8 cache lines; a wake from a sleep in the kernel 2.8"
     " us; memory of a blocked thread 4.3 KiB, also for a million of them. A message to a waiting user-level thread takes"
     " at most 60 ns longer than to a spinning plain thread. On oversubscribed cores the limits of plain threads hold.",
     ("marcel", "million", "user-level")),
    ("Overlap",
     "A message of 1 MiB is sent or received while the process computes for 1 to 2 times its length, with the progress "
     "thread on a core of its own: at least 95 % of the shorter one are hidden. If that core is also the peer's, the "
     "kernel's work for both ends of a connection is done there: `raw-overlap` is the result of plain sockets and a "
     "thread.",
     ("overlap",)),
    ("Scale",
     "10,000 peers added by address and never spoken to: each adds at most 100 B and its compact address. Connecting ends "
     "at its deadline with an explained error. 64 processes are started and ended in at most 1.1 x the time that MPICH's "
     "launcher takes. Many processes of one host, over our layer for Open MPI: the first exchange of all pairs takes at "
     "most 1.5 x Open MPI's own, and the whole run 1.1 x. Each peer that was spoken to costs at most 48 KiB.",
     ("scale", "start")),
    ("Faulty environments",
     "A fault in the environment of a session (network, file, host or peer) is reported in one message with its cause and "
     "a remedy. No process hangs or aborts, and all other processes go on. Each row of the table in "
     "[troubleshooting.md](troubleshooting.md) is a test.",
     ("worlds",)),
    ("Nothing lost",
     "Messages of mixed sizes, modes, forms, channels and threads, with checksums, over each driver and through `fault`: "
     "none is lost, duplicated or out of order. This is the short form; `make soak` sends ten million over each.",
     ("lost",)),
]

SMALL, SMALL_OTHERS = ("openmpi-shm", "ucx-posix"), ("ucx-sm", "mpich-shm", "libfabric-shm", "netpipe-openmpi")
LARGE = ("openmpi-shm", "ucx-posix", "ucx-posix-fifo", "ucx-sm", "mpich-shm")
LARGE_OTHERS = ("libfabric-shm", "netpipe-openmpi")
TCP_OTHERS = ("ucx-tcp", "libfabric-tcp", "netpipe-tcp")
COPY = "<= 0.9 x best peer, or 1.1 x raw copy if larger"
CROSS_LINE = "handoff_cross_line_ns_best"
RELAYS = ("socat", "socat-8K", "zmq_proxy")
LIMITED = ">= 0.98 x a socket over one of the networks"
RESUMED = "<= 2 x the time of detection"
TUNED = "<= 1.15 x the time with the best of 4 to 256 KiB"
# Libraries of other networks that drivers use: driver, name, peer, ways.
LIBRARIES = (("ofi", "libfabric", "libfabric", ("shm", "tcp")), ("ucx", "UCX", "ucx", ("posix", "tcp")),
             ("mpi-openmpi", "Open MPI", "openmpi", ("shm", "tcp")), ("mpi-mpich", "MPICH", "mpich", ("shm",)))
BEST_TCP = ">= 0.97 x best of raw socket and Open MPI"


def beside_library(driver, name, library, way):
    """Compare a driver over a library with the library alone."""
    source, alone = "ours-%s-%s" % (driver, way), "%s-%s" % (library, way)
    goal, limit = "<= %s alone + max(5 %%, 0.05 us)" % name, over(alone, lambda raw: max(0.05 * raw, 0.05))
    return [latency("%s-%s-8" % (driver, way), "%s's %s by the driver %s, 8 B" % (name, way, driver.split("-")[0]), driver, source, 8,
                    (), (), (alone,), goal, limit),
            latency("%s-%s-1K" % (driver, way), "the same, 1 KiB", driver, source, KIB, (), (), (alone,), goal, limit)] + [
                bandwidth("%s-%s-%s" % (driver, way, label), "the same, %s" % text, driver, source, size, (alone,), (), (),
                          ">= 0.98 x %s alone" % name, times(0.98))
                for label, text, size in (("64K", "64 KiB", 64 * KIB), ("1M", "1 MiB", MIB), ("4M", "4 MiB", 4 * MIB))]


FIGURES = rows_curve.FIGURES + [
    latency("shm-8", "shared memory, 8 B", "shm-small", "ours-shm", 8, SMALL, SMALL_OTHERS, ("line",),
            "<= 0.90 x best of Open MPI and UCX", times(0.90)),
    latency("shm-8-line", "shared memory, 8 B, over a cache line", "shm-small", "ours-shm", 8, (), (), ("line",),
            "<= cache line + 0.042 us", over("line", lambda line: 0.042)),
] + [
    latency(source + "-8", "remote memory in shared memory, %s 8 B" % what, "shm-small", source, 8, (), (), ("line",),
            "<= 1.2 x a cache line there and back", over("line", lambda line: 1.4 * line))  # the line's time is one way
    for what, source in (("put", "put-shm"), ("get", "get-shm"), ("fetch-and-add", "fetch-add-shm"))
] + [
    latency("put-back-shm-8", "remote memory in shared memory, 8 B put there and back, one way", "shm-small", "put-back-shm", 8,
            (), (), ("line",), "none", None),
    latency("shm-1K", "shared memory, 1 KiB", "shm-small", "ours-shm", KIB, SMALL, SMALL_OTHERS, ("line",),
            "<= 0.90 x best of Open MPI and UCX", times(0.90)),
    latency("shm-64K", "shared memory, 64 KiB", "shm-large", "ours-shm", 64 * KIB, LARGE, LARGE_OTHERS, ("copy",), COPY,
            times_or_floor(0.9, 1.1, "copy")),
    latency("shm-1M", "shared memory, 1 MiB", "shm-large", "ours-shm", MIB, LARGE, LARGE_OTHERS, ("copy",), COPY,
            times_or_floor(0.9, 1.1, "copy")),
    latency("shm-4M", "shared memory, 4 MiB", "shm-large", "ours-shm", 4 * MIB, LARGE, LARGE_OTHERS, ("copy",), COPY,
            times_or_floor(0.9, 1.1, "copy")),
    latency("tcp-8", "TCP on loopback, 8 B", "tcp", "ours-tcp", 8, ("openmpi-tcp",), TCP_OTHERS, ("raw-tcp",),
            "<= spinning raw socket + max(5 %, 0.2 us)", over("raw-tcp", lambda raw: max(0.05 * raw, 0.2))),
    bandwidth("tcp-1M", "TCP on loopback, 1 MiB", "tcp", "ours-tcp", MIB, ("openmpi-tcp", "raw-tcp"), TCP_OTHERS, (),
              BEST_TCP, times(0.97)),
    bandwidth("tcp-4M", "TCP on loopback, 4 MiB", "tcp", "ours-tcp", 4 * MIB, ("openmpi-tcp", "raw-tcp"), TCP_OTHERS,
              (), BEST_TCP, times(0.97)),
] + [figure for driver, name, library, ways in LIBRARIES for way in ways
     for figure in beside_library(driver, name, library, way)] + [
    latency("eth-8", "Ethernet frames over a veth, 8 B", "eth", "veth-eth", 8, (), (), ("veth-tcp",),
            "<= 0.8 x TCP on the same veth", of_floor("veth-tcp", 0.8)),
    bandwidth("eth-1M", "the same, 1 MiB", "eth", "veth-eth", MIB, (), (), ("veth-tcp",),
              ">= 0.9 x TCP on the same veth", of_floor("veth-tcp", 0.9)),
    bandwidth("rails-1M", "two networks of 400 Mbit/s together, 1 MiB", "rails", "rails-two", MIB, (), (),
              ("rails-one",), ">= 1.9 x one of them", of_floor("rails-one", 1.9)),
    latency("seal-8", "sealed TCP on loopback, 8 B", "seal", "sealed", 8, (), (), ("ours-tcp",), "<= plain + 1.5 us",
            over("ours-tcp", lambda plain: 1.5)),
    bandwidth("seal-1M", "sealed TCP on loopback, 1 MiB", "seal", "sealed", MIB, (), (), ("openssl", "ours-tcp"),
              ">= 0.9 x openssl speed on one core", of_floor("openssl", 0.9)),
    bandwidth("seal-1M-core", "the same, beside a core that encrypts and copies", "seal", "sealed", MIB, (), (),
              ("openssl", "ours-tcp"), ">= 0.8 x of that", lambda v, best: seal.core(v) and 0.8 * seal.core(v)),
    Figure("seal-connect", "a sealed connection, processor of both sides", "seal", "connects-seal", 0, "connect_us", "us CPU",
           (), (), ("connects-auth",), "<= one that is not sealed + 400 us", over("connects-auth", lambda auth: 400)),
    latency("gateway-8", "what a gateway adds, 8 B", "gateway", "gateway-added", 8, (), (), ("relay-added",),
            "<= 1.3 x what a relay of sockets adds", over("relay-added", lambda relay: 0.3 * relay)),
    bandwidth("gateway-1M", "stream through a gateway, 1 MiB", "gateway", "gateway", MIB, (), (), ("relay",),
              ">= 0.9 x a relay of sockets", of_floor("relay", 0.9)),
    bandwidth("gateway-1M-others", "the same, beside other programs that relay", "gateway", "gateway", MIB, RELAYS, (), (),
              "ahead of socat and zmq_proxy", times(1.0)),
    bandwidth("gateway-e2e-1M", "the same, encrypted from end to end", "gateway", "gateway-e2e", MIB, (), (), ("gateway",),
              ">= 0.85 x without", of_floor("gateway", 0.85)),
    latency("gateway-e2e-8", "one way through a gateway, encrypted from end to end, 8 B", "gateway", "gateway-e2e-pingpong", 8,
            (), (), ("gateway-plain",), "<= what it takes without / 0.85", over("gateway-plain", lambda plain: plain * 0.176)),
    bandwidth("gateway-limited-1M", "the same, networks of 1 Gbit/s", "gateway-lab", "limited-gateway", MIB, (), (),
              ("limited-tcp", "limited-relay"), LIMITED, of_floor("limited-tcp", 0.98)),
    bandwidth("gateway-limited-4M", "4 MiB, networks of 1 Gbit/s", "gateway-lab", "limited-gateway", 4 * MIB, (), (),
              ("limited-tcp", "limited-relay"), LIMITED, of_floor("limited-tcp", 0.98)),
    bandwidth("gateway-kernel", "stream through a gateway, 1 MiB, beside the kernel's forwarding of packets",
              "gateway-lab", "lab-gateway", MIB, ("lab-kernel",), (), ("lab-relay",), "none", None),
    count("gateway-fragments", "fragments of the automatic length, stream of 1 MiB", "gateway-load", "fragments", "behind",
          "x", TUNED, 1.15),
    count("gateway-limited-fragments", "the same, ping-pong, networks of 1 Gbit/s", "gateway-lab", "limited-fragments",
          "behind", "x", TUNED, 1.15),
    Figure("gateway-streams", "the slowest of a hundred streams through a gateway", "gateway-load", "streams", 0,
           "least_share", SHARE, (), (), (), ">= 0.8", at_most(0.8)),
    Figure("gateway-memory", "held by a gateway, receivers stopped", "gateway-load", "gateway-memory", 0, "held_MiB", "MiB",
           (), (), (), "<= its budget", lambda v, best: v("gateway-memory", "budget_MiB")),
    Figure("gateway-beside", "lost by a program that computes on a gateway", "gateway-load", "beside", MIB, "lost_percent",
           "%", (), (), (), "<= what forwarding takes of its processor + 2",
           lambda v, best: v("beside", "forwarding_percent") and v("beside", "forwarding_percent") + 2),
    count("failover-kill", "a gateway is killed: messages go on, the worst time", "failover", "failover", "kill_ms", "ms",
          RESUMED, 2 * failover.DETECT_MS),
    count("failover-hang", "a gateway hangs: messages go on, the worst time", "failover", "failover", "stop_ms", "ms",
          RESUMED, 2 * failover.DETECT_MS),
    count("failover-lost", "messages lost, doubled, or out of order meanwhile", "failover", "failover", "wrong",
          "claims that failed", "none", 0),
] + rows_rate.FIGURES + rows_mpi.FIGURES + [
    count("tcp-wait", "TCP, a receiver that waits for a second", "idle", "idle-tcp", "cpu_us_per_s", "us CPU / s",
          "no CPU: <= 1000 us (0.1 %)", 1000, 8),
    count("shm-wait", "shared memory, a receiver that waits for a second", "idle", "idle-shm", "cpu_us_per_s",
          "us CPU / s", "no CPU: <= 1000 us (0.1 %)", 1000, 8),
    count("instructions", "8 B through shared memory: packed, and unpacked when there", "counts", "instr-shm",
          "instructions", "instructions", "<= 250", 250, 8),
    count("instructions-self", "the same to itself", "counts", "instr-self", "instructions", "instructions", "<= 250",
          250, 8),
    Figure("instructions-request", "8 B through shared memory: sent by request", "counts", "instr-shm-request", 8,
           "instructions", "instructions", (), (), (), "<= 310", at_most(310)),
    Figure("instructions-callback", "8 B through shared memory: sent by request with a callback", "counts",
           "instr-shm-callback", 8, "instructions", "instructions", (), (), (), "none", None),
    Figure("instructions-call", "8 B through shared memory: sent by one call, with a request", "counts", "instr-shm-call", 8,
           "instructions", "instructions", (), (), (), "none", None),
    Figure("instructions-posted", "8 B through shared memory: sent by request, received by request, posted before",
           "counts", "instr-shm-posted", 8, "instructions", "instructions", (), (), (), "none", None),
    Figure("instructions-unexpected", "8 B through shared memory: sent by request, all arrived before one is opened",
           "counts", "instr-shm-unexpected", 8, "instructions", "instructions", (), (), (), "none", None),
    count("locked", "its locked instructions, on the side that has more", "counts", "instr-shm", "locked",
          "locked instructions", "<= 2 a side", 2, 8),
    count("syscalls", "its system calls", "counts", "instr-shm", "syscalls", "system calls",
          "none (less than one in 100 messages)", 0.01, 8),
    count("ring", "token, four processes on two cores", "ring", "ring-4", "latency_us_mean", "us a hop",
          "<= 6 us, median of the runs", 6, 8),
    count("ring-beside", "token, four processes on two cores beside two that compute", "ring-beside", "ring-4-beside",
          "latency_us_mean", "us a hop", "<= 40 us, median of the runs", 40, 8),
    latency("user-8", "shared memory, 8 B, by user-level threads", "user-level", "ours-shm-user", 8, (), (), ("ours-shm",),
            "<= plain threads + 0.060 us", over("ours-shm", lambda plain: 0.060)),
    count("ring-user", "token, four processes on two cores, user-level threads", "ring", "ring-4-user", "latency_us_mean",
          "us a hop", "<= 6 us, median of the runs", 6, 8),
    count("ring-beside-user", "the same beside two that compute", "ring-beside", "ring-4-beside-user", "latency_us_mean",
          "us a hop", "<= 40 us, median of the runs", 40, 8),
    count("overlap-shm", "1 MiB through shared memory beside computing: not hidden", "overlap", "overlap-shm",
          "exposed_percent", "%", "<= 5 % of the shorter", 5, MIB),
    Figure("overlap-tcp", "1 MiB over TCP beside computing: not hidden", "overlap", "overlap-tcp", MIB, "exposed_percent",
           "%", (), (), ("raw-overlap",), "<= 5 % of the shorter", at_most(5)),
    count("marcel-yield", "yield", "marcel", "marcel", "yield", "ns", "<= 8 ns", 8),
    count("marcel-create", "create and join", "marcel", "marcel", "create_join", "ns", "<= 25 ns", 25),
    Figure("marcel-lock", "lock and unlock, uncontended", "marcel", "marcel", 0, "lock", "ns", (), (), (),
           "<= 1.1 x two atomic read-modify-writes", lambda v, best: times_rmw(v("marcel", "lock_rmw_ns_best"))),
    count("marcel-handoff", "hand-over by a semaphore, one worker", "marcel", "marcel", "handoff", "ns", "<= 20 ns", 20),
    Figure("marcel-handoff-named", "the same beside a directed switch of Argobots", "marcel", "marcel", 0, "handoff", "ns",
           ("argobots",), (), (), "<= 1.0 x the best peer", times(1.0)),
    Figure("marcel-directed", "hand-over to a thread by its name, one worker", "marcel", "marcel", 0, "directed", "ns",
           ("argobots",), (), (), "<= 1.0 x the best peer", times(1.0)),
    count("marcel-handoff-cond", "hand-over by a condition, one worker", "marcel", "marcel", "handoff_cond", "ns",
          "<= 35 ns", 35),
    Figure("marcel-handoff-cross", "hand-over by a semaphore, two workers", "marcel", "marcel", 0, "handoff_cross", "ns", (),
           (), (), "<= 2.8 x a cache line between the cores", lambda v, best: times_lines(v("marcel", CROSS_LINE))),
    Figure("marcel-wake", "wake from the kernel's sleep, same core, median", "marcel", "marcel", 0, "wake_ns_median", "ns",
           (), (), ("futex", "epoll"), "<= 2.8 us", at_most(2800)),
    count("marcel-memory", "a blocked thread", "marcel", "marcel", "memory_bytes", "B", "<= 4.3 KiB", 4403),
    count("marcel-million", "a blocked thread of a million", "million", "million", "million_bytes", "B", "<= 4.3 KiB", 4403),
    Figure("scale-memory", "10,000 peers never spoken to: resident growth of each", "scale", "scale", 0,
           "bytes_per_peer", "B", (), (), (), "<= 100 B + the compact address",
           lambda v, best: 100 + (v("scale", "address_bytes") or 0)),
    Figure("scale-connect", "connecting to one that is not there", "scale", "scale", 0, "connect_ms", "ms", (), (), (),
           "<= its deadline + 100 ms, then an explained error",
           lambda v, best: v("scale", "connect_deadline_ms") and v("scale", "connect_deadline_ms") + 100),
    Figure("start-64", "64 processes started and ended", "start", "start-madrun", 0, "ms", "ms",
           ("start-mpich",), (), (), "<= 1.1 x MPICH's launcher", times(1.1)),
    count("worlds", "faulty environments: rows of the troubleshooting page that are not true", "worlds", "worlds", "failed", "rows",
          "0", 0),
    count("lost", "nothing lost: runs of a short soak that failed", "lost", "lost", "failed", "runs", "0", 0),
]


def chosen(names):
    """Return the figures selected by a name, the beginning of a name, or a group; (None, name) if a name selects
    none."""
    if not names:
        return FIGURES, None
    picked = []
    for name in names:
        found = [f for f in FIGURES if name in (f.name, f.group)] or [f for f in FIGURES
                                                                      if f.name.startswith(name + "-")]
        if not found:
            return None, name
        picked += [f for f in found if f not in picked]
    return [f for f in FIGURES if f in picked], None


def value(figure, one_round, source, field=None):
    row = (one_round.get(source) or {}).get(8 if source == "line" else figure.size)
    if not row or field:
        return row and row.get(field)
    if figure.unit in ("us", "MB/s"):
        us = row[figure.field]
        return figure.size / us if figure.unit == "MB/s" and us else us
    return row.get(figure.field)


def summary(figure, results, source):
    """Return best and median of a source's values over the rounds."""
    values = [v for v in (value(figure, one, source) for one in results) if v is not None]
    if not values:
        return None
    return {"best": max(values) if figure.unit in MORE else min(values), "median": statistics.median(values)}


def round_judge(figure, one, peer):
    """Judge one round.  Return (ours / the peer's, ours / the maximum allowed beside this peer); the second is at most
    1 if the round passes."""
    mine = value(figure, one, figure.ours)
    theirs = value(figure, one, peer) if peer else None
    ratio = mine / theirs if mine is not None and theirs else None
    allowed = figure.allowed(lambda *of: value(figure, one, *of), theirs) if mine is not None and figure.allowed else None
    if allowed is None:
        return ratio, None
    if not mine or not allowed:
        return ratio, 0 if mine <= allowed else 2
    return ratio, allowed / mine if figure.unit in MORE else mine / allowed


def peer_judge(figure, results, peer):
    """Judge all rounds beside one peer.  Return {peer, ratio, of_target, rounds}: medians, or None."""
    rounds = [round_judge(figure, one, peer) for one in results]
    ratios = [ratio for ratio, _ in rounds if ratio is not None]
    scores = [score for _, score in rounds if score is not None]
    return {"peer": peer, "ratio": statistics.median(ratios) if ratios else None, "rounds": len(scores),
            "of_target": statistics.median(scores) if scores else None}


def best_peer(figure, results):
    """Return the peer that is hardest to beat over all rounds.  A choice for each round would favour the peer that was
    lucky in that round."""
    worse = -1 if figure.unit in MORE else 1
    judged = [peer_judge(figure, results, p) for p in figure.peers if any(value(figure, one, p) for one in results)]
    return max(judged or [peer_judge(figure, results, None)],
               key=lambda j: (j["of_target"] or 0, worse * (j["ratio"] or 0)))


def judge(figure, results, missing):
    beside = best_peer(figure, results)
    peer, of_target = beside["peer"], beside["of_target"]
    ours = summary(figure, results, figure.ours)
    every = {s: summary(figure, results, s) for s in figure.peers + figure.floors + figure.others}
    every = {s: v for s, v in every.items() if v}
    verdict = "not measured" if of_target is None else "pass" if of_target <= 1 else "FAIL"
    if ours and not figure.allowed:
        verdict = "no target"
    lost = [s for s in (figure.ours,) + figure.peers + figure.floors + figure.others if s in missing]
    return {"figure": figure.name, "group": figure.group, "what": figure.what, "target": figure.target, "unit": figure.unit,
            "size": figure.size, "ours": ours, "peer": peer, "peer_value": every.get(peer), "others": every,
            "floors": list(figure.floors), "rounds": beside["rounds"], "verdict": verdict,
            "ratio_best": ours["best"] / every[peer]["best"] if ours and peer else None,
            "ratio_median": beside["ratio"], "of_target": of_target,
            "missing": {s: missing[s] for s in lost}, "note": ""}
