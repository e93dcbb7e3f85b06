# SPDX-License-Identifier: MIT
"""Network namespaces: standing in one, whether one may, and its number that is never given twice.

Source     setns(2), network_namespaces(7); ip-netns(8) for where names are kept.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configtron.model.errors import BadInput, Missing

# Where `ip netns` keeps its names.
NAMED = Path("/run/netns")
# linux/sched.h; asm-generic/socket.h: absent from Python's modules.
_CLONE_NEWNET, _SO_NETNS_COOKIE = 0x40000000, 71
# linux/capability.h
_CAP_NET_ADMIN = 12
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """This thread in a named network namespace; "" stays where it is. Sockets made inside stay there.

    Errors: `BadInput` where no namespace has that name, `Missing` without the right to enter it.
    """
    if not name:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(name)
        try:
            yield
        finally:
            _setns(home, "")
    finally:
        os.close(home)


def enter(name: str) -> None:
    """Move this thread into that namespace for good. Errors: as `inside`."""
    try:
        there = os.open(NAMED / name, os.O_RDONLY)
    except OSError as error:
        raise BadInput(f"network namespace {name!r}: {error.strerror}; `ip netns` lists those there are") from error
    try:
        _setns(there, name)
    finally:
        os.close(there)


def cookie(name: str) -> int:
    """The namespace's number, as BPF programs see it: unique until the next boot, unlike its inode."""
    with inside(name), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        return int.from_bytes(one.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8), sys.byteorder)


def is_absent(name: str) -> bool:
    """Whether a name is no namespace's."""
    return bool(name) and not (NAMED / name).exists()


def absent(name: str) -> str:
    """Why one cannot change that namespace's network, in one line; "" if one can."""
    if is_absent(name):
        there = ", ".join(sorted(path.name for path in NAMED.iterdir())) if NAMED.exists() else ""
        return f"no network namespace is called {name!r}; there is: {there or 'none'} (ip netns list)"
    return "" if holds(_CAP_NET_ADMIN) else "needs CAP_NET_ADMIN; run as root"


def holds(capability: int) -> bool:
    """Whether this thread has a capability (its number in linux/capability.h) in force."""
    status = Path("/proc/thread-self/status").read_text()
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> capability & 1)


def _setns(descriptor: int, name: str) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        number = ctypes.get_errno()
        if number == errno.EINVAL:
            raise BadInput(f"network namespace {name!r}: that file is none; `ip netns` lists those there are")
        raise Missing(f"entering a network namespace: {os.strerror(number)}; run as root")
