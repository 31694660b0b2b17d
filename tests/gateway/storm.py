#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""storm.py BUILD SEED [MESSAGES]: one run of soak over clusters of clusters, in a lab (madlab).  Gateways are killed and
stopped, and links are cut and throttled, from before the start until after the end.  These events always restore a path
before the deadline, so every message has to arrive, once, in order, and whole.

The seed decides the networks (a chain, a ring, a star, clusters inside others, or any graph), the gateways between them,
the hosts of the ranks, which of soak's channels are virtual channels of the file and over which networks, the driver of each
network (one of those in $DRIVERS, else tcp), and the events.
Prints these decisions, then 'ok storm-SEED', or 'not ok storm-SEED' and the reason.  When nothing moves any more, also
prints the stacks of all processes (gdb).  Exit status 0, 1, or 77 if there can be no lab."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

DETECT, DEADLINE = 1.0, 30.0    # of the job, in seconds; a first connection during cuts has the same deadline
LONGEST = 3.0                   # seconds for which anything is unavailable at most
STILL = 40                      # seconds without progress after which the stacks are printed
DRIVERS = os.environ.get("DRIVERS", "tcp").split()
CHANNELS = ["any", "from", "posted", "handler", "try", "pool"]


class Shape:
    """Networks with their hosts.  Hosts n* are for ranks, hosts g* are gateways."""

    def __init__(self, dice):
        self.dice = dice
        self.nets = {}
        self.kind = dice.choice(["chain", "chain", "ring", "star", "nested", "graph"])
        getattr(self, self.kind)()
        self.gates = sorted({h for hosts in self.nets.values() for h in hosts if h[0] == "g"})
        ends = sorted({h for hosts in self.nets.values() for h in hosts if h[0] == "n"})
        far = self.far_apart(ends)
        others = [h for h in ends if h not in far]
        self.ranks = far + dice.sample(others, min(len(others), dice.randint(0, 2)))
        dice.shuffle(self.ranks)
        self.settings = {n: self.setting() for n in self.nets}
        self.virtual = self.virtual_channels()
        self.count = 2 if dice.random() < 0.15 else 1
        other = random.Random()
        other.setstate(dice.getstate())  # so that with any drivers the seed decides the same about the rest
        self.drivers = {n: other.choice(DRIVERS) for n in self.nets}

    def net(self, i):
        self.nets.setdefault("c%d" % i, ["n%d" % i] + (["n%dx" % i] if self.dice.random() < 0.3 else []))
        return self.nets["c%d" % i]

    def join(self, gate, *nets):
        for n in nets:
            self.net(n).append("g" + gate)

    def chain(self):
        hops = self.dice.randint(1, 4)
        for i in range(hops):
            for k in range(self.dice.choice([1, 2, 2, 3])):
                self.join("%d%s" % (i, "abc"[k]), i, i + 1)

    def ring(self):
        n = self.dice.randint(3, 5)
        for i in range(n):
            self.join(str(i), i, (i + 1) % n)

    def star(self):
        n = self.dice.randint(3, 4)
        for k in range(self.dice.randint(1, 2)):
            self.join("all" + "ab"[k], *range(n))
        if self.dice.random() < 0.5:
            self.join("pair", 0, 1)

    def nested(self):
        """Make two sites, joined by a line; each has an outer network with the gateways of its clusters."""
        clusters = 0
        for site in (10, 20):
            for _ in range(self.dice.randint(1, 2)):
                for k in range(self.dice.choice([1, 2])):
                    self.join("%d%s" % (clusters, "ab"[k]), clusters, site)
                clusters += 1
        for k in range(self.dice.choice([1, 2])):
            self.join("line" + "ab"[k], 10, 20)

    def graph(self):
        n = self.dice.randint(3, 6)
        for i in range(1, n):
            self.join("t%d" % i, i, self.dice.randrange(i))
        for i in range(self.dice.randint(1, 3)):
            self.join("m%d" % i, *self.dice.sample(range(n), self.dice.choice([2, 2, 3])))

    def far_apart(self, ends):
        """Return two hosts with the largest distance."""
        def hops(a):
            seen, at = {a: 0}, [a]
            while at:
                here = at.pop(0)
                for hosts in self.nets.values():
                    if here in hosts and (here == a or here[0] == "g"):
                        for h in hosts:
                            if h not in seen:
                                seen[h] = seen[here] + 1
                                at.append(h)
            return seen
        return list(max(((a, b) for a in ends for b in ends if a < b), key=lambda p: hops(p[0])[p[1]]))

    def setting(self):
        text = ""
        if self.dice.random() < 0.4:
            text += ' bandwidth = "%dMbit/s";' % self.dice.choice([100, 300, 1000])
        if self.dice.random() < 0.25:
            text += ' latency = "%dus";' % self.dice.choice([100, 1000, 5000])
        return text

    def together(self, nets):
        """Return networks over which all ranks reach each other."""
        seen, at = {self.ranks[0]}, [self.ranks[0]]
        while at:
            here = at.pop()
            for n in nets:
                if here in self.nets[n] and (here == self.ranks[0] or here[0] == "g"):
                    at += [h for h in self.nets[n] if h not in seen]
                    seen.update(self.nets[n])
        return all(r in seen for r in self.ranks)

    def virtual_channels(self):
        found = {}
        if self.dice.random() < 0.4:
            for name in self.dice.sample(CHANNELS, self.dice.randint(1, 3)):
                over = self.dice.sample(sorted(self.nets), self.dice.randint(1, len(self.nets)))
                found[name] = over if self.together(over) else self.dice.sample(sorted(self.nets), len(self.nets))
        return found

    def interface(self, net, host):
        """Return the interface as madlab names it: eth0 is on the first network of a host."""
        return "eth%d" % [n for n in self.nets if host in self.nets[n]].index(net)

    def text(self):
        lines = ["networks = {"]
        for n, hosts in self.nets.items():
            each = ", ".join('{ hosts = "%s"; interface = "%s"; }' % (h, self.interface(n, h)) for h in hosts)
            lines.append('    %s = { driver = "%s"; hosts = (%s);%s };' % (n, self.drivers[n], each, self.settings[n]))
        lines.append("};")
        if self.kind == "nested":
            lines.append("clusters = {")
            for i in range(4):
                if "c%d" % i in self.nets:
                    lines.append('    s%d = { hosts = "%s"; };' % (i, ", ".join(
                        h for h in self.nets["c%d" % i] if h[0] == "n")))
            inner = ", ".join("s%d" % i for i in range(4) if "c%d" % i in self.nets)
            lines.append('    both = { clusters = "%s"; };' % inner)
            lines.append("};")
        lines.append('gateways = ( { hosts = "%s"; count = %d; } );' % (", ".join(self.gates), self.count))
        encrypt = 'encrypt = "end-to-end"; ' if os.environ.get("ENCRYPT") else ""
        if self.virtual or encrypt:
            lines.append("virtual_channels = {")
            lines.append('    default = { over = "%s"; %s};' % (", ".join(self.nets), encrypt))
            for name, over in sorted(self.virtual.items()):
                lines.append('    %s = { over = "%s"; %s};' % (name, ", ".join(over), encrypt))
            lines.append("};")
        return "\n".join(lines) + "\n"


def storm_of(shape, dice, seconds):
    """Return the events as (time, action, target), in order."""
    events, t = [], dice.choice([0.2, 0.7, 2.0])
    while t < seconds:
        kind = dice.choice(["kill", "kill", "kill", "stop", "stop", "cut", "link", "net", "throttle", "all", "freeze",
                            "host"])
        away = dice.choice([0.1, 0.4, 0.9, 1.3, 2.0, LONGEST])
        gate = dice.choice(shape.gates)
        net = dice.choice(sorted(shape.nets))
        if kind == "kill":
            events.append((t, "signal KILL", gate))
        elif kind == "stop":
            events += [(t, "signal STOP", gate), (t + away, "signal CONT", gate)]
        elif kind == "cut":
            events += [(t, "cut", gate), (t + away, "restore", gate)]
        elif kind == "link":
            link = "%s/%s" % (net, dice.choice(shape.nets[net]))
            events += [(t, "cut", link), (t + away, "restore", link)]
        elif kind == "net":
            events += [(t, "cut", net), (t + away, "restore", net)]
        elif kind == "throttle":
            events += [(t, "throttle", net + "=%dMbit/s" % dice.choice([5, 20, 100])), (t + away, "restore", net)]
        elif kind == "all":
            events += [(t, "signal KILL", g) for g in shape.gates]
        elif kind == "freeze":
            events += [(t, "signal STOP", g) for g in shape.gates]
            events += [(t + away, "signal CONT", g) for g in shape.gates]
        elif kind == "host":
            events += [(t, "kill", gate), (t + away, "start", gate)]
        t += away + dice.choice([0.05, 0.5, 1.0, 2.5])
    return sorted(events, key=lambda e: e[0])


# ---- Inside, on the launch host

def signal_gateways(name, host):
    subprocess.run([os.environ["MADLAB_AGENT"], host, "sh", "-c", "for p in /proc/[0-9]*; do case $(cat $p/comm 2>/dev/null)"
                    " in *madgw) kill -%s ${p#/proc/} ;; esac; done" % name], stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20, check=False)


def inside(build, seed, messages):
    shape, events = chosen(seed)
    begun = time.monotonic()
    variables = []
    if DRIVERS != ["tcp"]:
        drivers = sorted({"self", "shm", "virtual", *shape.drivers.values()})
        variables = ["--env", "UCX_TLS=tcp", "--env", "MAD_OFI_PROVIDERS=tcp+rxm", "--env", "MAD_DRIVERS=" + ",".join(drivers)]
        os.environ.setdefault("MAD_MODULES", build + "/drivers/.libs")
    job = subprocess.Popen(
        [build + "/madrun", "-v", "--no-label", "-n", str(len(shape.ranks)), "--hosts", ",".join(shape.ranks), "--topology",
         "storm.conf", "--launch-agent", os.environ["MADLAB_AGENT"], "--env", "MAD_FORWARD_DETECT=%d" % (DETECT * 1000),
         "--env", "MAD_FORWARD_DEADLINE=%d" % (DEADLINE * 1000), "--env",
         "MAD_CONNECT_TIMEOUT=%d" % (DEADLINE * 1000), *variables, build + "/tests/soak/soak",
         "--messages", messages, "--seed", str(seed), "--max", str(16 << 20), "--threads", "2"], stdin=subprocess.DEVNULL)

    def act():
        for t, action, target in events:
            if not action.startswith("signal"):
                continue
            while time.monotonic() - begun < t and job.poll() is None:
                time.sleep(0.02)
            if job.poll() is not None:
                return
            print("storm: %.1f s: %s %s" % (time.monotonic() - begun, action, target), flush=True)
            signal_gateways(action.split()[1], target)
    threading.Thread(target=act, daemon=True).start()
    rc = job.wait()
    sys.exit(rc if rc >= 0 else 128 - rc)


# ---- Outside

def chosen(seed):
    dice = random.Random(seed)
    shape = Shape(dice)
    return shape, storm_of(shape, dice, dice.choice([8, 15, 25]))


def descendants(pid):
    children = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % p) as f:
                children.setdefault(int(f.read().rsplit(")", 1)[1].split()[1]), []).append(int(p))
        except (OSError, IndexError):
            pass
    found, at = [], [pid]
    while at:
        here = children.get(at.pop(), [])
        found += here
        at += here
    return found


def left_in(folder):
    """Return the remaining processes; all processes of a lab are in its folder."""
    left = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(p) != os.getpid() and os.readlink("/proc/%s/cwd" % p) == folder:
                left.append(int(p))
        except OSError:
            pass
    return left


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def lateness(events, said):
    """Return the maximum delay of the lab's clock behind its schedule, in seconds."""
    planned = [t for t, action, _ in events if not action.startswith("signal")]
    done = re.findall(r"^madlab: ([0-9.]+) s: ", said, re.M)
    return max([float(at) - t for t, at in zip(planned, done)], default=0)


def stacks(pid, out):
    for p in descendants(pid):
        name = name_of(p)
        if not any(part in name for part in ("soak", "madgw")):
            continue
        out.write("==== %d %s\n" % (p, name))
        out.flush()
        if shutil.which("gdb"):
            subprocess.run(["gdb", "-batch", "-ex", "thread apply all bt", "-p", str(p)],
                           stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, timeout=60, check=False)


def outside(build, seed, messages):
    shape, events = chosen(seed)
    folder = tempfile.mkdtemp(prefix="storm.")
    keep = os.environ.get("STORM_KEEP")
    os.chdir(folder)
    with open("storm.conf", "w") as f:
        f.write(shape.text())
    print("# storm-%d: %s of %d networks (%s), gateways %s%s, ranks %s, virtual channels: %s" % (
        seed, shape.kind, len(shape.nets), " ".join(shape.drivers.values()), " ".join(shape.gates),
        " (two processes each)" if shape.count > 1 else "", " ".join(shape.ranks), " ".join(sorted(shape.virtual)) or "none"), flush=True)
    command = [build + "/madlab", "run", "storm.conf", "--timeout", "280"]
    for shared in (os.path.realpath(build + "/.."), os.path.dirname(os.path.realpath(__file__)), folder):
        command += ["--share", shared]
    for t, action, target in events:
        if not action.startswith("signal"):
            command += ["--at", "%.2f:%s:%s" % (t, action, target)]
    command += ["--", sys.executable, os.path.realpath(__file__), "inside", build, str(seed), messages]
    why, moved, size, begun = "", time.monotonic(), 0, time.monotonic()
    with open("out", "w") as out:
        lab = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        last = ""
        while lab.poll() is None:
            time.sleep(0.1)
            with open("out") as f:
                progress = [line for line in f if line.startswith("soak: ") and " received of " in line]
            progress = progress[-1].split(" s: ")[-1] if progress else ""
            if progress != last:
                moved, last = time.monotonic(), progress
            if time.monotonic() - moved > STILL and not why:
                why = "nothing has moved for %d s" % STILL
                with open("stacks", "w") as s:
                    stacks(lab.pid, s)
                lab.send_signal(signal.SIGTERM)
        rc = lab.returncode
    with open("out") as f:
        said = f.read()
    if rc == 125 and "madlab" in said and "soak" not in said:
        print("skipped: no lab here: " + said.strip().splitlines()[-1])
        sys.exit(77)
    good = [line for line in said.splitlines() if line.startswith("soak: good")]
    if rc or not good:
        why = why or "exit status %d" % rc
    late = lateness(events, said)
    if why and late > LONGEST:
        why += "; the lab was %.0f s late with a cut or its end, so something was away for longer than was chosen" % late
    left = left_in(os.path.realpath(folder))
    if left and not why:
        why = "left behind: " + ", ".join("%d %s" % (p, name_of(p)) for p in left)
    if why:
        print("not ok storm-%d: %s; again: %s %s %d %s" % (seed, why, sys.argv[0], build, seed, messages))
        print("  " + "\n  ".join(shape.text().splitlines()))
        print("  " + "\n  ".join(said.splitlines()[-60:]))
        if os.path.exists("stacks"):
            with open("stacks") as f:
                print("  " + f.read().replace("\n", "\n  "))
    else:
        took = time.monotonic() - begun
        print("ok storm-%d: %s; %d events, %.0f s" % (seed, good[0].split(": ", 2)[-1], len(events), took))
    os.chdir("/")
    if keep and why:
        shutil.move(folder, os.path.join(keep, "storm-%d" % seed))
    else:
        shutil.rmtree(folder)
    sys.exit(1 if why else 0)


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        inside(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        outside(os.path.realpath(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "20K")
