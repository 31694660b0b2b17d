# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tests that need several hosts: Linux namespaces stand for hosts and containers.
#
#   lab_start "$0" "$@"      runs the script again inside namespaces of its own (and returns only there); exits with 77 if
#                            these are not permitted.  $LAB: a directory that all hosts see, the current one.
#   lab_host NAME NET=ADDRESS/PREFIX...     makes a host: own host name, processes, network, IPC, /tmp, /dev/shm
#   lab_attach NAME NET=ADDRESS/PREFIX...   gives a host the interfaces eth0, eth1, ... on the bridges NET, which are made
#                            when they are first named; lab_host calls this with its own arguments
#   lab_container NAME HOST net|no-net [DIRECTORY]   makes a container on that host: own name, processes, IPC, /tmp and
#                            /dev/shm; with the host's network or none.  /tmp/volume is DIRECTORY of the lab.
#   lab_in NAME COMMAND...   runs the command there
#   $LAB/agent NAME COMMAND...  does the same as madrun's --launch-agent
#   lab_cut NAME, lab_mend NAME   the network silently drops all packets of NAME's eth0; and carries them again
#
# The lab depends on one process: when it ends, even by kill -9, the kernel ends all processes of the lab, and the
# interfaces and mounts disappear with the last of them.  Nothing of the lab is visible outside.

# lab_missing: if there can be no lab here, prints the reason, and is true
lab_missing() {
    LAB_USER=
    [ "$(id -u)" -eq 0 ] || LAB_USER="-U -r"
    export LAB_USER
    # shellcheck disable=SC2086
    if ! reason=$(unshare $LAB_USER -m -u -i -n -p --fork --kill-child --mount-proc true 2>&1); then
        echo "skipped: namespaces are not permitted here: $reason"
    elif ! command -v ip >/dev/null; then
        echo "skipped: no ip command (Debian package iproute2)"
    else
        return 1
    fi
}

lab_start() {
    if [ -z "$LAB_INSIDE" ]; then
        lab_missing && exit 77
        # shellcheck disable=SC2086
        LAB_INSIDE=1 exec unshare $LAB_USER -m -u -i -n -p --fork --kill-child --mount-proc sh "$@"
    fi
    trap 'exit 143' TERM INT HUP
    LAB_KEEP="$BUILD $LAB_SOURCE"
    LAB=/tmp/testlab
    LAB_NAMES=
    export LAB LAB_KEEP
    hostname lab
    lab_private || { echo "skipped: no private /tmp here"; exit 77; }
    mkdir -p $LAB/pids
    cd $LAB || exit 1
    if ! ip link set lo up || ! ip link add lab-probe type bridge || ! ip link add lab-a type veth peer name lab-b; then
        echo "skipped: this kernel has no bridges or no veth"
        exit 77
    fi
    ip link del lab-a
    ip link del lab-probe
    printf '#!/bin/sh\nname=$1\nshift\nexec nsenter -t "$(cat %s/pids/$name)" -m -u -i -n -p -- "$@"\n' $LAB >$LAB/agent
    chmod +x $LAB/agent
}

# lab_private: makes a /dev/shm and /tmp of our own; files of the old /tmp that must be visible are bound into the new
# one (LAB_DIR: the lab, too)
lab_private() {
    mount -t tmpfs -o mode=1777 lab /dev/shm && mkdir /dev/shm/new && mount -t tmpfs -o mode=1777 lab /dev/shm/new || return 1
    for keep in $LAB_KEEP ${LAB_DIR:+/tmp/testlab}; do
        case $keep in
        /tmp/*) mkdir -p "/dev/shm/new/${keep#/tmp/}" && mount --bind "$keep" "/dev/shm/new/${keep#/tmp/}" || return 1 ;;
        esac
    done
    mkdir -p /dev/shm/new/testlab && mount --move /dev/shm/new /tmp && rmdir /dev/shm/new
}

# lab_init NAME FILE: the first process of a host or container; the commands that prepare the host follow.  Without
# --mount-proc, because the lab reads in its own /proc the number by which it knows this process.
lab_init='
    read -r pid rest </proc/self/stat
    . "$LAB_LIBRARY"
    mount -t proc proc /proc && hostname "$1" && LAB_DIR=1 lab_private || exit 1
    if [ -n "$2" ]; then mkdir -p /tmp/volume && mount --bind "$2" /tmp/volume || exit 1; fi
    ip link set lo up
    echo "$pid" >$LAB/pids/$1.new && mv $LAB/pids/$1.new $LAB/pids/$1
    sleep 1000000 & # the host exists until this process is ended
    while :; do wait; done
'

# lab_wait FILE: waits until FILE exists and is not empty (wait_for: tests/harness/checks.sh)
lab_wait() {
    wait_for test -s "$1" && return
    echo "lab: $1 did not appear" >&2
    return 1
}

lab_host() {
    name=$1
    shift
    LAB_LIBRARY=$LAB_SOURCE/tests/lab/lab.sh unshare -m -u -i -n -p --fork --kill-child sh -c "$lab_init" init "$name" "" &
    lab_wait "$LAB/pids/$name" || exit 1
    lab_attach "$name" "$@"
}

lab_attach() {
    name=$1
    shift
    pid=$(cat "$LAB/pids/$name")
    for net in "$@"; do
        bridge=${net%%=*}
        n=0
        while ip link show "$name.$n" >/dev/null 2>&1; do n=$((n + 1)); done
        ip link show "$bridge" >/dev/null 2>&1 || ip link add "$bridge" type bridge || exit 1
        ip link set "$bridge" up
        ip link add "$name.$n" type veth peer name eth$n netns "$pid" || exit 1
        ip link set "$name.$n" master "$bridge" up
        lab_in "$name" ip address add "${net#*=}" dev eth$n
        lab_in "$name" ip link set eth$n up
    done
}

lab_container() {
    parent=$(cat "$LAB/pids/$2")
    unshare=-n
    [ "$3" = net ] && unshare=
    # shellcheck disable=SC2086
    LAB_LIBRARY=$LAB_SOURCE/tests/lab/lab.sh nsenter -t "$parent" -u -i -n -p unshare -m -u -i -p $unshare --fork --kill-child \
        sh -c "$lab_init" init "$1" "$4" &
    lab_wait "$LAB/pids/$1" || exit 1
}

lab_in() {
    $LAB/agent "$@"
}

lab_cut() {
    ip link set "$1.0" nomaster
}

lab_mend() {
    ip link set "$1.0" master "$2"
}
