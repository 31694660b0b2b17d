#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Blocks that one process reads from, or writes to, the other's memory: permitted, forbidden by the kernel for both
# processes or for one, switched off, and with a peer that is killed meanwhile.  ROUNDS=N: number of killed processes
# (10)
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
dir=$(mktemp -d) || exit 1
out=$dir/out
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
refuse="python3 $top/tests/system/refuse.py"
tests="direct_requests direct_posts direct_cancel direct_shared direct_other"
export MAD_PREFER=shm

# conform NAME COMMAND...: runs the tests, each process started by that command
conform() {
    name=$1
    shift
    # shellcheck disable=SC2086
    if within 100 "$BUILD/madrun" -n 2 "$@" "$BUILD/tests/conform" $tests >"$out" 2>&1; then
        ok "$name"
    else
        not_ok "$name" "$(tail -15 "$out")"
    fi
}

# counted ENV...: prints the report of mad_info about the blocks that rank 0 has read and written, with these variables.
# One block was sent to rank 0 by a request, or rank 0 sent one to a posted receive.
counted() {
    mkfifo "$dir/in" "$dir/ready"
    env "$@" INFO_BYTES=1000000 "$BUILD/madrun" -n 2 --stdin 1 "$BUILD/tests/info_client" <"$dir/in" >"$dir/ready" 2>"$out" &
    exec 3>"$dir/in" 4<"$dir/ready"
    rank= zero=
    until [ "$rank" = "[0]" ]; do read -r rank _ zero <&4 || break; done
    within 60 "$BUILD/mad_info" explain "$zero" --json 2>&1 | grep -oE '"(read_blocks|written_blocks|shared_blocks_sent)": *[0-9]+' | tr -d '" \n'
    exec 3>&-
    cat <&4 >>"$out"
    exec 4<&-
    wait $! || echo "ended with $?: $(cat "$out")"
    rm "$dir/in" "$dir/ready"
}

conform allowed
if "$BUILD/mad_info" doctor 2>&1 | grep -q "cannot read another one's memory"; then
    echo "# the kernel forbids it on this host: nothing to count"
else
    check "counted: read" written_blocks:0read_blocks:1shared_blocks_sent:0 "$(counted INFO_BACK=1)"
    check "counted: written" written_blocks:1read_blocks:0shared_blocks_sent:0 "$(counted INFO_POSTED=1)"
    # The receiver measures which method is faster, so both are used.
    shared=$(counted INFO_WAITED=20 | sed 's/.*shared_blocks_sent:\([0-9]*\).*/\1/')
    if [ "$shared" -ge 5 ] && [ "$shared" -lt 20 ]; then
        ok "counted: shared"
    else
        not_ok "counted: shared ($shared)" "$(tail -15 "$out")"
    fi
fi
conform off env MAD_SHM_DIRECT=no
check "counted: off" written_blocks:0read_blocks:0shared_blocks_sent:0 "$(counted INFO_BACK=1 MAD_SHM_DIRECT=no)"
conform off-in-one sh -c '[ "$PMI_RANK" = 0 ] || export MAD_SHM_DIRECT=no; exec "$@"' sh
$refuse true
case $? in
0)
    # shellcheck disable=SC2086
    conform forbidden $refuse
    # shellcheck disable=SC2016,SC2086
    conform forbidden-to-one sh -c '[ "$PMI_RANK" = 1 ] || exec "$@"; shift 2; exec "$@"' sh $refuse
    ;;
*) echo "# no seccomp filters here: what the kernel forbids is not tested" ;;
esac

# The surviving process gets its error in time, whether it is the sender or the receiver; the test would report wrong
# bytes.
bad=0
for i in $(seq "${ROUNDS:-10}"); do
    test=overlap
    [ $((i % 4)) -lt 2 ] || test=pingpong # in this test both sides copy
    within 60 "$BUILD/madrun" --keep-going -n 2 sh -c '[ "$PMI_RANK" != "$1" ] || { sleep 0.$2; grep -q "$4" /proc/$$/cmdline && kill -9 $$; } &
        exec "$3" "$4" --driver shm --sizes 64M --batches 20' sh $((i % 2)) $((i % 9))7 "$BUILD/mad_perf" "$test" >"$out" 2>&1
    rc=$?
    [ $rc = 137 ] && ! grep -q "Sanitizer\|differ\|Assert" "$out" && continue
    bad=1
    break
done
if [ $bad = 0 ]; then ok "killed meanwhile"; else not_ok "killed meanwhile (exit status $rc)" "$(tail -15 "$out")"; fi
[ "$failures" = 0 ]
