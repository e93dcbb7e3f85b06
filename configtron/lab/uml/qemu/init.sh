#!/bin/sh
# SPDX-License-Identifier: MIT
# The first process of a guest that runs Debian's kernel, which has as modules what its root needs: the host's files.
# Loads them, mounts the root and hands over to the lab's own first process (uml/init.c). Lives in a memory disk that
# qemu.py puts together from this file, busybox and the modules, which lie in / in the order of their numbers.
for module in /*.ko; do
    busybox insmod "$module" || echo "guest: $module did not load"
done
busybox mount -t devtmpfs dev /dev
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /root || busybox poweroff -f
exec busybox switch_root /root /run/configtron/init
