#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Collective operations of 1 to 9 processes over shared memory and TCP, on several hosts, and through gateways.  BUILD: the
# folder with the built programs.     SEED=N   of the random operations
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
here=$(cd "$(dirname "$0")/../.." && pwd)
. "$here/tests/harness/checks.sh"
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
seed=${SEED:-$(($(date +%s) % 10000))}
echo "# seed $seed"
export MAD_COSTS=none

# host N COMMAND...: runs as a process of one of N hosts, between which there is TCP only
cat >"$dir/host" <<'END'
#!/bin/sh
host=$((PMI_RANK * $1 / PMI_SIZE))
shift
mkdir -p "${0%/*}/host$host"
MAD_SHM_DIR=${0%/*}/host$host exec "$@"
END
chmod +x "$dir/host"

# passes NAME N COMMAND...: runs N processes
passes() {
    name=$1 n=$2
    shift 2
    within 120 "$BUILD/madrun" -n "$n" "$@" >"$dir/out" 2>&1
    rc=$?
    if [ $rc = 0 ]; then ok "$name"; else not_ok "$name (exit status $rc, seed $seed)" "$(head -20 "$dir/out")"; fi
}
coll=$BUILD/tests/coll_each

for n in 1 2 3 5 8; do
    passes "each, $n processes" $n "$coll" each
done
for n in 2 4 7 9; do
    passes "random, $n processes" $n "$coll" random $((seed + n))
done
for driver in shm tcp; do
    passes "threads, $driver" 3 --env MAD_DRIVERS=self,$driver "$coll" threads
done
for n in 2 5; do
    passes "each over TCP, $n processes" $n --env MAD_DRIVERS=self,tcp "$coll" each
    passes "random over TCP, $n processes" $n --env MAD_DRIVERS=self,tcp "$coll" random "$seed"
done
passes "each, 2 hosts" 5 "$dir/host" 2 "$coll" each
passes "random, 2 hosts" 6 "$dir/host" 2 "$coll" random "$seed"
passes "random, 3 hosts" 7 "$dir/host" 3 "$coll" random "$seed"
for form in tree pipeline doubling ring spread linear; do
    all=
    for kind in barrier broadcast reduce allreduce reduce_scatter gather scatter allgather allgather_v; do
        all=$all,$kind=$form
    done
    passes "each, $form" 5 --env MAD_COLL="${all#,}" "$coll" each
    passes "random, $form, 2 hosts" 6 --env MAD_COLL="${all#,}" "$dir/host" 2 "$coll" random "$seed"
done
for driver in shm tcp; do
    passes "exit, $driver" 3 --env MAD_DRIVERS=self,$driver "$coll" exit
    passes "differ, $driver" 4 --env MAD_DRIVERS=self,$driver "$coll" differ
done
# One process is killed: all others get an error, and nothing else happens to them.
for n in 2 3 5; do
    for driver in shm tcp; do
        within 120 "$BUILD/madrun" --keep-going -n $n --env MAD_DRIVERS=self,$driver "$coll" killed $((seed + n)) >"$dir/out" 2>&1
        check "killed, $driver, $n processes: exit code" 137 $?
        check_lines "killed, $driver, $n processes: the others" $((n - 1)) 'killed: 0 failures' "$dir/out"
    done
done
[ $failures = 0 ]
