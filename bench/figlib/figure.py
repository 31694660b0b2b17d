# SPDX-License-Identifier: BSD-3-Clause
"""A figure, and what may be allowed of it.

name      what one asks for; names of one group are measured together, round by round, one after another
what      in words
group     see GROUPS
ours      the source of our value
size      bytes; also the key of a source's rows where there are no sizes (0)
field     which value of the source's row; MB/s is made of the latency
unit      as printed
peers     the one that is hardest to beat counts;  others: also measured and shown, in a few rounds
floors    raw interfaces: shown, and used by allowed
target    as text
allowed   (v, best) -> the most that ours may be in this round (for MB/s the least), None when what it compares with is
          missing; v(source) is that source's value in this round, v(source, field) another one of its row, best the
          peer's;  None: there is no target, the value is only shown; of a figure over many sizes (measure.SWEEPS): numbers
"""

import collections

KIB, MIB = 1 << 10, 1 << 20
SHARE = "of the fair share"
MILLION = "million / s"
NETWORKS = (("shm", "shared memory"), ("tcp", "TCP on loopback"))
# Ways into Open MPI: figures' names, words, way.  The layer has ping-pongs and rates.
PLUGS = (("mpi", "Open MPI", "mad"), ("mpi-ofi", "Open MPI by libfabric", "ofi"))
LAYER = ("mpi-pml", "Open MPI by our layer", "pml")
MORE = ("MB/s", SHARE, MILLION)  # units of which more is better

Figure = collections.namedtuple("Figure", "name what group ours size field unit peers others floors target allowed")


def times(factor):
    return lambda v, best: best and factor * best


def times_or_floor(factor, floor_factor, floor):
    return lambda v, best: best and max(factor * best, floor_factor * (v(floor) or 0))


def at_most(value):
    return lambda v, best: value


def of_floor(source, factor):
    return lambda v, best: v(source) and factor * v(source)


def over(source, add):
    return lambda v, best: v(source) and v(source) + add(v(source))


def times_rmw(ns):
    return ns and 1.1 * ns


def times_lines(ns):
    return ns and 2.8 * ns


def latency(name, what, group, ours, size, peers, others, floors, target, allowed):
    return Figure(name, what, group, ours, size, "latency_us_best", "us", peers, others, floors, target, allowed)


def bandwidth(name, what, group, ours, size, peers, others, floors, target, allowed):
    return Figure(name, what, group, ours, size, "latency_us_best", "MB/s", peers, others, floors, target, allowed)


def count(name, what, group, ours, field, unit, target, most, size=0):
    return Figure(name, what, group, ours, size, field, unit, (), (), (), target, at_most(most))
