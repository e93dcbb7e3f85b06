# SPDX-License-Identifier: MIT
"""Namespaces for a program that changes the host's network: what it pins, mounts and sets is its own, and ends with it.

The BPF file system is taken away there, so that the driver `ebpf` mounts another: pins of a configtron that works on
this host are neither seen nor touched. Process numbers begin anew, and all processes end with the first.
"""

from __future__ import annotations

from collections.abc import Sequence

_WALLS = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
# The shell stays, as process number 1: it takes in what the program's children leave behind.
_ENTER = 'umount -q /sys/fs/bpf; "$@"; exit $?'
_PINS = ("unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t bpf none /sys/fs/bpf; exec "$@"', "sh")


def apart(words: Sequence[str]) -> list[str]:
    """The command that runs another one there. It needs root."""
    return [*_WALLS, "sh", "-c", _ENTER, "sh", *words]


def with_own_pins(words: Sequence[str]) -> list[str]:
    """The command that runs another one with nothing but a BPF file system of its own."""
    return [*_PINS, *words]
