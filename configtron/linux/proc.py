# SPDX-License-Identifier: MIT
"""/proc: TCP sockets of a namespace, which processes hold them, and a process's socket borrowed.

Source     proc(5), pidfd_getfd(2); linux/net/ipv4/tcp_ipv4.c (get_tcp4_sock), include/net/tcp_states.h
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from configtron.linux import netns
from configtron.model.errors import Missing

# include/net/tcp_states.h
ESTABLISHED, LISTENING = 1, 10
# unistd.h: the same on every architecture; absent from Python's os.
_PIDFD_GETFD = 438
# linux/capability.h
CAP_SYS_PTRACE = 19
# The first bytes of an IPv4 address within IPv6 (RFC 4291 section 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"
_libc = ctypes.CDLL(None, use_errno=True)


class TcpLine(NamedTuple):
    """A line of /proc/net/tcp: state, the client's family and packed address, local port, inode, local address, and the
    client's port."""

    state: int
    family: int
    client: bytes
    port: int
    inode: int
    local: bytes = b""
    client_port: int = 0


def tcp_lines(place: str = "") -> list[TcpLine]:
    """Return the IPv4 and IPv6 sockets of a network namespace ("": the one that this thread is in)."""
    with netns.inside(place):
        return [*_lines("tcp", socket.AF_INET), *_lines("tcp6", socket.AF_INET6)]


def _lines(table: str, family: int) -> Iterator[TcpLine]:
    with suppress(FileNotFoundError), open(f"/proc/thread-self/net/{table}", encoding="ascii") as listed:  # no IPv6
        next(listed)
        for line in listed:
            _, local, remote, state, *_, inode = line.split(maxsplit=10)[:10]
            port, far = (int(end.rpartition(":")[2], 16) for end in (local, remote))
            client, ours = _client(family, remote), _client(family, local)[1]
            yield TcpLine(int(state, 16), *client, port, int(inode), ours, far)


def _client(family: int, text: str) -> tuple[int, bytes]:
    """Parse an address of the table: words of 32 bits, each a number in this machine's byte order."""
    digits = text.partition(":")[0]
    address = b"".join(struct.pack("=I", int(digits[at : at + 8], 16)) for at in range(0, len(digits), 8))
    return (socket.AF_INET, address[12:]) if address.startswith(_MAPPED) else (family, address)


class PortHolder(NamedTuple):
    """A process that listens: its program, user, group, further groups."""

    pid: int
    program: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def port_holders(ports: Collection[int]) -> list[PortHolder]:
    """Return the processes that listen on these TCP ports of this namespace; those that may not be seen are left
    out."""
    inodes = {one.inode for one in tcp_lines() if one.state == LISTENING and one.port in ports}
    found = []
    for pid in _holding(inodes):
        with suppress(OSError):
            found.append(_holder(pid))
    return found


def path_holder(path: Path) -> str:
    """Return the process that has a UNIX socket of this path, by its unit or its command line; "" if it may not be
    seen."""
    with suppress(OSError):
        lines = [line.split(maxsplit=7) for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()]
        for pid in _holding({int(line[6]) for line in lines if line[7:] == [str(path)]}):
            unit = re.search(r"^0::/system\.slice/.*?([^/]+\.service)$", Path(f"/proc/{pid}/cgroup").read_text(), re.M)
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
            return f"{unit[1]} (process {pid})" if unit else f"process {pid} ({words.strip()})"
    return ""


def _holding(inodes: Collection[int]) -> Iterator[int]:
    """Yield the processes that hold one of these sockets."""
    for name in filter(str.isdecimal, os.listdir("/proc") if inodes else ()):
        # It ended meanwhile, or belongs to another user.
        with suppress(OSError):
            if any(inode in inodes for _, inode in _sockets_of(int(name))):
                yield int(name)


def _holder(pid: int) -> PortHolder:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    fields = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    groups = tuple(map(int, fields["Groups"]))
    return PortHolder(pid, " ".join(fields["Name"]), int(fields["Uid"][1]), int(fields["Gid"][1]), groups)


def sockets_of_cgroup(folder: Path) -> set[int]:
    """Return the inodes of all sockets that processes of this control group, or of one below it, hold."""
    found = set[int]()
    for members in folder.rglob("cgroup.procs"):
        # A group or a process may end meanwhile.
        with suppress(OSError):
            for pid in members.read_text().split():
                with suppress(OSError):
                    found |= {inode for _, inode in _sockets_of(int(pid))}
    return found


def borrowed(inodes: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield (inode, a descriptor of ours for it) of each socket that some process holds; the caller closes it.

    Errors: `Missing` without CAP_SYS_PTRACE.
    """
    if not netns.holds(CAP_SYS_PTRACE):
        raise Missing("open connections are reached through their processes: needs CAP_SYS_PTRACE; run as root")
    left = set(inodes)
    for name in os.listdir("/proc"):
        if not left:
            return
        if name.isdecimal():
            # It ended meanwhile, or a security module denies access to it.
            with suppress(ProcessLookupError, FileNotFoundError, PermissionError):
                yield from _borrowed_of(int(name), left)


def _borrowed_of(pid: int, left: set[int]) -> Iterator[tuple[int, int]]:
    owner = os.pidfd_open(pid)
    try:
        for number, inode in _sockets_of(pid):
            if inode in left and (descriptor := _duplicate(owner, number, inode)) >= 0:
                left.remove(inode)
                yield inode, descriptor
    finally:
        os.close(owner)


def _sockets_of(pid: int) -> Iterator[tuple[int, int]]:
    """Yield (descriptor, inode) of each socket that a process holds."""
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            kind, _, rest = os.readlink(f"/proc/{pid}/fd/{number}").partition(":[")
            if kind == "socket":
                yield int(number), int(rest[:-1])


def _duplicate(owner: int, number: int, inode: int) -> int:
    """Return a descriptor of ours for another process's; -1 if it is refused or no longer that socket's."""
    descriptor = int(_libc.syscall(_PIDFD_GETFD, owner, number, 0))
    if descriptor >= 0 and os.fstat(descriptor).st_ino != inode:
        os.close(descriptor)
        return -1
    return descriptor
