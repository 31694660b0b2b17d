# SPDX-License-Identifier: BSD-3-Clause
"""Measure ping-pongs with buffers that are not in a cache: `mad_perf fresh` and `written`, and the peers' programs by
the same rules (raw/cold.h).  A source is called PEER-fresh or PEER-written."""

from . import mpi, sources

# Test: words.
TESTS = {"fresh": "buffers long unused", "written": "what the other core has just written"}

SOURCES = {"ours-%s-%s" % (driver, test): sources.ours(driver, test) for driver in ("shm", "tcp") for test in TESTS}
SOURCES.update({"%s-%s" % (way, test): mpi.pingpong(way, ["--test", test]) for way in mpi.WAYS for test in TESTS})
SOURCES.update({"%s-%s" % (name, test): sources.linked(*how, ["--test", test])
                for name, how in sources.LINKED.items() for test in TESTS})
