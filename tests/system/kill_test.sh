#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# kill -9 at random moments under load: the survivors get an error, and nothing else happens to them.
#   DRIVERS="a b"   only these drivers
#   ROUNDS=N rounds of each kind and driver (1; LONG=1: 50)     SEED=N   the same moments again
BUILD=$(cd "${BUILD:-build}" && pwd) || exit 1
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/harness/checks.sh"
dir=$(mktemp -d) || exit 1
chmod 700 "$dir"
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP
cd "$dir" || exit 1
mark=mark-${dir##*.} # distinguishes our processes from those of other runs
seed=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
rounds=${ROUNDS:-${LONG:+50}}
rounds=${rounds:-1}
echo "# SEED=$seed ROUNDS=$rounds"

# random N: sets $random to the next random number below N (minimal standard generator: small enough for every shell's
# integers)
random() {
    state=$(((state * 16807 + 11) % 2147483647))
    random=$((state % $1))
}
state=$((seed % 2147483646 + 1))

# environment DRIVER: prints the variables that select the driver; ofi-P is ofi over libfabric's provider P, ucx-T is ucx over UCX's
# transport T
environment() {
    case $1 in
    ofi-*) echo "MAD_DRIVERS=self,ofi MAD_PREFER=ofi MAD_OFI_PROVIDERS=${1#ofi-} MAD_MODULES=${MAD_MODULES-$BUILD/drivers/.libs}" ;;
    ucx-*) echo "MAD_DRIVERS=self,ucx MAD_PREFER=ucx UCX_TLS=${1#ucx-} MAD_MODULES=${MAD_MODULES-$BUILD/drivers/.libs}" ;;
    *) echo "MAD_PREFER=$1" ;;
    esac
}

# round DRIVER KIND: runs one round, and prints what went wrong
round() {
    random 2
    n=$((3 + random))
    random $n
    victim=$random
    random 60000 # usually within the start, the connecting, and the first part of the load
    us=$random
    mkdir -m 700 shm
    # shellcheck disable=SC2046
    env $(environment "$1") MAD_SHM_DIR=$dir/shm timeout -k 5 90 "$BUILD/madrun" --keep-going -n $n "$BUILD/tests/kill_load" "$2" $victim $us "$mark" \
        >out 2>err </dev/null
    code=$?
    good=$(grep -c 'good after' out)
    shm_left=$(ls shm | wc -l)
    # The killed process could not remove its socket: the next process there does.
    MAD_SHM_DIR=$dir/shm "$BUILD/tests/world" listen >/dev/null 2>&1
    left=$(ls shm | wc -l)
    rm -rf shm
    what="$1 $2, $n ranks, rank $victim killed after $us us:"
    if [ $code != 137 ] || [ "$good" != $((n - 1)) ]; then
        not_ok "$what exit code $code, $good good" "$(tail -20 out)" "$(tail -20 err)"
    elif [ "$shm_left" -gt 1 ] || [ "$left" != 0 ]; then
        not_ok "$what $shm_left sockets left, $left after the next session"
    else
        return 0
    fi
    return 1
}

# The driver ofi, if it was built.  (With libfabric's shm a killed process leaves a file in /dev/shm: not by default.)  Not ucx by
# default, since UCX 1.13 ends survivors by assertions of its own, in 2 to 5 of 100 rounds on a busy host: a peer has died
# while a connection to it was being made (madeleine-ucx(7)).
ofi=
[ -e "$BUILD/drivers/.libs/ofi.so" ] && ofi=ofi-tcp
memory() { find /dev/shm -newer "$dir" -user "$(id -u)" -name '*mad*' | wc -l; }
for driver in ${DRIVERS:-shm tcp $ofi}; do
    for kind in small big many mixed; do
        bad=0
        for _ in $(seq "$rounds"); do
            round $driver $kind || bad=1
        done
        [ $bad = 1 ] || ok "kill -9: $driver $kind"
    done
done
# Ranks that cannot see each other's processes notice a death by silence.
if [ "$ofi" ] && unshare -p -f true 2>/dev/null; then
    # shellcheck disable=SC2046
    env $(environment "$ofi") MAD_PEER_TIMEOUT=2000 timeout -k 5 90 "$BUILD/madrun" --keep-going -n 3 unshare -p -f --kill-child \
        sh -c '"$@"; exit $?' sh "$BUILD/tests/kill_load" mixed 1 1500000 "$mark" >out 2>err </dev/null
    check "kill -9: $ofi between namespaces of processes" "137 2" "$? $(grep -c 'good after' out)"
fi
check_none "no processes are left" "$mark"
check "no memory is left" 0 "$(memory)"
[ $failures = 0 ] || echo "# again with SEED=$seed"
[ $failures = 0 ]
