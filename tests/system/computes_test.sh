#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Incoming connections are served while the program computes: BUILD=<build folder> computes_test.sh.  Rank 0 makes no
# call until rank 1 has sent its first message (also through a gateway), and mad_info has queried rank 0.
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-$(cd "$here/../.." && pwd)/build}
. "$here/../harness/checks.sh"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 1
mkfifo go
MAD_CONNECT_TIMEOUT=5000
MADRUN=$BUILD/madrun
export BUILD MADRUN MAD_CONNECT_TIMEOUT

sent() { grep -q '^\[1\] sent' out || ! kill -0 $job 2>/dev/null; }

# begin NAME COMMAND...: starts the command, which ends with the program, and waits until rank 1 has sent
begin() {
    name=$1
    shift
    : >out
    within $limit "$@" "$BUILD/tests/computes" "$dir/go" >out 2>err </dev/null &
    job=$!
    wait_for sent
    check_has "$name: the first message to a process that computes" "[1] sent: MAD_OK" out err
}
go() {
    grep -qF 'sent: MAD_OK' out && echo >go
    wait $job
    check "$name: it came" "0 1" "$? $(grep -cF '[0] received 3: MAD_OK' out)"
}

for drivers in self,shm self,tcp self,shm,tcp; do
    begin $drivers env MAD_DRIVERS=$drivers "$MADRUN" --label -n 2
    within 20 "$BUILD/mad_info" stats "$(sed -n 's/^\[0\] process //p' out)" >told 2>&1
    check "$drivers: mad_info asks it" 0 $?
    go
done

topology=$here/../../examples/topology/two_clusters.conf
cat >job <<'END'
#!/bin/sh
exec "$MADRUN" --label -n 2 --topology "$MADLAB_TOPOLOGY" --hosts red0,blue0 --launch-agent "$MADLAB_AGENT" "$@"
END
chmod +x job
if within 30 "$BUILD/madlab" run "$topology" --quiet -- true >told 2>&1; then
    begin gateway "$BUILD/madlab" run "$topology" --quiet --share "$dir" --share "$here/../.." --share "$BUILD" -- "$dir/job"
    go
else
    echo "ok gateway # skip: no lab here: $(tail -1 told)"
fi
[ $failures = 0 ]
