#!/bin/busybox sh
# SPDX-License-Identifier: BSD-3-Clause
# The first process of a guest (guests.sh), in its initramfs: loads the modules, mounts the host's root file system
# read-only under a layer of memory, and goes on there with guest_start.sh.
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /proc /sys /dev /host /layer /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
    insmod "/modules/$module" || echo "guest: module $module cannot be loaded"
done </modules/order

# shared TAG FOLDER OPTION...: mounts a folder that the host shares
shared() {
    mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$3" "$1" "$2" || {
        echo "guest: the host's folder $1 cannot be mounted"
        poweroff -f
    }
}
shared root /host ro,cache=loose
mount -t tmpfs -o mode=755 layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work root /root

mkdir -p /root/lab /root/lib/modules
mount -t tmpfs -o mode=755 run /root/run
shared lab /root/lab cache=none
for special in proc sys dev; do mount --move /$special /root/$special; done
mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs -o mode=1777 shm /root/dev/shm
mount -t devpts devpts /root/dev/pts
exec chroot /root /bin/sh /lab/guest_start.sh
