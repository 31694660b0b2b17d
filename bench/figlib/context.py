# SPDX-License-Identifier: BSD-3-Clause
"""Find files and run programs: the processors, our programs, and programs of peers, which are compiled on demand."""

import atexit
import copy
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from . import peers

HERE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # the folder bench


HELPERS = ("connects", "instr", "raw_copy", "raw_line", "raw_overlap", "raw_relay", "raw_tcp")  # programs that only this script runs


class Missing(Exception):
    """A source that cannot be measured here; its text has the reason."""


def say(text):
    print("figures: " + text, file=sys.stderr, flush=True)


def cpus_choose():
    """Return two processors that this process may use, and that are not two threads of one core."""
    chosen, cores = [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu) as file:
                core = file.read()
        except OSError:
            core = str(cpu)
        if core not in cores:
            cores.add(core)
            chosen.append(cpu)
    return (chosen * 2)[:2]


def end(child):
    """End a child.  First ask it to end, because a launcher then ends its processes, and removes what they left in
    /dev/shm."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(child.pid, number)
        try:
            child.communicate(timeout=5)
            return
        except subprocess.TimeoutExpired:
            pass


def run(command, env=None, timeout=None, cpus=None):
    """Run a command to its end.  Return (exit code, stdout, stderr).  After a time-out, end the command and all that it
    started."""
    timeout = timeout or Context.limit
    bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    try:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True, start_new_session=True, env=dict(os.environ, **(env or {})),
                                 preexec_fn=bind)
    except OSError as why:
        raise Missing("%s: %s" % (os.path.basename(command[0]), why.strerror))
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Missing("%s: not done after %d s" % (os.path.basename(command[0]), timeout))
    finally:
        if child.poll() is None:
            end(child)
    return child.returncode, out, err


def failure(command, code, err):
    """Return a line with the reason of a failed program: the last line of its errors that is a text."""
    lines = [e.strip() for e in err.splitlines() if re.search(r"[a-z]{3}", e) and not e.startswith("measuring")]
    lines = [e for e in lines if not re.match(r"madrun: .*ending the others", e)] or lines
    return "%s: exit code %d%s" % (os.path.basename(command[0]), code, ": " + lines[-1][:160] if lines else "")


def run_rows(command, env=None, timeout=None, cpus=None):
    """Run a program that prints JSON rows.  Return {size: row}."""
    code, out, err = run(command, env, timeout, cpus)
    rows = {}
    for line in out.splitlines():
        if line.startswith("{"):
            try:
                row = json.loads(line)
                rows[row["size"]] = row
            except (ValueError, KeyError):
                pass
    if code or not rows:
        raise Missing(failure(command, code, err))
    return rows


class Context:
    limit = 120  # seconds that one program may take
    at = None    # peer in a prefix that is measured now; None: the peer of the distribution

    def __init__(self, build, quick):
        self.quick = quick
        self.fewer = ["--batches", "15"] if quick else []  # options that shorten programs when a quick impression suffices
        self.lighter = []  # options of every program of a sweep over many sizes
        if quick:
            Context.limit = 40
        self.cpu_list = cpus_choose()
        self.cpus = ",".join(map(str, self.cpu_list))
        self.compiled = {}
        self.scratch = tempfile.mkdtemp(prefix="madeleine-figures-")
        atexit.register(shutil.rmtree, self.scratch, True)
        prefix = os.path.realpath(os.path.join(HERE, "..", "..", ".."))  # installed: bench is PREFIX/share/madeleine/bench
        root = os.path.dirname(HERE)
        tops = [build] if build else [os.getcwd(), os.path.join(root, "build"), root]
        self.tools = tops + [os.path.join(prefix, "bin")]
        self.helpers = [os.path.join(top, "bench") for top in tops] + [os.path.join(prefix, "libexec", "madeleine")]
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        made_here = build or os.path.join(root, "build")
        self.cache = os.path.join(made_here, "bench", "peers") if os.access(made_here, os.W_OK) else \
            os.path.join(base, "madeleine-bench")

    def program(self, name):
        """Return the path of a program of ours: in the build folder, or else installed."""
        for folder in self.helpers if name in HELPERS else self.tools:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return os.path.realpath(path)
        found = shutil.which(name)
        if not found:
            raise Missing(name + " is not built and not installed")
        return found

    def test_program(self, name):
        """Return the path of a test program in the build folder, which `make` alone does not build."""
        path = os.path.join(os.path.dirname(self.program("mad_perf")), "tests", name)
        if not os.path.exists(path):
            raise Missing("tests/%s is not built (make programs)" % name)
        return path

    def of(self, peer):
        """Return a copy of this context that uses a peer in a prefix instead of the distribution's peer."""
        context = copy.copy(self)
        context.at = peer
        return context

    def light(self, options):
        """Return a copy of this context with options that every program of a sweep gets."""
        context = copy.copy(self)
        context.lighter = list(options)
        return context

    def prefix(self, package):
        """Return the prefix of the package that is measured now; None if it is the distribution's."""
        return self.at.prefix if self.at and self.at.package == package else None

    def library_path(self):
        """Return the environment in which programs of the distribution load the libraries of the prefix."""
        return {"LD_LIBRARY_PATH": os.path.join(self.at.prefix, "lib")} if self.at else {}

    def peer(self, source, compiler="cc", libs=(), suffix="", files=()):
        """Compile a program of bench/raw, or of these files, with the peer's compiler or libraries, and keep it."""
        if self.at and compiler == "cc":
            libs = peers.compile_options(self.at) + list(libs)
        name = source + suffix + (peers.suffix(self.at) if self.at else "")
        if name in self.compiled:
            return self.compiled[name]
        files = files or [os.path.join("raw", source + ".c")]
        sources = [os.path.join(HERE, name) for name in files] + [os.path.join(HERE, "engine.c"), os.path.join(HERE, "buffers.c")]
        if not shutil.which(compiler):
            raise Missing(compiler + " is not installed")
        os.makedirs(self.cache, exist_ok=True)
        target = os.path.join(self.cache, name)
        folder = os.path.dirname(sources[0])
        headers = glob.glob(os.path.join(HERE, "*.h")) + glob.glob(os.path.join(folder, "*.h"))
        newest = max(os.path.getmtime(s) for s in sources + headers)
        if not os.path.exists(target) or os.path.getmtime(target) < newest:
            command = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-o", target] + sources + list(libs)
            code, out, err = run(command)
            if code:
                errors = [e for e in err.splitlines() if "error" in e] or ["?"]
                raise Missing("cannot compile %s (is its development package installed?): %s" % (source, errors[0]))
        self.compiled[name] = target
        return target

    def tail(self, sizes):
        return ["--sizes", ",".join(map(str, sorted(sizes))), "--cpus", self.cpus, "--json"] + self.lighter

    def madrun(self, n, *more):
        return [self.program("madrun"), "--no-label", "-n", str(n)] + list(more)
