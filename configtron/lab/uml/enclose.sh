#!/bin/sh
# SPDX-License-Identifier: MIT
# The walls around one guest. Runs as the first process of new mount and PID namespaces (unshare, called by enclosure.py):
#
#   enclose.sh uml   OUTPUT CPU LIMIT_S HIDDEN SEED PRELOAD KERNEL INIT ARGUMENT...
#   enclose.sh qemu  OUTPUT CPU LIMIT_S HIDDEN INIT PROGRAM ARGUMENT...     (CPU is not used: two processors are emulated)
#   enclose.sh netns OUTPUT CPU LIMIT_S HIDDEN NAME=VALUE... COMMAND...     (the command runs on the host's own kernel)
#
# HIDDEN is a folder that is empty for the guest, or "none"; OUTPUT may lie in it.
# The host's files are read-only from here on, whatever root inside may do; when this process dies the kernel ends all
# others in the namespace, so no guest outlives its owner. Everything the guest can see lies at the same path for every
# job: User-Mode Linux mixes its command line into the guest's random numbers, and the same seed must give the same bytes.
set -eu
kind=$1 output=$2 cpu=$3 limit_s=$4 hidden=$5
shift 5
place=/run/configtron

# The output folder and the job, at the paths the guest knows.
furnish() {
    umask 022
    # An ordinary user can make no folder in /run: a memory file system of this namespace covers it.
    mkdir -p $place 2>/dev/null || { mount -t tmpfs run /run && mkdir $place; }
    mount -t tmpfs configtron $place
    mkdir $place/output
    mount --bind "$output" $place/output
    cp "$output/job" $place/job
    test "$hidden" = none || mount -t tmpfs configtron "$hidden"
}

# Each mount of the host, /run/configtron apart, becomes read-only in this namespace: /proc and /sys too, since a guest's
# root can unmount its own and find the host's beneath. A mount that another one hides cannot be reached, by us or by the
# guest: passed over. (Devices still work: read-only is about names and files.)
lock_host() {
    findmnt --raw --noheadings --output TARGET | while IFS= read -r point; do
        point=$(printf %b "$point")
        case $point in
        $place | $place/*) ;;
        *) mount -o remount,bind,ro "$point" 2>/dev/null || test "$point" != / ;;
        esac
    done
}

# As many open files as the guest may have: each file open inside is one open outside.
set_limits() {
    ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"
    ulimit -c 0
    ulimit -s 8192
}

run_uml() {
    seed=$1 preload=$2 kernel=$3 init=$4
    shift 4
    cp "$kernel" $place/linux
    cp "$init" $place/init
    mkdir $place/scratch
    if [ "$preload" != none ]; then
        cp "$preload" $place/seeded_getrandom.so
        preload=LD_PRELOAD=$place/seeded_getrandom.so
    else
        preload=LD_PRELOAD=
    fi
    lock_host
    set_limits
    cd /
    # Without address randomisation, or the guest's memory size differs from run to run; with no variable of the caller's.
    # Not exec: the first process of a PID namespace ignores signals it has no handler for, and this kernel lives by signals.
    timeout --signal=KILL "$limit_s" taskset --cpu-list "$cpu" setarch x86_64 --addr-no-randomize \
        env --ignore-environment PATH=/usr/bin:/bin HOME=$place/scratch TMPDIR=$place/scratch \
        CONFIGTRON_SEED="$seed" "$preload" $place/linux "$@" </dev/null
}

# The emulator sees the host's files as they are here, read-only, and hands them on to its guest.
run_qemu() {
    cp "$1" $place/init
    shift
    mkdir $place/scratch
    lock_host
    set_limits
    cd /
    timeout --signal=KILL "$limit_s" \
        env --ignore-environment PATH=/usr/bin:/bin HOME=$place/scratch TMPDIR=$place/scratch "$@" </dev/null
}

# With the groups that the command made below it; fails while a process is in one.
remove_group() {
    find "$1" -depth -type d -exec rmdir {} \; 2>/dev/null
    test ! -d "$1"
}

# A cgroup of our own below the host's root cgroup: a sock_ops program attached there sees our sockets only.
# One left by a run that was killed is empty, and removed here; not a young one, which may be about to be entered.
run_netns() {
    mkdir $place/cgroup
    mount -t cgroup2 configtron $place/cgroup
    for left in $(find $place/cgroup -maxdepth 1 -name 'configtron-*' -mmin +1); do
        remove_group "$left" || true
    done
    group=$(mktemp -d $place/cgroup/configtron-XXXXXX)
    set_limits
    code=0
    sh -c 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"' - "$group" unshare --cgroup --mount \
        sh "$0" inside "$output" "$cpu" "$limit_s" "$hidden" "$@" || code=$?
    kill -KILL -1 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        remove_group "$group" && break
        sleep 0.05
    done
    echo "$code" >$place/output/exit
}

# The same tree as init.c makes: /run, cgroup2, bpf, loopback. Of the sysctls only those of our network namespace.
run_inside() {
    umount $place/cgroup
    mkdir $place/run
    mount -t tmpfs run $place/run
    (cd $place/run && mkdir netns lock cgroup bpf output tmp)
    mount --bind $place/output $place/run/output
    lock_host
    mount --rbind $place/run /run
    mount -t cgroup2 cgroup /run/cgroup
    mount -t bpf bpf /run/bpf
    mount -t tmpfs shm /dev/shm
    mount -t sysfs sys /sys
    mount -o remount,bind,rw /proc
    mount --bind /proc/sys /proc/sys
    mount --bind /proc/sys/net /proc/sys/net
    mount -o remount,bind,ro /proc/sys
    ip link set lo up
    cd /
    exec timeout --signal=KILL "$limit_s" taskset --cpu-list "$cpu" env --ignore-environment "$@" \
        </dev/null >/run/output/console.log 2>&1
}

case $kind in
uml) furnish; run_uml "$@" ;;
qemu) furnish; run_qemu "$@" ;;
netns) furnish; run_netns "$@" ;;
inside) run_inside "$@" ;;
esac
