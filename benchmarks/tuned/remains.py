# SPDX-License-Identifier: MIT
"""What stands in the kernel that a driver could leave behind: all of it, as text, to be compared before and after.

Rules for this file: it asks the kernel, never a driver; what it cannot read it says so. A snapshot taken twice around
work that leaves nothing is the same twice, else it could prove nothing; the demonstration checks that first.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# <linux/bpf.h>, enum bpf_cmd; the number of bpf(2) on x86-64.
BPF_NEXT_ID = {"programs": 11, "maps": 12, "links": 31}
SYS_BPF = 321
ASKED = {
    "routes": ("ip", "-4", "route", "show", "table", "all"),
    "routes of IPv6": ("ip", "-6", "route", "show", "table", "all"),
    "rules": ("ip", "-4", "rule"),
    "rules of IPv6": ("ip", "-6", "rule"),
    "queues": ("tc", "qdisc", "show"),
}
_libc = ctypes.CDLL(None, use_errno=True)

Snapshot = dict[str, list[str]]


def snapshot() -> Snapshot:
    """Every kind of trace, sorted."""
    found = {name: subprocess.check_output(words, text=True).splitlines() for name, words in ASKED.items()}
    found |= {f"BPF {kind}": [str(number) for number in _numbers(command)] for kind, command in BPF_NEXT_ID.items()}
    found["mounts"] = Path("/proc/mounts").read_text().splitlines()
    found["pins"] = [str(path) for mount in _mounts("bpf") for path in mount.rglob("*")]
    found["groups"] = [str(path) for mount in _mounts("cgroup2") for path in mount.rglob("*") if path.is_dir()]
    found["modules"] = [line.split()[0] for line in _text(Path("/proc/modules")).splitlines()]
    found["devices"] = [name for name in os.listdir("/dev") if name.startswith("configtron")]
    found["sysctls"] = [f"{path} = {_text(path)}" for path in Path("/proc/sys/net").rglob("*") if path.is_file()]
    found["processes"] = list(_processes())
    return {name: sorted(lines) for name, lines in found.items()}


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """What came and what went."""
    lines = []
    for name in before:
        here, there = set(before[name]), set(after[name])
        lines += [f"{name}: left behind: {line}" for line in sorted(there - here)]
        lines += [f"{name}: gone: {line}" for line in sorted(here - there)]
    return lines


def _numbers(command: int) -> Iterator[int]:
    """The numbers of all BPF objects of a kind (union bpf_attr: start_id, next_id)."""
    attributes = (ctypes.c_uint32 * 8)()
    while _libc.syscall(SYS_BPF, command, attributes, ctypes.sizeof(attributes)) == 0:
        yield attributes[1]
        attributes[0] = attributes[1]


def _mounts(kind: str) -> list[Path]:
    rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(row[1]) for row in rows if row[2] == kind]


def _text(path: Path) -> str:
    try:
        return " ".join(path.read_text().split())
    except OSError as error:
        # Some are for writing only, or belong to hardware that is not there.
        return f"({error.strerror})"


def _processes() -> Iterator[str]:
    """Names of programs that run; kernel threads have no command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if line:
            yield line
