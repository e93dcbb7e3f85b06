# SPDX-License-Identifier: MIT
"""Connections that are open already, given their client's profile by the module: found from outside, one by one.

Question   The module takes a socket by its descriptor and has no list of sockets. Which processes hold the open ones?
Method     The kernel's own list (/proc/net/tcp, tcp6) lists every established connection to a port that is listened to,
           its client and its inode; the descriptors of all processes (/proc/PID/fd) show which holds that inode, and
           pidfd_getfd(2) lends it. The profile is the longest prefix of the module's table, read once.
           Borrowed and given back: no process is stopped, and none sees it.
Left alone connections that this host opened; clients without a profile; connections that have their profile already
           (a new congestion control would only forget its state); a route's `congctl lock` and congestion controls
           made of BPF.
Fails as   served, but not moved: a connection that is not accepted yet, one that only a kernel thread or a process
           beyond our sight holds. Missing: no right to look into other processes (CAP_SYS_PTRACE).
Differs    from eBPF's iterator, which meets every socket in the kernel in one pass.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from configtron.linux import netns
from configtron.linux.proc import ESTABLISHED, LISTENING, TcpLine, borrowed, tcp_lines
from configtron.tune.drivers.kmod.abi import KEY_OF
from configtron.tune.drivers.kmod.device import PREFIX, Device

# Settings of a connection's beginning, which have no effect on an open one.
BEGINNINGS = frozenset(KEY_OF[knob] for knob in ("initcwnd", "data_rto"))
SLOW_START_AFTER_IDLE = Path("/proc/sys/net/ipv4/tcp_slow_start_after_idle")
# The module's errors for a connection that ended meanwhile, or that another program controls.
LEFT_ALONE = frozenset((errno.ENOTCONN, errno.EBADF, errno.ENOTSOCK, errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV))


def move(device: Device, place: str) -> tuple[int, int]:
    """Give every open connection of a namespace's clients its profile.

    Returns (connections that clients hold to us, those of them with a profile). Errors: `Missing`, the kernel's own.
    """
    served = clients(place)
    # one that is not accepted yet has no inode
    wanted = profiles(device, {line.inode: (line.family, line.client) for line in served if line.inode})
    # the namespace's values of settings that a profile lacks and that an older version of it may have had
    with netns.inside(place):
        idle = int(SLOW_START_AFTER_IDLE.read_text())
    control = device.options()[2]
    unset: dict[int, int | str] = {KEY_OF["tcp_congestion_control"]: control, KEY_OF[SLOW_START_AFTER_IDLE.name]: idle}
    settings = {number: unset | device.settings(number) for number in set(wanted.values())}
    moved = 0
    for inode, descriptor in borrowed(wanted.keys()):
        try:
            moved += _give(device, descriptor, wanted[inode], settings[wanted[inode]])
        finally:
            os.close(descriptor)
    return len(served), moved


def clients(place: str) -> list[TcpLine]:
    """Return the established connections to ports that are listened to."""
    found = tcp_lines(place)
    ports = {line.port for line in found if line.state == LISTENING}
    return [line for line in found if line.state == ESTABLISHED and line.port in ports]


def profiles(device: Device, sought: Mapping[int, tuple[int, bytes]]) -> dict[int, int]:
    """Return the profile of each client that has one, by the longest prefix that holds it, else the default."""
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


def _give(device: Device, descriptor: int, profile: int, settings: Mapping[int, int | str]) -> bool:
    """Return whether the connection now has the profile."""
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
