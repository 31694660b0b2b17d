#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench/figures: its rows, and the document that describes its own run; the measured values do not matter here.
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
figures=$top/bench/figures

# run ARGUMENTS...: runs bench/figures; exit status in $code, output in ./out and ./err; a missed target is no failure
# here
run() {
    within 100 "$figures" --build "$BUILD" "$@" >out 2>err </dev/null
    code=$?
    [ $code -ne 1 ] || grep -q FAIL out || code="1: $(tail -3 err)"
    [ "$code" != 1 ] || code=0
}

within 60 python3 "$top/tests/system/figures_unit.py" >unit 2>&1
check "what it computes" 0 $?
grep -E '^(FAIL|ERROR|Ran|.*Error)' unit

run --list
check "list: exit code" 0 "$code"
cut -d' ' -f1 out >names
check "list: each name once" "" "$(sort names | uniq -d)"
run --list mpi
check_lines "list: figures that begin so" "$(grep -c '^mpi-' names)" '^mpi-' out
run --list mpi-overlap
check_lines "list: the whole curve" 1 '^curve-shm$' names
check_lines "list: a group" 4 '^mpi-(ofi-)?overlap-(shm|tcp) ' out
run no-such-figure
check "an unknown figure" 2 "$code"

run --peer ucx=/nonexistent/prefix --list
check "a peer in a prefix that is not there" 2 "$code"
check_lines "a peer in a prefix that is not there: says so" 1 'there is no folder /nonexistent/prefix' err

# If the reader of the output has gone, that is no error.
for what in --list --help; do
    check "$what to nobody" "" "$(within 60 python3 -c '
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
done = subprocess.run(sys.argv[1:], stdout=writer, stderr=subprocess.PIPE, text=True)
print(done.stderr.strip())' "$figures" $what)"
done

# A missing program is reported with the reason, and is no failure: here only the tools are built.
mkdir tools-only
cp "$BUILD/mad_perf" "$BUILD/madrun" tools-only
within 100 "$figures" --build tools-only --quick lost worlds failover >out 2>err </dev/null
check "only the tools are built: exit code" 0 $?
check_lines "only the tools are built: each row says why" 5 \
    '^(lost|worlds|failover-(kill|hang|lost)) .*  not measured: tests/[a-z/]+ is not built \(make programs\)$' out

run --rounds 2 --json shm-8-line scale-connect
check "measure: exit code" 0 "$code"
check_lines "measure: a row for each figure" 2 '^\{"figure": "(shm-8-line|scale-connect)".*"ours": \{"best": [0-9.]+, "median": [0-9.]+\}' out
check_lines "measure: rows carry their run" 2 '"run": \{"measured": "(commit|release) [^"]+", "command": "bench/figures [^"]*--rounds 2 ' out
cp out one.json
sed -n '2s/"began": "[^"]*"/"began": "another day"/p' one.json >another.json

run --from one.json --markdown
check "document: exit code" 0 "$code"
check_lines "document: one run" 1 '^All figures are of one run' out
check_lines "document: its facts" 5 '^- (measured: (commit|release) .|command: `bench/figures |rounds: 2$|began: 20[0-9-]+ [0-9:]+ UTC$|load before: [0-9.]+$)' out
check_lines "document: best and median" 1 '\| shm-8-line \|.*\| [0-9.]+( \([0-9.]+\))? us \|.*\| [1-4] \| (pass|FAIL) \|$' out
check_lines "document: what is not measured is said" 1 'Figures not measured: .*shm-8; .*lost' out
for promise in "Shared memory" TCP MPI Waiting Gateways Instructions Oversubscription "User-level threads" Overlap Scale "Faulty environments" \
    "Nothing lost"; do
    check_lines "document: $promise" 1 "^### $promise\$" out
done
check_lines "document: every figure belongs to a promise" 0 '^### Further' out
check_lines "document: the machine" 1 '^- processor: .' out
# From the programs to a row: few sizes and iterations, with our program in the place of a peer.  The time of a cache line is
# given: rows of different phases are not compared, and the phases of a busy machine are of no interest here.
within 100 python3 -c '
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from figlib import curve, measure, phase, rows
from figlib.context import Context
context = Context(sys.argv[2], False)
phase.line = lambda context: 0.1
for name, peer in (("curve-shm", "ours-tcp"), ("cold-shm-fresh", "ours-shm-written")):
    figure = next(f for f in rows.FIGURES if f.name == name)._replace(peers=(peer,), others=())
    sweep = measure.SWEEPS[figure.group]
    sweep.sizes, sweep.options = lambda context: [1, 12, 4096], lambda context: ["--batches", "1", "--iters", "2"]
    row = measure.figure_row(figure, *measure.measure(context, figure.group, [figure], 2))
    print(row["figure"], row["rounds"], row["peer"], *row["sweep"], *row["sweep"][figure.ours], row["verdict"])
' "$top/bench" "$BUILD" >swept 2>err || tail -5 err >>swept
check_lines "a curve is measured" 1 '^curve-shm [234] ours-tcp ours-shm ours-tcp 1 12 4096 (pass|FAIL)$' swept
check_lines "buffers that are not warm are measured" 1 \
    '^cold-shm-fresh [234] ours-shm-written ours-shm-fresh ours-shm-written 1 12 4096 (pass|FAIL)$' swept
mkdir document
cp out document/expected.md
run --from one.json --document document
check "no page to write into: exit code" 2 "$code"
cp "$top/doc/performance.md" document
run --from one.json --document document
check "the page and the table: exit code" 0 "$code"
check "the table is what --markdown writes" "" "$(diff document/expected.md document/figures.md 2>&1)"
check_lines "the page: its run" 1 '^- shm-8-line, scale-connect: measured: (commit|release) ' document/performance.md
check_lines "the page: no part is left out" 0 '^Not measured yet' document/performance.md
run --from one.json --from another.json --markdown
check_lines "document: of two runs" 1 '^The figures are of 2 runs' out

# Other files in a build folder are not mistaken for the programs of this build.
mkdir -p stale/bench
printf '#!/bin/sh\n' | tee stale/instr stale/bench/mad_perf stale/mad_perf >stale/bench/instr
chmod +x stale/instr stale/mad_perf stale/bench/*
found=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$top/bench python3 -c '
from figlib.context import Context
context = Context("stale", True)
print(context.program("instr"), context.program("mad_perf"))')
check "programs are taken from where they are built" "$dir/stale/bench/instr $dir/stale/mad_perf" "$found"
# The relay with which ours is compared forwards what an end sent before it closed, however late the other end reads.
# It is not known how much the kernel holds: one of these lengths is a little more than that, so that data waits in the
# relay.
within 60 python3 -c '
import socket, subprocess, sys
def listener():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.bind(("127.0.0.1", 0))
    s.listen(1)
    return s
def lost(length):
    far, spare = listener(), listener()
    port = spare.getsockname()[1]
    spare.close()
    relay = subprocess.Popen([sys.argv[1], "--wait", "sleep", "--listen", str(port), "--to", "127.0.0.1:%d" % far.getsockname()[1]])
    near = None
    while not near:
        try:
            near = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            pass
    end = far.accept()[0]
    near.settimeout(0.1)
    left = length
    try:
        while left:
            left -= near.send(bytes(min(left, 1 << 16)))
    except TimeoutError:
        pass
    near.close()
    try:
        relay.wait(0.02)  # the relay has ended only if it lost the rest
    except subprocess.TimeoutExpired:
        pass
    got = 0
    while part := end.recv(1 << 16):
        got += len(part)
    end.close()
    relay.wait()
    return length - left - got
print([lost(length) for length in range(0, 5 << 20, 200 << 10)])' "$BUILD/bench/raw_relay" >relayed 2>&1
check_lines "the relay passes everything on" 1 '^\[0(, 0)+\]$' "$dir/relayed"
[ $failures = 0 ]
