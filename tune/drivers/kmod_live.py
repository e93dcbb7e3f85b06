# SPDX-License-Identifier: MIT
"""Connections that are open already, given their client's profile by the module: found from outside, one by one.

Question   The module takes a socket by its descriptor and has no list of sockets. Whose are the open ones, and where?
Method     The kernel's own list (/proc/net/tcp, tcp6) tells every established connection to a port that is listened to,
           its client and its inode; the descriptors of all processes (/proc/PID/fd) tell who holds that inode, and
           pidfd_getfd(2) lends it. The profile is the longest prefix of the module's table, read once.
           Borrowed and given back: no process is stopped, and none sees it.
Left alone what this host opened itself; clients without a profile; what is right already (its congestion control would
           only forget what it has learned); a route's `congctl lock` and congestion controls made of BPF.
Fails as   served, but not moved: a connection that nobody has accepted yet, one that only a kernel thread or a process
           beyond our sight holds. Missing: no right to look into other processes (CAP_SYS_PTRACE).
Differs    from eBPF's iterator, which meets every socket in the kernel in one pass.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from configtron.linux import netns
from configtron.model.errors import Missing
from configtron.tune.drivers.kmod_abi import KEY_OF
from configtron.tune.drivers.kmod_device import PREFIX, Device

# include/net/tcp_states.h
ESTABLISHED, LISTENING = 1, 10
# unistd.h: the same on every architecture; absent from Python's os.
_PIDFD_GETFD = 438
# What a profile says of a connection's beginning says nothing of one that has begun.
BEGINNINGS = frozenset(KEY_OF[knob] for knob in ("initcwnd", "data_rto"))
SLOW_START_AFTER_IDLE = Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle")
MAPPED = bytes(10) + b"\xff\xff"
# What the module answers for a connection that ended meanwhile, or that somebody else's word holds.
LEFT_ALONE = frozenset((errno.ENOTCONN, errno.EBADF, errno.ENOTSOCK, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV))
# linux/capability.h
CAP_SYS_PTRACE = 19

_libc = ctypes.CDLL(None, use_errno=True)


class Line(NamedTuple):
    """A socket as /proc/net/tcp has it: its client's family and address (network order), the local port, the inode,
    and the local address (network order)."""

    state: int
    family: int
    client: bytes
    port: int
    inode: int
    local: bytes = b""


def move(device: Device, place: str) -> tuple[int, int]:
    """Give every open connection of a namespace's clients its profile.

    Returns (connections that clients hold to us, those of them with a profile). Errors: `Missing`, the kernel's own.
    """
    served = clients(place)
    # one that nobody has accepted yet has no inode
    wanted = profiles(device, {line.inode: (line.family, line.client) for line in served if line.inode})
    unset = _unset(device, place)
    settings = {number: unset | device.settings(number) for number in set(wanted.values())}
    moved = 0
    for inode, descriptor in borrowed(wanted.keys()):
        try:
            moved += _give(device, descriptor, wanted[inode], settings[wanted[inode]])
        finally:
            os.close(descriptor)
    return len(served), moved


def _unset(device: Device, place: str) -> dict[int, int | str]:
    """What holds of a connection whose profile does not say, where an older version of the profile may have said."""
    with netns.inside(place):
        idle = int(SLOW_START_AFTER_IDLE.read_text())
    return {KEY_OF["tcp_congestion_control"]: device.options()[2], KEY_OF[SLOW_START_AFTER_IDLE.name]: idle}


def clients(place: str) -> list[Line]:
    """Established connections to ports that are listened to."""
    with netns.inside(place):
        found = [*lines("tcp", socket.AF_INET), *lines("tcp6", socket.AF_INET6)]
    ports = {line.port for line in found if line.state == LISTENING}
    return [line for line in found if line.state == ESTABLISHED and line.port in ports]


def lines(table: str, family: int) -> Iterator[Line]:
    """The sockets of the namespace that we are in, as /proc/net/tcp or tcp6 lists them."""
    with suppress(FileNotFoundError), open(f"/proc/thread-self/net/{table}", encoding="ascii") as told:  # no IPv6
        next(told)
        for line in told:
            _, local, remote, state, *_, inode = line.split(maxsplit=10)[:10]
            port = int(local.rpartition(":")[2], 16)
            yield Line(int(state, 16), *_client(family, remote), port, int(inode), _client(family, local)[1])


def _client(family: int, told: str) -> tuple[int, bytes]:
    """An address as the table spells it: words of 32 bits, each as a number of this machine's."""
    digits = told.partition(":")[0]
    address = b"".join(struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8))
    return (socket.AF_INET, address[12:]) if address.startswith(MAPPED) else (family, address)


def profiles(device: Device, sought: Mapping[int, tuple[int, bytes]]) -> dict[int, int]:
    """Whose client has a profile -> which, by the longest prefix that holds the client, else the default."""
    table, unmatched = device.dump(), device.options()[1]
    lengths: dict[int, set[int]] = {}
    for prefix in table:
        lengths.setdefault(prefix[0], set()).add(prefix[1])
    order = {family: sorted(found, reverse=True) for family, found in lengths.items()}
    held = ((key, _longest(table, order.get(family, ()), family, client)) for key, (family, client) in sought.items())
    return {key: found or unmatched for key, found in held if found or unmatched}


def _longest(table: Mapping[bytes, int], lengths: Collection[int], family: int, client: bytes) -> int:
    bits = 8 * len(client)
    whole = int.from_bytes(client, "big")
    for length in lengths:
        masked = (whole >> (bits - length) << (bits - length)).to_bytes(len(client), "big")
        if found := table.get(PREFIX.pack(family, length, 0, 0, masked)):
            return found
    return 0


def borrowed(inodes: Collection[int]) -> Iterator[tuple[int, int]]:
    """(inode, a descriptor of ours for it) of each socket that some process holds; the caller closes it.

    Errors: `Missing`.
    """
    if not netns.holds(CAP_SYS_PTRACE):
        raise Missing("open connections are reached through their processes: needs CAP_SYS_PTRACE; run as root")
    left = {f"socket:[{inode}]": inode for inode in inodes}
    for name in os.listdir("/proc"):
        if not left:
            return
        if name.isdecimal():
            # it ended meanwhile, or a security module keeps it to itself
            with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
                yield from _borrowed_of(int(name), left)


def _borrowed_of(pid: int, left: dict[str, int]) -> Iterator[tuple[int, int]]:
    owner = os.pidfd_open(pid)
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):  # closed meanwhile
                word = os.readlink(f"/proc/{pid}/fd/{number}")
                if word in left and (descriptor := _lent(owner, int(number), left[word])) >= 0:
                    yield left.pop(word), descriptor
    finally:
        os.close(owner)


def _lent(owner: int, number: int, inode: int) -> int:
    """A descriptor of another process for us, or -1 if it is not to be had or no longer that socket's."""
    descriptor = int(_libc.syscall(_PIDFD_GETFD, owner, number, 0))
    if descriptor >= 0 and os.fstat(descriptor).st_ino != inode:
        os.close(descriptor)
        return -1
    return descriptor


def _give(device: Device, descriptor: int, profile: int, settings: Mapping[int, int | str]) -> bool:
    """Whether the connection now has the profile."""
    try:
        held, found = device.of_socket(descriptor)
        lasting = {key: value for key, value in settings.items() if key not in BEGINNINGS}
        if held != profile or any(found.get(key) != value for key, value in lasting.items()):
            device.assign(descriptor, profile)
    except OSError as error:
        if error.errno not in LEFT_ALONE:
            raise
        return False
    return True
