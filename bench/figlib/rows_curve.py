# SPDX-License-Identifier: BSD-3-Clause
"""List the figures over many sizes: the whole curve of each network, and every size against its neighbours."""

from . import cold
from .figure import NETWORKS, Figure

PEERS = {
    "shm": ("openmpi-shm", "openmpi-ucx-shm", "ucx-posix", "ucx-sm", "libfabric-shm", "libfabric-sm2"),
    "tcp": ("openmpi-tcp", "openmpi-ucx-tcp", "ucx-tcp", "libfabric-tcp", "libfabric-tcp-rdm"),
}
NEIGHBOURS = 1.15


def curve(network, words, others, mean):
    """Make the figure of a whole curve; mean: the maximum of the geometric mean, or None."""
    target = "<= 1.0 x best peer at every size" + (", geometric mean <= %g" % mean if mean else "")
    return Figure("curve-" + network, words + ", 1 B to 16 MiB, the worst size", "curve-" + network, "ours-" + network, 0,
                  None, "x", PEERS[network], others, (), target, (1.0, mean))


def cold_curve(network, words, test):
    return Figure("cold-%s-%s" % (network, test), "%s, 8 B to 16 MiB, %s, the worst size" % (words, cold.TESTS[test]),
                  "cold-" + network, "ours-%s-%s" % (network, test), 0, None, "x",
                  tuple("%s-%s" % (peer, test) for peer in PEERS[network]), (), (), "<= 1.0 x best peer at every size",
                  (1.0, None))


FIGURES = [
    curve("shm", "shared memory", (), 0.75),
    curve("tcp", "TCP on loopback", ("raw-tcp",), None),
    *(cold_curve(*network, test) for network in NETWORKS for test in cold.TESTS),
    Figure("shm-cliffs", "shared memory, every size against its neighbours", "cliffs", "ours-shm", 0, None, "x", (), (), (),
           "<= %g x interpolation of the neighbours" % NEIGHBOURS, NEIGHBOURS),
]
