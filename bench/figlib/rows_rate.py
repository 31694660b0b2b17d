# SPDX-License-Identifier: BSD-3-Clause
"""List the figures of rates: messages of 8 B in windows of 64, in each form, native and through each way into Open
MPI."""

from . import rates
from .figure import LAYER, MILLION, NETWORKS, PLUGS, Figure, times
from .rows_curve import PEERS


def peers(network, form):
    """Return the peers' sources that have this form, or its substitute."""
    names = (rates.named(peer, rates.INSTEAD.get(form, form)) for peer in PEERS[network])
    return tuple(name for name in names if name in rates.SOURCES)


def row(name, what, group, ours, beside, target, factor, field="per_us_best"):
    return Figure(name, what, group, ours, 8, field, MILLION, beside, (), (), target, times(factor))


def native(network, words, form):
    return row("rate-%s-%s" % (network, form), "%s, 8 B, %s" % (words, rates.FORMS[form][0]), "rate-" + network,
               rates.named("ours-" + network, form), peers(network, form), ">= 1.3 x best peer", 1.3)


def plugged(plug, network, words, form):
    name, what, way = plug
    own = tuple("%s-%s-rates" % (source, network) for source in ("openmpi", "openmpi-ucx"))
    return row("%s-rate-%s-%s" % (name, network, form), "%s over %s, 8 B, %s" % (what, words, rates.FORMS[form][0]),
               "mpi-rate", "mpi-%s-%s-rates" % (way, network), own, ">= 1.0 x Open MPI's best path", 1.0, form)


FIGURES = [native(*network, form) for network in NETWORKS for form in rates.FORMS]
MPI_FIGURES = [plugged(plug, *network, form) for plug in PLUGS + (LAYER,) for network in NETWORKS for form in rates.MPI_FORMS]
