#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The protocols by which threads sleep and are woken, in every order of their steps (doc/locking.md): run.sh [MODEL...]
# A model has to be without an error and to come to an end; with each of the defects that it knows (#ifdef) an error has
# to be found.  TRAIL=1 prints the steps that lead to an error of a model without defect.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"
. "$here/../packages.sh"
install_packages spin gcc
for tool in spin gcc; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed and cannot be"; exit 77; }
done
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
cp "$here"/*.pml "$dir" && cd "$dir" || exit 1

# search MODEL "SPIN-OPTIONS" "GCC-OPTIONS" "PAN-OPTIONS": 0: all was seen and no error found, 1: an error, 2: neither
search() {
    # shellcheck disable=SC2086
    { spin $2 -a "$1.pml" && gcc -w -DMEMLIM=900 $3 -o pan pan.c && within 300 ./pan -m100000 -w20 $4; } >out 2>&1 ||
        return 2
    grep -q 'Search not completed' out && ! grep -q 'errors: [1-9]' out && return 2
    grep -q 'errors: 0' out && return 0
    grep -q 'errors: [1-9]' out && return 1
    return 2
}

# sound NAME MODEL "SPIN-OPTIONS": nothing is wrong, and (if the fourth word is not "errors") nothing goes round for ever
sound() {
    if search "$2" "$3" "-O1 -DSAFETY -DCOLLAPSE" "" &&
        { [ "$4" = errors ] || search "$2" "$3" "-O1 -DNP -DNOFAIR -DCOLLAPSE" -l; }; then
        ok "model $1"
    else
        [ -z "$TRAIL" ] || spin $3 -t -p "$2.pml" | grep -v hardware | tail -"$TRAIL"
        not_ok "model $1" "$(tail -40 out)"
    fi
}

# defects MODEL "SPIN-OPTIONS"...: each is found, with one of these options
defects() {
    model=$1
    shift
    for defect in $(sed -n 's/^#if[n]*def \([A-Z_]*\).*/\1/p' "$model.pml" | sort -u); do
        [ "$defect" != WAITERS ] || continue
        for options in "$@"; do
            search "$model" "$options -D$defect" "-O0 -DSAFETY" ""
            found=$?
            [ $found = 0 ] || break
        done
        if [ $found = 1 ]; then
            ok "model $model: $defect is found"
        else
            not_ok "model $model: $defect" "$(tail -20 out)"
        fi
    done
}

for model in ${*:-waiter leader async request}; do
    case $model in
    leader)
        sound "leader, two wait" leader -DWAITERS=2
        sound "leader, three wait" leader -DWAITERS=3 errors
        defects leader -DWAITERS=2 -DWAITERS=3
        ;;
    *)
        sound "$model" "$model" ""
        defects "$model" ""
        ;;
    esac
done
[ $failures = 0 ]
