#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a guest (guests.sh) does when the host's files are there: its networks with their RDMA devices, the server for
# guest_agent.sh, and in one of the guests the command.  /lab is the folder that all guests and the host share.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
HOME=/root
export PATH HOME
read -r line </proc/cmdline
for word in $line; do
    case $word in lab.guest=*) LAB_GUEST=${word#*=} ;; esac
done
. /lab/settings # LAB_BEGAN, LAB_GUESTS, LAB_NETS, LAB_MTU, LAB_FOLDER, LAB_ON, LAB_MODULES
LAB_AGENT=/lab/guest_agent.sh
export LAB_BEGAN LAB_GUEST LAB_AGENT
exec >"/lab/start.$LAB_GUEST" 2>&1 </dev/null
hostname "guest$LAB_GUEST"
ulimit -l unlimited
mkdir -p "/lib/modules/$(uname -r)" && mount --bind "$LAB_MODULES" "/lib/modules/$(uname -r)"

# stage WORDS: logs how far the guest is
stage() {
    read -r up rest </proc/uptime
    echo "$* after $up s"
}
stage "the host's files are there"

# rxe works in softirqs: without this its thread waits behind a process that polls.
for task in /proc/[0-9]*; do
    read -r name <"$task/comm"
    case $name in ksoftirqd/*) chrt -f -p 10 "${task#/proc/}" ;; esac
done 2>/dev/null

# member GUEST MEMBERS: true if the guest is one of them
member() {
    case ,$2, in *,$1,*) return 0 ;; esac
    return 1
}

ip link set lo up
echo "127.0.0.1 localhost" >/run/hosts
k=0
for net in $LAB_NETS; do
    k=$((k + 1)) kind=${net%%:*} members=${net#*:}
    member "$LAB_GUEST" "$members" || continue
    for other in $(echo "$members" | tr , ' '); do
        grep -q " guest$other\$" /run/hosts || echo "10.$k.0.$other guest$other" >>/run/hosts
    done
    if [ "$LAB_GUESTS" = 1 ]; then
        modprobe dummy numdummies=0
        ip link add n$k type dummy
    else
        for file in /sys/class/net/*/address; do
            read -r mac <"$file"
            [ "$mac" = "$(printf '52:54:00:00:%02x:%02x' $k "$LAB_GUEST")" ] || continue
            name=${file%/address}
            ip link set "${name##*/}" name n$k
        done
    fi
    ip link set n$k mtu "$LAB_MTU"
    echo 0 >/proc/sys/net/ipv6/conf/n$k/accept_dad # the address of IPv6 is needed at once, and nobody else has it
    ip address add "10.$k.0.$LAB_GUEST/24" dev n$k
    ip link set n$k up
    case $kind in rxe | siw) rdma link add "${kind}_n$k" type "$kind" netdev n$k ;; esac
done
cp /run/hosts /etc/hosts
stage "networks are there"

busybox nc -ll -p 7000 -e /lab/guest_serve.sh &
stage ready
if [ "$LAB_GUEST" != "$LAB_ON" ]; then
    while :; do sleep 1000; done # guests.sh ends it
fi
i=1
while [ $i -le "$LAB_GUESTS" ]; do
    until grep -qs '^ready' /lab/start.$i; do sleep 0.1; done
    i=$((i + 1))
done
cd "$LAB_FOLDER" || cd /
sh /lab/command >/lab/output 2>&1
status=$?
dmesg >"/lab/kernel.$LAB_GUEST"
echo $status >/lab/status
sync
echo o >/proc/sysrq-trigger
sleep 1000
