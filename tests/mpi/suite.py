#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Run MPICH's own test-suite (its folder test/mpi, built for the tested MPI library) over one way.  Tests that fail are
repeated over that library's own tcp: suite.py [OPTION...] SUITE WAY [FOLDER[/PROGRAM]...]

One line a test: how it ended, seconds, folder, program, processes, arguments.
  pass     passes over WAY
  both     fails over WAY, and over the library's own tcp
  library  fails over WAY, and over libfabric's own provider with the same library
  unsteady fails over WAY, and passes when it is run again
  FAIL     fails over WAY each time, and passes over tcp
  none     was not built, or needs more memory than --memory
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

# more slots than cores; otherwise programs that want to start others cannot, print "No Errors", and end
SLOTS = ["mpirun.openmpi", "--oversubscribe", "--host", "localhost:64", "--mca", "mpi_yield_when_idle", "1"]
OMPI = SLOTS + ["--mca", "osc", "^ucx,rdma"]
RDMA = SLOTS + ["--mca", "osc", "rdma,sm"]
OWN = ["--mca", "pml", "ob1", "--mca", "btl"]

# way: its command up to the number of processes, its environment, the ways with which it is compared
WAYS = {
    "btl": (OMPI + OWN + ["mad,self", "--mca", "mca_base_component_path", "{build}/.libs:{own}"], {}, ["tcp"]),
    "btl-rdma": (RDMA + OWN + ["mad,self", "--mca", "btl_mad_windows", "1", "--mca", "mca_base_component_path",
                 "{build}/.libs:{own}"], {}, ["vader-rdma"]),
    "pml": (OMPI + ["--mca", "pml", "mad", "--mca", "mca_base_component_path", "{build}/.libs:{own}"], {}, ["tcp"]),
    "ofi": (OMPI + ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "mad"],
            {"FI_PROVIDER_PATH": "{build}/.libs"}, ["tcp", "ofi-tcp"]),
    "tcp": (OMPI + OWN + ["tcp,self"], {}, []),
    "vader-rdma": (RDMA + OWN + ["vader,self"], {}, []),
    "ofi-tcp": (OMPI + ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "tcp;ofi_rxm"],
                {}, []),
    "mpich": (["{mpich}/bin/mpiexec", "-launcher", "fork"],
              {"FI_PROVIDER_PATH": "{build}/.libs", "FI_PROVIDER": "mad", "MPIR_CVAR_NOLOCAL": "1"}, ["mpich-tcp"]),
    "mpich-tcp": (["{mpich}/bin/mpiexec", "-launcher", "fork"],
                  {"FI_PROVIDER": "tcp;ofi_rxm", "MPIR_CVAR_NOLOCAL": "1"}, []),
}


class Test:
    """Parse a line of a testlist: PROGRAM PROCESSES [KEY=VALUE...]"""
    def __init__(self, folder, words):
        self.folder, self.program = folder, words[0]
        if "/" in self.program:
            below, self.program = self.program.rsplit("/", 1)
            self.folder = os.path.normpath(os.path.join(folder, below))
        self.n = int(words[1]) if len(words) > 1 else 2
        self.args, self.env, self.result, self.limit, self.memory = [], {}, None, 0, 0.0
        for word in words[2:]:
            key, _, value = word.partition("=")
            if key == "arg":
                self.args.append(value)
            elif key == "env":
                name, _, value = value.partition("=")
                self.env[name] = value
            elif key == "resultTest":
                self.result = value
            elif key == "timeLimit":
                self.limit = int(value)
            elif key == "mem":
                self.memory = float(value)

    def name(self):
        return " ".join([self.folder + "/" + self.program, str(self.n)] + self.args +
                        [k + "=" + v for k, v in self.env.items()])


def tests_in(suite, folder):
    """Return the tests of the folder's testlist, and of the folders that it names."""
    path = os.path.join(suite, folder, "testlist")
    if not os.path.exists(path):
        return
    for line in open(path):
        words = line.split("#")[0].split()
        if not words or words[0].startswith("!"):
            continue
        below = os.path.join(folder, words[0])
        if os.path.isdir(os.path.join(suite, below)):
            yield from tests_in(suite, below)
        else:
            yield Test(folder, words)


def run(test, way, opts):
    """Return whether the test passed, its seconds, and its output."""
    command, env, _ = WAYS[way]
    fill = {"build": opts.build, "own": opts.own, "mpich": opts.mpich}
    command = [word.format(**fill) for word in command] + opts.flags.split() + ["-n", str(min(test.n, opts.most))]
    env = dict(os.environ, **{k: v.format(**fill) for k, v in env.items()}, **test.env)
    limit = max(opts.limit, min(test.limit, 2 * opts.limit))
    start = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as out:
        child = subprocess.Popen(command + ["./" + test.program] + test.args, cwd=os.path.join(opts.suite, test.folder),
                                 env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            rc = child.wait(limit)
        except subprocess.TimeoutExpired:
            rc = "time"
            for how in signal.SIGTERM, signal.SIGKILL:  # SIGTERM first, so that the launcher can end its processes
                try:
                    os.killpg(child.pid, how)
                    child.wait(10)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        out.seek(0)
        said = out.read(100000)
    took = time.monotonic() - start
    right = re.search(r"^\s*No [Ee]rrors\s*$", said, re.M) is not None
    if rc == "time":
        return False, took, said + "\n(no end in %d s)\n" % limit
    if test.result in ("TestStatus", "TestErrFatal"):
        return rc != 0, took, said
    if test.result == "TestStatusNoErrors":
        return right and rc != 0, took, said
    return right and rc == 0, took, said + "\n(exit code %s)\n" % rc


def judge(test, opts):
    """Return how the test ended, and its seconds."""
    if not os.access(os.path.join(opts.suite, test.folder, test.program), os.X_OK) or test.memory > opts.memory:
        return "none", 0
    good, took, said = run(test, opts.way, opts)
    if good:
        return "pass", took
    print("---- %s over %s\n%s" % (test.name(), opts.way, said[-2500:]), file=sys.stderr, flush=True)
    if not opts.alone:
        for _ in range(3):
            if run(test, opts.way, opts)[0]:
                return "unsteady", took
            for ended, against in zip(("both", "library"), WAYS[opts.way][2]):
                if not run(test, against, opts)[0]:
                    return ended, took
    return "FAIL", took


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("suite")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("which", nargs="*", default=[""])
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"), help="where Madeleine was built")
    parser.add_argument("--own", default="", help="the folder of Open MPI's own components")
    parser.add_argument("--mpich", default="", help="where MPICH (ch4:ofi) was installed")
    parser.add_argument("--flags", default="", help="more options for mpirun")
    parser.add_argument("--limit", type=int, default=90, help="seconds for a test")
    parser.add_argument("--most", type=int, default=1000, help="processes, where the list asks for more")
    parser.add_argument("--memory", type=float, default=4, help="GB that a test may need")
    parser.add_argument("--alone", action="store_true", help="nothing is run over tcp or again")
    parser.add_argument("--skip", default="$^", help="tests that match this expression are left out")
    opts = parser.parse_args()
    opts.suite, opts.build = os.path.abspath(opts.suite), os.path.abspath(opts.build)
    failures = 0
    for which in opts.which:
        folder, program = which, None
        if which and not os.path.isdir(os.path.join(opts.suite, which)):
            folder, program = os.path.split(which)
        for test in tests_in(opts.suite, folder):
            if program in (None, test.program) and not re.search(opts.skip, test.name()):
                ended, took = judge(test, opts)
                failures += ended == "FAIL"
                print("%-8s %6.1f %s" % (ended, took, test.name()), flush=True)
    sys.exit(failures > 0)


main()
