# SPDX-License-Identifier: BSD-3-Clause
"""gdb: user-level threads of libmarcel.  (gdb) source marcel-gdb.py; see marcel-gdb(1).

  marcel threads        all threads: number, name, state, and what they wait for
  marcel bt N|NAME|all  the backtrace of a thread, wherever it is
  marcel thread N|NAME  select its frames (up, info locals, ...); `marcel thread` alone goes back

The commands change nothing in the process, so they also work on core files.  The backtrace of a switched-out thread works
in this way: an unwinder reports that the newest frame of the current kernel thread was called from the place where the
switched-out thread continues.
"""
import re
import gdb
from gdb.unwinder import Unwinder, register_unwinder

STATES = {1: "ready", 2: "running", 3: "waiting"}  # enum madi_ult_state
SLAB_SHIFT, LINE = 24, 64                          # src/marcel/slot.h, src/base/base.h


class Machine:
    """Return where a switched-out context continues: the frame that src/marcel/switch.h describes, behind its last
    instruction."""

    def __init__(self, frame):
        self.name = frame.architecture().name()
        if not self.name.startswith(("i386:x86-64", "aarch64")):
            raise gdb.GdbError("marcel: no backtraces on " + self.name)
        self.arm = self.name == "aarch64"
        self.sp, self.pc = ("sp", "pc") if self.arm else ("rsp", "rip")

    def context(self, sp):
        """Return the registers by name."""
        word = lambda i: int(gdb.Value(sp + 8 * i).cast(word_type().pointer()).dereference())
        if self.arm:
            regs = {"x%d" % (19 + i): word(8 + i) for i in range(12)}
            regs.update({"sp": sp + 160, "pc": word(19)})
            return regs
        first = gdb.block_for_pc(word(0))
        if first and first.function and first.function.name == "ult_main" and first.start == word(0):
            return {"rip": word(0), "rsp": sp + 8, "rbp": 0}  # the thread has not run yet
        return {"rip": word(0) + 1, "rsp": sp + 16, "rbp": word(1)}  # behind the pop


def word_type():
    return gdb.lookup_type("unsigned long")


class Elsewhere(Unwinder):
    """Report that the context called the newest frame (the one with this stack pointer)."""

    def __init__(self):
        super().__init__("marcel")
        self.at = self.context = self.machine = None

    def __call__(self, pending):
        if not self.context or int(pending.read_register(self.machine.sp)) != self.at[0] or \
                int(pending.read_register(self.machine.pc)) != self.at[1]:
            return None

        class Id:
            sp = gdb.Value(self.context[self.machine.sp] - 8)
            pc = pending.read_register(self.machine.pc)

        info = pending.create_unwind_info(Id())
        for name, value in self.context.items():
            like = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(value).cast(word_type()).cast(like))
        return info

    def begin(self, sp):
        self.end()
        frame = gdb.newest_frame()
        self.machine = Machine(frame)
        self.at = (int(frame.read_register(self.machine.sp)), int(frame.read_register(self.machine.pc)))
        self.context = self.machine.context(sp)
        gdb.invalidate_cached_frames()

    def end(self):
        if self.context:
            self.context = None
            gdb.invalidate_cached_frames()


elsewhere = Elsewhere()
register_unwinder(None, elsewhere, replace=True)
gdb.events.cont.connect(lambda event: elsewhere.end())


# ---- The threads ----------------------------------------------------------------------------------------------------

def variable(name):
    symbol = gdb.lookup_global_symbol(name)
    if symbol is None:
        raise gdb.GdbError("marcel: no symbol %s: is libmarcel there, with what -g says?" % name)
    return symbol.value()


def control_size(kind):
    """Return the size of a control block at the top of its slot."""
    return (kind.sizeof + LINE - 1) & ~(LINE - 1)


def control_blocks():
    """Yield all slots that have been in use, by address."""
    region = variable("madi_region")
    base, kind = int(region["base"]), gdb.lookup_type("madi_ult_t")
    if not int(region["size"]):
        return
    top = control_size(kind)
    shifts = gdb.selected_inferior().read_memory(int(region["shift"].address), region["shift"].type.sizeof).tobytes()
    for slab, shift in enumerate(shifts.rstrip(b"\0")):
        low, size = base + (slab << SLAB_SHIFT), 1 << shift
        if not shift or low & (size - 1):
            continue
        for at in range(low, low + max(size, 1 << SLAB_SHIFT), size):
            ult = gdb.Value(at + size - top).cast(kind.pointer())
            if int(ult["shift"]) != shift:  # no further slots were cut from this slab
                break
            yield ult


class Thread:
    def __init__(self, number, ult):
        self.number, self.ult = number, ult
        self.state = STATES.get(int(ult["state"]))
        self.record = ult["party"]["thread"]
        traits = self.record["traits"] if self.record else None
        self.name = traits["name"].string() if traits else ""
        self.name = self.name or "%#x" % int(self.record)

    def frames(self):
        """Return the newest frame of this thread, while it is selected."""
        frame = gdb.newest_frame()
        return frame.older() if elsewhere.context else frame

    def __enter__(self):
        self.kernel_thread, self.frame = gdb.selected_thread(), None
        if self.state == "running":
            kernel_thread_of(self.ult).switch()
        else:
            elsewhere.begin(int(self.ult["sp"]))
        return self

    def __exit__(self, *unused):
        elsewhere.end()
        if self.kernel_thread:
            self.kernel_thread.switch()

    def waits_for(self):
        """Return the program's call in which the thread is, with its arguments."""
        with self:
            frame = found = self.frames()
            while frame and frame.is_valid() and in_library(frame):
                found = frame if re.match(r"(mad|marcel)_", frame.name() or "") else found
                frame = frame.older()
            if re.match(r"(mad|marcel)_", found.name() or "") or not frame:
                return describe(found)
            return "a call of " + describe(frame)  # the compiler left out the frame of the library's call


def in_library(frame):
    """Return whether the function belongs to this library or to libmadeleine.  Its source file decides, which is right
    also if a program contains the libraries."""
    symbol = frame.find_sal().symtab
    return bool(symbol and re.search(r"/src/(marcel|core|base|drivers)/", symbol.fullname()))


def describe(frame):
    given = []
    try:
        block = frame.block()
        while block and not block.function:
            block = block.superblock
        for symbol in block or ():
            if symbol.is_argument:
                given.append("%s=%s" % (symbol.name, frame.read_var(symbol).format_string(symbols=False, max_elements=4)))
    except (RuntimeError, gdb.error):  # without debugging information, only the name is known
        pass
    return "%s(%s)" % (frame.name(), ", ".join(given))


def on_stack(low, high):
    """Return whether the selected kernel thread runs on this stack.  In a signal handler it may be on another stack:
    then an older frame decides."""
    frame = gdb.newest_frame()
    pointer = Machine(frame).sp
    try:
        for _ in range(32):
            if frame is None:
                return False
            if low <= int(frame.read_register(pointer)) < high:
                return True
            frame = frame.older()
    except gdb.error:  # there is no older frame
        pass
    return False


def kernel_thread_of(ult):
    """Return the user-level thread on whose stack it runs, also when another kernel thread has its worker
    (marcel_blocking_begin)."""
    high = int(ult) + control_size(ult.type.target())
    low, selected = high - (1 << int(ult["shift"])), gdb.selected_thread()
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            if on_stack(low, high):
                return thread
    finally:
        selected.switch()
    raise gdb.GdbError("marcel: no kernel thread is on the stack of this thread: it is just being switched")


def all_threads():
    threads = [ult for ult in control_blocks() if int(ult["state"]) in STATES]
    return [Thread(i + 1, ult) for i, ult in enumerate(threads)]


def find(text):
    for thread in all_threads():
        if text in (str(thread.number), thread.name):
            return thread
    raise gdb.GdbError("marcel: no thread '%s': marcel threads lists them" % text)


# ---- The commands ---------------------------------------------------------------------------------------------------

class Marcel(gdb.Command):
    """User-level threads: marcel threads, marcel bt N|NAME|all, marcel thread [N|NAME]."""

    def __init__(self):
        super().__init__("marcel", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """List all user-level threads: number, name, state, and what they wait for."""

    def __init__(self):
        super().__init__("marcel threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        elsewhere.end()
        for t in all_threads():
            print("%5d  %-20s worker %d  %-8s %s" % (t.number, t.name, int(t.ult["worker"]["index"]), t.state,
                                                     t.waits_for() if t.state == "waiting" else ""))


class Backtrace(gdb.Command):
    """Print the backtrace of a user-level thread, or of all."""

    def __init__(self):
        super().__init__("marcel bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        elsewhere.end()
        for t in all_threads() if argument in ("", "all") else [find(argument)]:
            print("Thread %d (%s), %s" % (t.number, t.name, t.state))
            with t:
                text = gdb.execute("backtrace", to_string=True)
                skip = 1 if elsewhere.context else 0
            for line in text.splitlines():
                number = re.match(r"#(\d+)( *)(.*)", line)
                if not number:
                    print(line)
                elif int(number.group(1)) >= skip:
                    print("#%-3d%s" % (int(number.group(1)) - skip, number.group(3)))


class Select(gdb.Command):
    """Select the frames of a user-level thread; without a thread: those of the kernel thread again."""

    def __init__(self):
        super().__init__("marcel thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        elsewhere.end()
        if argument:
            t = find(argument)
            t.__enter__()
            t.frames().select()
        gdb.execute("frame")


for command in (Marcel, Threads, Backtrace, Select):
    command()
