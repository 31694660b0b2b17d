#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mad_perf: every test runs over every driver and prints what it promises; mistakes are reported.
# shellcheck disable=SC2086 # lists of words are meant
. "$(cd "$(dirname "$0")/../.." && pwd)/tests/harness/checks.sh"
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
perf() { # N ARGUMENT...
    n=$1
    shift
    within 60 "$BUILD/madrun" --no-label -n "$n" "$BUILD/mad_perf" "$@" >"$out/out" 2>"$out/err"
}
outcome() { # NAME STATUS
    if [ "$2" -eq 0 ]; then ok "$1"; else not_ok "$1" "$(head -20 "$out/out" "$out/err")"; fi
}
# rows TEST DRIVER SIZES: checks that each line is one object with the promised fields, in any number
number='[0-9]+(\.[0-9]+)?'
rows() {
    fields="\"test\": \"$1\", \"driver\": \"$2\", \"size\": [0-9]+, \"iterations\": [0-9]+, \"latency_us_best\": $number"
    fields="$fields, \"latency_us_median\": $number, \"latency_us_mean\": $number, \"bandwidth_MBs_best\": $number"
    grep -Evx "\{$fields(, \"[a-z_]+\": ($number|\"[A-Za-z]+\"))*\}" "$out/out" && return 1
    sizes=$(sed 's/.*"size": \([0-9]*\).*/\1/' "$out/out" | tr '\n' ' ')
    [ "$sizes" = "$3 " ] || { echo "sizes: $sizes instead of $3" >>"$out/err"; return 1; }
}

few="--batches 2 --iters 20 --json"
for driver in self shm tcp; do
    n=2
    [ $driver = self ] && n=1
    perf $n pingpong --driver $driver --sizes 8,1K,65536,0,1M $few && rows pingpong $driver "8 1024 65536 0 1048576"
    outcome "pingpong over $driver" $?
    for t in bandwidth bidirectional rate mixed; do
        perf $n $t --driver $driver --sizes 16-64,100K $few && rows $t $driver "16 32 64 102400"
        outcome "$t over $driver" $?
    done
    perf $n modes --driver $driver --sizes 8,100000 $few &&
        rows modes $driver "8 100000 8 100000 8 100000 8 100000 8 100000 8 100000" &&
        [ "$(grep -c '"send_mode": "LATER", "receive_mode": "EXPRESS"' "$out/out")" -eq 2 ]
    outcome "modes over $driver" $?
done
for driver in shm tcp; do
    for form in request,posted blocking,open call,unexpected callback,posted; do
        receive=${form#*,} form=${form%,*}
        for ways in one both; do
            perf 2 rate --driver $driver --form $form --receive $receive --ways $ways --sizes 8,512 $few &&
                rows rate $driver "8 512" && grep -q "\"form\": \"$form\", \"receive\": \"$receive\"" "$out/out"
            outcome "rates over $driver: $form, $receive, $ways" $?
        done
    done
    perf 3 many-to-one --driver $driver --sizes 8,100K --batches 2 --iters 3 --json && rows many-to-one $driver "8 102400"
    outcome "many-to-one over $driver" $?
    perf 4 ring --driver $driver --sizes 8,1M --batches 2 --iters 3 --json && rows ring $driver "8 1048576" &&
        grep -q '"ranks": 4' "$out/out"
    outcome "ring over $driver" $?
    for t in cond outside fresh written; do
        perf 2 $t --driver $driver --sizes 8,64K,3M --batches 2 --iters 20 --json && rows $t $driver "8 65536 3145728"
        outcome "$t over $driver" $?
    done
    perf 2 idle --driver $driver --batches 1 --json && rows idle $driver 8 && grep -q cpu_us_per_s "$out/out"
    outcome "idle over $driver" $?
done

for driver in shm tcp; do
    perf 2 overlap --driver $driver --sizes 1M --batches 2 --json && rows overlap $driver \
        "1048576 1048576 1048576 1048576 1048576 1048576" &&
        grep -q '"way": "receive".*"exposed_percent".*"begin_us": [0-9.]*, "end_us": [0-9.]*' "$out/out"
    outcome "overlap over $driver" $?
done
for t in pingpong ring idle; do
    perf 2 $t --driver shm --sizes 8 --batches 1 --iters 20 --threads marcel --json && rows $t shm 8
    outcome "$t by user-level threads" $?
done

# Without a driver on the command line, the output names the driver that was used.
perf 2 pingpong --sizes 8 $few && rows pingpong shm 8
outcome "the driver that was taken" $?

# The number of batches and round trips: 60 batches of 500, 100, 20 and 8 round trips.
perf 1 pingpong --driver self --sizes 8,4K,4097,64K,65537,1M,1048577 --json &&
    [ "$(sed 's/.*"iterations": \([0-9]*\).*/\1/' "$out/out" | tr '\n' ' ')" = "30000 30000 6000 6000 1200 1200 480 " ]
outcome "batches and round trips" $?

perf 2 pingpong --sizes 8,1K --batches 2 --iters 20 && grep -q '^# pingpong over shm' "$out/out" &&
    grep -Eqx ' +1024 +40( +[0-9.]+){3}' "$out/out"
outcome "the table" $?

mistake() { # mistake NAME PATTERN N ARGUMENT...: checks that these arguments are refused
    name=$1 pattern=$2
    shift 2
    perf "$@"
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q "$pattern" "$out/err"
    outcome "$name" $?
}
mistake "threads that are none" "bad option or value: --threads green" 2 pingpong --threads green
mistake "an unknown test" "no such test: pong" 1 pong
mistake "an unknown option" "bad option or value: --size" 1 pingpong --size 8
mistake "a size that is none" "bad option or value: --sizes 8Q" 1 pingpong --sizes 8Q
mistake "pairs of a test that has none" "pairs is not an option of pingpong" 1 pingpong --pairs 1
mistake "a time for a test that takes none" "ms is not an option of ring" 1 ring --ms 10
mistake "a form that is none" "form carrier: no such one" 1 rate --form carrier
mistake "a form of a test that has none" "form, --receive and --ways are not options of pingpong" 1 pingpong --form call
mistake "long windows that both sides send and wait for" "at most 512 bytes" 1 rate --form blocking --sizes 1K
mistake "a processor that is none" "processor 99999 cannot be used" 1 pingpong --cpus 99999,99998
mistake "no batches" "bad option or value: --batches 0" 1 pingpong --batches 0
mistake "a driver that is none" "no such driver" 1 pingpong --driver smh
mistake "shm alone" "needs two processes" 1 pingpong --driver shm
mistake "many-to-one alone" "at least two" 1 many-to-one
MAD_DRIVERS=self,tcp
export MAD_DRIVERS
mistake "a driver that was not opened" "no such driver is open" 2 pingpong --driver shm
unset MAD_DRIVERS

"$BUILD/mad_perf" --help >"$out/out" 2>"$out/err" && grep -q many-to-one "$out/out"
outcome "the help" $?
"$BUILD/mad_perf" --version | grep -q '^mad_perf (Madeleine) [0-9]'
outcome "the version" $?
[ $failures = 0 ]
