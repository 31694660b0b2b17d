# SPDX-License-Identifier: BSD-3-Clause
"""Find copies of a job's key in the memory of processes: key_memory.py JOBFILE MADRUN PID...  Prints a line for each
copy that a core dump would contain: the process, the place, and which key.  The job's key, as bytes and as digits, and
the keys that ranks derive from it.

The job's file has the key of gateways only.  The job's own key is found in madrun, in memory that dumps leave out; the
gateways' key is derived from it."""
import hashlib
import hmac
import re
import sys

LABELS = (b"madeleine rank key", b"madeleine gateway key")


def derive(key, label):
    fresh = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(fresh, label + b"\1", hashlib.sha256).digest()


def regions(pid):
    """Yield (begin, end, name, flags) of each mapping."""
    with open("/proc/%d/smaps" % pid) as smaps:
        for line in smaps:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ *(.*)", line)
            if head:
                at = (int(head[1], 16), int(head[2], 16), head[4] or "memory", head[3])
            elif line.startswith("VmFlags:") and "r" in at[3]:
                yield at[:3] + (line.split()[1:],)


def copies(pid, wanted):
    with open("/proc/%d/mem" % pid, "rb", 0) as memory:
        for begin, end, name, flags in regions(pid):
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except (OSError, OverflowError, ValueError):
                continue
            for what, bytes_ in wanted:
                at = content.find(bytes_)
                while at >= 0:
                    if "dd" not in flags:
                        print("process %d: %s at %x in %s" % (pid, what, begin + at, name))
                    at = content.find(bytes_, at + 1)


def job_key(madrun, of_gateways):
    """Return the key from the memory of madrun that no dump contains, or None."""
    with open("/proc/%d/mem" % madrun, "rb", 0) as memory:
        for begin, end, _, flags in regions(madrun):
            if "dd" not in flags or end - begin > 1 << 20:
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except OSError:
                continue
            for at in range(len(content) - 31):
                window = content[at:at + 32]
                if window.count(0) < 8 and derive(window, LABELS[1]) == of_gateways:
                    return window
    return None


with open(sys.argv[1]) as file:
    of_gateways = bytes.fromhex(next(line.split()[1] for line in file if line.startswith("gateway-key ")))
key = job_key(int(sys.argv[2]), of_gateways)
if not key:
    sys.exit("madrun %s has no key in memory that dumps leave out" % sys.argv[2])
wanted = [("the key", key), ("its digits", key.hex().encode())] + [(label.decode(), derive(key, label)) for label in LABELS]
wanted.append(("digits of the gateways' key", of_gateways.hex().encode()))
for pid in sys.argv[2:]:
    copies(int(pid), wanted)
