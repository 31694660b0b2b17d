# SPDX-License-Identifier: BSD-3-Clause
"""Measure windows of 64 messages in each form of sending and receiving, by `mad_perf rate` and by the peers' programs,
which follow the same rules (raw/rate.h).  A source is called PEER-rate-FORM, or PEER-rates: over MPI one start can measure
all forms."""

from . import mpi, sources

# For each form: (words, options).  A form that names no method of sending uses requests.
FORMS = {
    "blocking": ("blocking sends", ["--form", "blocking"]),
    "call": ("one call a message", ["--form", "call"]),
    "request": ("requests", ["--form", "request"]),
    "callback": ("requests with callbacks", ["--form", "callback"]),
    "posted": ("requests, receives posted", ["--receive", "posted"]),
    "unexpected": ("requests, messages before their receives", ["--receive", "unexpected"]),
    "both": ("requests, receives posted, both ways at once", ["--receive", "posted", "--ways", "both"]),
}
# Form of the peers that substitutes a form of ours: their requests take one call.
INSTEAD = {"call": "request"}
MPI_FORMS = ("blocking", "request", "posted", "unexpected", "both")
LIBFABRIC_FORMS = MPI_FORMS
FEWER = ["--iters", "100", "--batches", "30"]
FEWEST = ["--iters", "20", "--batches", "30"]  # over TCP, where all forms of one way would take 10 s


def rated(source):
    """Return the source with the number of messages per microsecond, in one direction, added to its rows."""
    def measure(context, sizes):
        rows = source(context, sizes)
        for row in rows.values():
            row["per_us_best"] = 1 / row["latency_us_best"]
        return rows
    return measure


def named(source, form):
    return "%s-rate-%s" % (source, form)


def options(form):
    return ["--test", "rate"] + FORMS[form][1] + FEWER


SOURCES = {named("ours-" + driver, form): rated(sources.ours(driver, "rate", FORMS[form][1] + FEWER))
           for driver in ("shm", "tcp") for form in FORMS}
SOURCES.update({named(way, form): rated(mpi.pingpong(way, options(form))) for way in mpi.WAYS for form in MPI_FORMS})
SOURCES.update({way + "-rates": mpi.rates(way, FEWEST if way.endswith("-tcp") else FEWER) for way in mpi.WAYS})
SOURCES.update({named(name, form): rated(sources.linked(*how, options(form)))
                for name, how in sources.LINKED.items()
                for form in (LIBFABRIC_FORMS if how[0] == "peer_ofi" else [f for f in FORMS if f not in INSTEAD])})
