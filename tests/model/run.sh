#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Models of protocols, in which every order of the steps is tried: run.sh [MODEL...]
#   doc/locking.md    how threads sleep and are woken
#   doc/gateways.md   how a stream takes another path; how two ends keep gateways out
#   doc/wire.md       how two processes prove their identity, also where frames are lost, repeated and reordered
# A model must have no error, and must end.  With each of its defects (#ifdef), an error must be found.  As many
# searches run at once as there are processors (4 at most).
#   LONG=1 for make soak: also searches larger models: the leader's, with three threads, and for endless loops; and that
#   of paths (two minutes, 700 MB).
#   TRAIL=N prints the last N steps to an error in a model without a defect
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness/checks.sh"

search_s=300
[ -z "$LONG" ] || search_s=1200
quick=tcc # compiles fast, and the result runs half as fast: most defects are found at once
command -v tcc >/dev/null || quick="gcc -O0"
# search MODEL "SPIN-OPTIONS" "COMPILER" "PAN-OPTIONS": 0: all states were seen and no error was found; 1: an error; 2:
# neither
search() {
    # shellcheck disable=SC2086
    { spin $2 -a "$1.pml" && $3 -w -DMEMLIM=900 -o pan pan.c && within $search_s ./pan -m100000 -w22 $4; } >out 2>&1 ||
        return 2
    grep -q 'Search not completed' out && ! grep -q 'errors: [1-9]' out && return 2
    grep -q 'errors: 0' out && return 0
    grep -q 'errors: [1-9]' out && return 1
    return 2
}

# good NAME "SPIN-OPTIONS" MODEL: reports whether the last search was complete and without error
good() {
    if [ $? = 0 ]; then
        ok "model $1"
    else
        [ -z "$TRAIL" ] || spin $2 -t -p "$3.pml" | grep -v hardware | tail -"$TRAIL"
        not_ok "model $1" "$(tail -40 out)"
    fi
}

# The tasks.  sound MODEL SPIN-OPTION...: the model has no error
sound() { model=$1; shift; search "$model" "$*" "gcc -O1 -DSAFETY${LONG:+ -DCOLLAPSE}" ""; good "$model${*:+ $*}" "$*" "$model"; }
ends() { model=$1; shift; search "$model" "$*" "gcc -O1 -DNP -DNOFAIR" -l; good "$model${*:+ $*}: comes to an end" "$*" "$model"; }
# defect MODEL DEFECT OPTION...: the defect is found, with one of the options
defect() {
    model=$1 name=$2
    shift 2
    [ $# -gt 0 ] || set -- ""
    for option; do
        search "$model" "$option -D$name" "$quick -DSAFETY" ""
        found=$?
        [ $found = 0 ] || break
    done
    if [ $found = 1 ]; then ok "model $model: $name is found"; else not_ok "model $model: $name" "$(tail -20 out)"; fi
}

# The longest first.
tasks() {
    for model; do
        case $model in
        leader)
            [ -z "$LONG" ] || echo ends leader -DWAITERS=2
            [ -z "$LONG" ] || echo sound leader -DWAITERS=3
            echo ends leader -DWAITERS=2 -DMESSAGES=2
            echo sound leader -DWAITERS=2
            ;;
        progress_thread)
            echo sound progress_thread -DLATER
            echo sound progress_thread -DLEFT
            echo sound progress_thread -DRETURNS
            echo sound progress_thread -DPOLLS
            echo sound progress_thread -DPOLLS -DHANDED
            echo ends progress_thread
            echo sound progress_thread
            ;;
        path)
            echo sound path
            [ -z "$LONG" ] || echo sound path -DPACKETS=1 -DFAILURES=2 # 9 million states, 700 MB
            echo ends path -DPACKETS=1
            ;;
        endtoend | eth | frames | rails) echo sound "$model" ;; # gateways, and repeated frames, may go on for ever; rails have too many states
        *)
            echo ends "$model"
            echo sound "$model"
            ;;
        esac
    done
    for model; do
        options=
        [ "$model" != leader ] || options="-DWAITERS=3 -DWAITERS=2" # most are found fast among three threads, these are not found:
        # shellcheck disable=SC2086
        for name in $(sed -n 's/^#if[n]*def \([A-Z_]*\).*/\1/p' "$here/$model.pml" | sort -u); do
            case $name in
            WAITERS | MESSAGES | LATER | LEFT | RETURNS | POLLS | HANDED | PACKETS | PIECES | FAILURES) ;;
            BELL_READ_BY_ALL | NO_MEMBARRIER) echo defect "$model" "$name" -DWAITERS=2 ;;
            LATER_*) echo defect "$model" "$name" -DLATER ;;
            POLLS_*) echo defect "$model" "$name" -DPOLLS ;;
            HANDED_*) echo defect "$model" "$name" "'-DPOLLS -DHANDED'" ;;
            RETURNS_*) echo defect "$model" "$name" -DRETURNS ;;
            LEFT_*) echo defect "$model" "$name" -DLEFT ;;
            *) echo defect "$model" "$name" $options ;;
            esac
        done
    done
}

if [ "$1" = task ]; then
    shift
    dir=$(mktemp -d "$MODEL_DIR/XXXXXX") && cp "$here"/*.pml "$dir" && cd "$dir" || exit 1
    text=$("$@"; exit $failures)
    failures=$?
    echo "$text" # printed as a whole, because other tasks print too
    rm -rf "$dir"
    [ $failures = 0 ]
    exit
fi

. "$here/../packages.sh"
install_packages spin gcc tcc
for tool in spin gcc; do
    command -v $tool >/dev/null || { echo "skipped: $tool is not installed and cannot be"; exit 77; }
done
MODEL_DIR=$(mktemp -d) || exit 1
export MODEL_DIR LONG TRAIL
trap 'rm -rf "$MODEL_DIR"' EXIT
trap 'exit 1' INT TERM HUP
jobs=$(nproc)
[ "$jobs" -le 4 ] || jobs=4
# All models, the longest first: every file but memory.pml, which others include.
# shellcheck disable=SC2046
[ $# -gt 0 ] || set -- leader path $(cd "$here" && ls ./*.pml | tr -d ./ | sed 's/pml$//' | grep -vx 'leader\|memory\|path')
tasks "$@" | xargs -P "$jobs" -L 1 sh "$here/run.sh" task
