# SPDX-License-Identifier: MIT
"""The sock_ops program: its settings by server address, loaded, attached to the servers' group, read back."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.internet import bpf
from configtron.linux import libbpf

SOURCE = Path(__file__).with_name("sockops.bpf.c")
# The compiled program's name beside a world's file: a guest has no compiler's time to spare.
OBJECT = "sockops.o"
# Its only program's name, and where it is attached (enum bpf_attach_type).
PROGRAM, CGROUP_SOCK_OPS = "lab_sockops", 3
# Its resolution is one tick of the kernel's timers (linux/include/uapi/linux/time.h).
CLOCK_MONOTONIC_COARSE = 6
# struct setting of sockops.bpf.c: three unsigned words and a name of at most 15 letters.
SETTING = struct.Struct("=III16s")


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What one server address is to do."""

    address: str
    icw: int
    synack_rto_ms: int
    rwin_packets: int
    congestion_control: str


def ticks_per_second() -> int:
    """HZ of the running kernel: 100 in User-Mode Linux, often 250 or 1000 elsewhere."""
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE))


def value(setting: SocketSettings, hz: int) -> bytes:
    """Return the map's value; times in ticks of this kernel."""
    jiffies = setting.synack_rto_ms * hz // 1000
    return SETTING.pack(setting.icw, jiffies, setting.rwin_packets, setting.congestion_control.encode())


def load(built: Path, pins: Path, group: Path) -> None:
    """Load and pin the program with its maps, and attach it to the control group."""
    bpf.load(built, pins / "programs", pins / "maps")
    group.mkdir(parents=True, exist_ok=True)
    libbpf.attach_to_cgroup(pins / "programs" / PROGRAM, group, CGROUP_SOCK_OPS)


def fill(pins: Path, settings: Iterable[SocketSettings]) -> None:
    """Every setting into the map."""
    hz = ticks_per_second()
    bpf.fill(pins / "maps" / "settings", {bpf.key(setting.address): value(setting, hz) for setting in settings})


def refusals(pins: Path) -> int:
    """Return the number of settings that the kernel has refused so far."""
    (count,) = bpf.dump(pins / "maps" / "refusals").values()
    return int.from_bytes(count, "little")


def attached(group: Path) -> bool:
    """Return whether a sock_ops program sits on the control group."""
    return bool(libbpf.attached_to_cgroup(group, CGROUP_SOCK_OPS))
