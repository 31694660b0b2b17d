# SPDX-License-Identifier: BSD-3-Clause
"""Find peers in prefixes (--peer NAME=PREFIX) in addition to those of the distribution, and how each of them was built.

A source with a peer in a prefix is called SOURCE@VERSION: it is the same program, compiled and run with that prefix."""

import collections
import functools
import hashlib
import os
import re
import shlex
import subprocess
import sys

Peer = collections.namedtuple("Peer", "package prefix version built")

# For each package: the prefixes of its sources' names; and the command below its prefix that prints how it was built.
PACKAGES = {
    "ucx": (("ucx-", "openmpi-ucx-"), ("bin/ucx_info", "-v", "-b")),
    "libfabric": (("libfabric-",), ("bin/fi_info", "--version")),
    "openmpi": (("openmpi-",), ("bin/ompi_info", "--all", "--parsable")),
    "argobots": (("argobots",), ()),  # Argobots has no such program
}
# Sources that are no peer's: ours below the peer's interface, and those that run in a lab, where only the distribution
# is visible.
NOT = re.compile(r"-mad-|-(hosts|kernel)\b")


def output(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=20)
        return done.stdout if not done.returncode else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


# ---- How a peer was built: functions that map the output of the peer's own program to (version, words) ----------------

def ucx_built(text):
    version = re.search(r"(?:Library version:|Version)\s+(\d[\w.]*)", text)
    on = set(re.findall(r"^#define (ENABLE_\w+)\s+1$", text, re.M))
    checks = [what for what, name in (("parameter checks", "ENABLE_PARAMS_CHECK"), ("assertions", "ENABLE_ASSERT"),
                                      ("debug data", "ENABLE_DEBUG_DATA")) if name in on]
    known = "#define ENABLE_" in text
    how = "with " + ", ".join(checks) if checks else "release" if known else "unknown: no output names the options"
    return version and version.group(1), how + (" (multi-threading)" if "ENABLE_MT" in on else "")


def libfabric_built(text):
    """Return version and kind of build.  fi_info prints only its version, in which a debug build is marked."""
    version = re.search(r"^libfabric:\s*(\d[\w.]*)", text, re.M)
    return version and version.group(1), "debug" if re.search(r"debug", text, re.I) else "release (fi_info names no options)"


def openmpi_built(text):
    version = re.search(r"^(?:ompi:version:full:|\s*Open MPI:\s*)(\S+)", text, re.M)
    debug = re.search(r"^option:debug:(\w+)", text, re.M)
    flags = re.search(r"^option:build:cflags:(.*)", text, re.M)
    optimised = re.findall(r"-O\w*", flags.group(1)) if flags else []
    how = "unknown" if not debug else "with debugging" if debug.group(1) == "yes" else "release"
    return version and version.group(1), how + (" (%s)" % optimised[-1] if optimised and how == "release" else "")


# Arguments `kind` of ABT_info_query_config(kind, &yes), from the enumeration in abt.h; the call works without ABT_init.
ARGOBOTS_KINDS = {"debug": 0, "checks of errors": 4}
ARGOBOTS_ASK = """
import ctypes, sys
library, yes = ctypes.CDLL(sys.argv[1]), ctypes.c_int(0)
for name, kind in %r.items():
    if not library.ABT_info_query_config(kind, ctypes.byref(yes)):
        print("%%s: %%d" %% (name, yes.value))
""" % ARGOBOTS_KINDS


def argobots_built(text):
    """Return version and kind of build, from the pkg-config file, and from the library's answers."""
    version = re.search(r"^Version:\s*(\S+)", text, re.M)
    answers = dict(re.findall(r"^(%s): (\d)$" % "|".join(ARGOBOTS_KINDS), text, re.M))
    on = [name for name, yes in answers.items() if yes != "0"]
    how = "with " + ", ".join(on) if on else "release" if answers else "unknown: no output names the options"
    return version and version.group(1), how


BUILT = {"ucx": ucx_built, "libfabric": libfabric_built, "openmpi": openmpi_built, "argobots": argobots_built}


def description(package, prefix):
    """Return what the package reports about itself; prefix: its folder."""
    if package == "argobots":
        try:
            with open(os.path.join(prefix, "lib", "pkgconfig", "argobots.pc")) as file:
                return file.read() + output([sys.executable, "-c", ARGOBOTS_ASK, os.path.join(prefix, "lib", "libabt.so")])
        except OSError:
            return ""
    program, *arguments = PACKAGES[package][1]
    return output([os.path.join(prefix, program)] + arguments)


@functools.lru_cache(maxsize=None)
def find(package, prefix):
    version, built = BUILT[package](description(package, prefix))
    return Peer(package, prefix, version, built)


# ---- The command line ---------------------------------------------------------------------------------------------------

def parse(text):
    """Parse NAME=PREFIX.  ValueError has what is wrong."""
    package, equals, prefix = text.partition("=")
    if not equals or not prefix or package not in PACKAGES:
        raise ValueError("--peer %s: NAME=PREFIX is needed, NAME one of %s" % (text, ", ".join(PACKAGES)))
    prefix = os.path.abspath(os.path.expanduser(prefix))
    if not os.path.isdir(prefix):
        raise ValueError("--peer %s: there is no folder %s" % (text, prefix))
    peer = find(package, prefix)
    if not peer.version:
        raise ValueError("--peer %s: no %s below %s that says its version" % (text, package, prefix))
    return peer


def tag(source, peer):
    """Return the name of a source with this peer.  The package is named if the source's name does not begin with it."""
    first = source.split("-")[0] == peer.package
    return "%s@%s%s" % (source, "" if first else peer.package + "-", peer.version)


def belongs(source, package):
    return source.startswith(PACKAGES[package][0]) and not NOT.search(source)


def sources_add(sources, peers):
    """Add the sources with these peers to sources.  Return {source: [its names in prefixes]}."""
    added = {}
    for peer in peers:
        for source in [s for s in sources if "@" not in s and belongs(s, peer.package)]:
            name = tag(source, peer)
            while name in sources:  # two prefixes have the same version
                name += "'"
            sources[name] = within(sources[source], peer)
            added.setdefault(source, []).append(name)
    return added


def within(source, peer):
    return lambda context, sizes: source(context.of(peer), sizes)


def figures_widen(figures, added):
    """Add each peer's builds in prefixes to the figures: they are judged like the peer."""
    def wide(names):
        return tuple(n for name in names for n in [name] + added.get(name, []))
    return [f._replace(peers=wide(f.peers), others=wide(f.others)) for f in figures]


# ---- Flags and environment for peers --------------------------------------------------------------------------------------

def compile_options(peer):
    lib = os.path.join(peer.prefix, "lib")
    return ["-I" + os.path.join(peer.prefix, "include"), "-L" + lib, "-Wl,-rpath," + lib]


def suffix(peer):
    """Return a suffix of file names, which distinguishes programs of different prefixes."""
    return ".%s-%s" % (peer.package, hashlib.sha256(peer.prefix.encode()).hexdigest()[:12])


# ---- The table ----------------------------------------------------------------------------------------------------------

NAMES = {"ucx": "UCX", "libfabric": "libfabric", "openmpi": "Open MPI", "argobots": "Argobots"}


def built_list(peers):
    """Return {name and version: how it was built}, for the distribution's peers and for those in prefixes."""
    found = {}
    for package in ("ucx", "libfabric", "openmpi"):
        here = find(package, "/usr")
        if here.version:
            found["%s %s" % (NAMES[package], here.version)] = "the distribution's, " + here.built
    for peer in peers:
        found["%s %s (--peer %s)" % (NAMES[peer.package], peer.version, shlex.quote(peer.package))] = peer.built
    return found
