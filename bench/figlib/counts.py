# SPDX-License-Identifier: BSD-3-Clause
"""Count what does not depend on the clock: instructions, locked instructions and system calls of a message.  callgrind
counts executions, and the disassembly tells the kinds of instructions."""

import collections
import functools
import glob
import os
import re
import shutil
import tempfile

from .context import Missing, failure, run

LOCKED = re.compile(r"\block\b|\bxchg\b.*\(")  # xchg with an operand in memory is locked without the prefix
SYSTEM = re.compile(r"\b(syscall|sysenter)\b|\bint\s+\$0x80")


@functools.lru_cache(maxsize=None)
def special_addresses(path):
    """Return the addresses of the locked instructions and of the system calls in a program or library."""
    code, out, err = run(["objdump", "-d", "--no-show-raw-insn", path], timeout=120)
    if code:
        raise Missing(failure(["objdump"], code, err))
    found = {"locked": set(), "syscalls": set()}
    for address, text in re.findall(r"^\s*([0-9a-f]+):\t(.*)$", out, re.M):
        if LOCKED.search(text):
            found["locked"].add(int(address, 16))
        elif SYSTEM.search(text):
            found["syscalls"].add(int(address, 16))
    return found


def profile_read(path):
    """Sum up a file of callgrind: instructions, locked instructions and system calls; the first two also by
    function."""
    sums, by_function, locked_in = collections.Counter(), collections.Counter(), collections.Counter()
    special, function, inclusive = None, "?", False
    with open(path) as file:
        for line in file:
            if line.startswith("ob="):
                name = line[3:].strip()
                special = special_addresses(name) if os.path.isfile(name) else None
            elif line.startswith("fn="):
                function = line[3:].strip()
            elif line.startswith("calls="):
                inclusive = True  # the next line has the inclusive cost of a call, which is counted in the called function
            elif line.startswith("0x"):
                fields = line.split()
                if not inclusive and not function.startswith("instr_"):  # not the caller's own
                    count = int(fields[-1])
                    sums["instructions"] += count
                    by_function[function] += count
                    for what in special or ():
                        if int(fields[0], 16) in special[what]:
                            sums[what] += count
                            locked_in[function] += count if what == "locked" else 0
                inclusive = False
    return sums, by_function, locked_in


def side_count(context, driver, form, side):
    """Count one side of a message.  Return the counts per message; form: how the message is sent, None for blocking
    calls."""
    with tempfile.TemporaryDirectory() as folder:
        # In the build folder instr is libtool's script, which starts the program: so children are traced.
        command = ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes", "--toggle-collect=instr_%s*" % side,
                   "--dump-instr=yes", "--compress-strings=no", "--compress-pos=no",
                   "--callgrind-out-file=" + os.path.join(folder, "out.%p"), context.program("instr"), driver]
        command += [form] if form else []
        code, out, err = run(command, timeout=100)
        messages = sum(map(int, re.findall(r'"%s": (\d+)' % ("sent" if side == "send" else "received"), out)))
        if code or not messages:
            raise Missing(failure(["instr"], code, err))
        parts = [profile_read(path) for path in glob.glob(os.path.join(folder, "out.*"))]
    sums, by_function, locked_in = (sum(part, collections.Counter()) for part in zip(*parts))
    if not sums["instructions"]:
        raise Missing("callgrind counted nothing: is instr stripped of its symbols?")
    each = {what: sums[what] / messages for what in ("instructions", "locked", "syscalls")}
    return each, {"instructions": {name: n / messages for name, n in by_function.most_common(24)},
                  "locked": {name: n / messages for name, n in locked_in.most_common(8)}}


def instr(driver, form=None):
    def measure(context, sizes):
        for tool in ("valgrind", "objdump"):
            if not shutil.which(tool):
                raise Missing(tool + " is not installed")
        (send, send_by), (receive, receive_by) = (side_count(context, driver, form, s) for s in ("send", "receive"))
        return {8: {"size": 8, "instructions": send["instructions"] + receive["instructions"],
                    "instructions_send": send["instructions"], "instructions_receive": receive["instructions"],
                    "locked": max(send["locked"], receive["locked"]),
                    "syscalls": send["syscalls"] + receive["syscalls"],
                    "functions": {"send": send_by["instructions"], "receive": receive_by["instructions"]},
                    "locks": {"send": send_by["locked"], "receive": receive_by["locked"]}}}
    return measure


SOURCES = {"instr-shm": instr("shm"), "instr-self": instr("self"),
           **{"instr-shm-" + form: instr("shm", form) for form in ("request", "callback", "call", "posted", "unexpected")}}
