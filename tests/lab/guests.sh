#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command in virtual machines with RDMA networks made by software: guests.sh [OPTION...] -- COMMAND [ARGUMENT...]
#
#   --guests N           the number of guests (2), which are called guest1, guest2, ...
#   --net KIND[:LIST]    a network, may be repeated; KIND: rxe (soft-RoCE), siw (soft-iWARP), or tcp (without RDMA);
#                        LIST: its guests, as 1,2; default: all.  Without this option there is one network, rxe.
#                        The k-th network is n<k>, 10.<k>.0.<guest>/24; its RDMA device is rxe_n<k> or siw_n<k>.
#   --on N               the guest in which the command runs (1)
#   --timeout SECONDS    the limit for all, from the start on (170)
#   --memory MB          of each guest (1024)
#   --mtu N              of the networks (4200: then rxe's packets have 4096 bytes)
#   --logs FOLDER        keep the consoles and logs of the guests there
#
# A guest has Debian's kernel under QEMU's emulation, and the host's files, read-only, with a layer of memory over them:
# programs of the host run unchanged.  '$LAB_AGENT guest2 COMMAND' runs a command in another guest on a common network, as ssh
# would; so it is a launch agent for madrun.  /lab is a folder that all guests share.  $LAB_GUEST: the number of the guest.
# $LAB_BEGAN: the time at which the guests began to boot, as date +%s prints it.
#
# Prints what the command prints when it has ended, and has its exit status; 124: the time was over; 125: a guest did not
# start, with the reason; 77: there can be no guests here, with the reason.  Emulated guests prove nothing about speed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

usage() {
    sed -n '3,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'
    exit 2
}
fail() {
    echo "guests.sh: $*" >&2
    exit 125
}
impossible() {
    echo "skipped: $*" >&2
    exit 77
}

guests=2 nets='' on=1 limit=170 memory=1024 mtu=4200 logs='' siw=''
while [ $# -gt 0 ]; do
    case $1 in
    --)
        shift
        break
        ;;
    --guests | --net | --on | --timeout | --memory | --mtu | --logs) [ $# -gt 1 ] || usage ;;
    *) usage ;;
    esac
    case $1 in
    --guests) guests=$2 ;;
    --net) nets="$nets $2" ;;
    --on) on=$2 ;;
    --timeout) limit=$2 ;;
    --memory) memory=$2 ;;
    --mtu) mtu=$2 ;;
    --logs) logs=$2 ;;
    esac
    shift 2
done
[ $# -gt 0 ] || usage
everybody=$(seq -s , 1 "$guests")
all_nets=
for net in ${nets:-rxe}; do
    case $net in
    rxe | siw | tcp) net=$net:$everybody ;;
    rxe:* | siw:* | tcp:*) ;;
    *) fail "network '$net' is not rxe, siw or tcp, with :1,2 or other guests behind it" ;;
    esac
    case $net in siw:*) siw=--siw ;; esac
    all_nets="$all_nets $net"
done

for tool in qemu-system-x86_64 rdma ip busybox chrt; do
    command -v $tool >/dev/null ||
        impossible "no $tool (Debian packages: qemu-system-x86, iproute2, busybox-static, util-linux)"
done
image=$(sh "$here/image.sh" $siw) || exit $?

work=$(mktemp -d) || exit 1
pids=
# clean: ends the guests, and removes what was made for them
clean() {
    [ -z "$pids" ] || kill $pids 2>/dev/null
    wait
    if [ -n "$logs" ]; then
        mkdir -p "$logs" && cp "$work"/console.* "$work"/lab/start.* "$work"/lab/kernel.* "$work"/lab/output "$logs" 2>/dev/null
    fi
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 143' INT TERM HUP

# ---- Files that the guests share ----
quoted() {
    for word; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done
}
mkdir "$work/lab" || exit 1
for file in guest_start.sh guest_agent.sh guest_serve.sh; do
    cp "$here/$file" "$work/lab/" && chmod +x "$work/lab/$file" || exit 1
done
cat >"$work/lab/settings" <<END
LAB_BEGAN=$(date +%s)
LAB_GUESTS=$guests
LAB_ON=$on
LAB_NETS='${all_nets# }'
LAB_MTU=$mtu
LAB_FOLDER=$(quoted "$PWD")
LAB_MODULES=$(quoted "$image/root/lib/modules/$(cat "$image/release")")
END
if [ $# -eq 1 ]; then printf '%s\n' "$1"; else quoted "$@"; fi >"$work/lab/command"

# ---- The guests ----
# The kernel takes several archives one behind the other: the modules, and the first process.
mkdir "$work/init" && cp "$here/guest_init.sh" "$work/init/init" && chmod +x "$work/init/init" || exit 1
{
    cat "$image/initramfs"
    (cd "$work/init" && echo init | busybox cpio -o -H newc 2>/dev/null)
} >"$work/initramfs"

# link NET GUEST MEMBERS: prints the option by which QEMU joins a guest to a network.  Pairs of datagram sockets lose
# nothing, and join two guests.  More of them share a group of the loopback interface, which loses packets when a guest is slow.
link() {
    case $3 in
    *,*,*) echo "socket,id=n$1,mcast=230.77.$(($$ / 250 % 250)).$(($$ % 250)):$((17000 + $1)),localaddr=127.0.0.1" ;;
    *)
        other=${3%,*}
        [ "$other" != "$2" ] || other=${3#*,}
        echo "dgram,id=n$1,local.type=unix,local.path=$work/$1.$2,remote.type=unix,remote.path=$work/$1.$other"
        ;;
    esac
}

# The emulated clock is the host's, but a kernel that measures it on a busy host finds a wrong frequency.
khz=$(awk -F: '/^cpu MHz/ { printf "%d", $2 * 1000; exit }' /proc/cpuinfo)
append="console=ttyS0 quiet panic=-1 mitigations=off audit=0 random.trust_cpu=1 tsc=reliable ${khz:+tsc_early_khz=$khz}"

# boot GUEST: starts the guest; $! is its process
boot() {
    guest=$1
    set -- -machine pc,i8042=off,vmport=off -accel tcg,thread=multi -cpu max,la57=off -smp 1 -m "$memory" \
        -nodefaults -display none -no-reboot -kernel "$image/vmlinux" -initrd "$work/initramfs" \
        -append "$append lab.guest=$guest" -serial "file:$work/console.$guest" \
        -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=root,mount_tag=root \
        -fsdev "local,id=lab,path=$work/lab,security_model=none" -device virtio-9p-pci,fsdev=lab,mount_tag=lab
    k=0
    for net in $all_nets; do
        k=$((k + 1)) members=${net#*:}
        case ,$members, in *,$guest,*) ;; *) continue ;; esac
        [ "$guests" -gt 1 ] || continue
        set -- "$@" -netdev "$(link $k "$guest" "$members")" -device \
            "virtio-net-pci,netdev=n$k,mac=$(printf '52:54:00:00:%02x:%02x' $k "$guest"),host_mtu=9000,romfile="
    done
    timeout -k 5 "$limit" qemu-system-x86_64 "$@" >"$work/qemu.$guest" 2>&1 </dev/null &
}
guest=0
while [ $guest -lt "$guests" ]; do
    guest=$((guest + 1))
    boot $guest
    pids="$pids $!"
    [ $guest != "$on" ] || main=$!
done
wait "$main"
status=$?

[ ! -f "$work/lab/output" ] || cat "$work/lab/output"
if [ -s "$work/lab/status" ]; then
    exit "$(cat "$work/lab/status")"
elif [ $status = 124 ] || [ $status = 137 ]; then
    for g in $(seq 1 "$guests"); do
        grep -qs '^ready' "$work/lab/start.$g" || { echo "guests.sh: guest$g did not start:"; tail -n 5 "$work/console.$g" "$work/lab/start.$g"; } >&2
    done
    echo "guests.sh: ended after $limit s" >&2
    exit 124
fi
tail -n 5 "$work/qemu.$on" "$work/console.$on" "$work/lab/start.$on" >&2
fail "guest$on has ended before the command"
