"""The sock_ops program: compile once, load, fill its map by address, attach to the servers' group, read back."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from configtron.errors import Missing
from configtron.lab.kernel import cache_folder

SOURCE = Path(__file__).with_name("sockops.bpf.c")
# The compiled program's name beside a world's file: a guest has no compiler's time to spare.
OBJECT = "sockops.o"
# Its resolution is one tick of the kernel's timers (linux/include/uapi/linux/time.h).
CLOCK_MONOTONIC_COARSE = 6
# struct setting of sockops.bpf.c: three unsigned words and a name of at most 15 letters.
SETTING = struct.Struct("=III16s")


@dataclass(frozen=True, slots=True)
class Setting:
    """What one server address is to do."""

    address: str
    icw: int
    synack_rto_ms: int
    rwin_packets: int
    congestion_control: str


def ticks_per_second() -> int:
    """HZ of the running kernel: 100 in User-Mode Linux, often 250 or 1000 elsewhere."""
    return round(1 / time.clock_getres(CLOCK_MONOTONIC_COARSE))


def compiled(folder: Path | None = None) -> Path:
    """The object file, compiled by clang unless the cache has it for this very source."""
    folder = folder or cache_folder()
    name = f"sockops-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.o"
    built = folder / name
    if built.exists():
        return built
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{name}.{os.getpid()}"
    # Debian keeps <asm/types.h> in the multiarch folder, which clang's BPF target does not search.
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    command = ["clang", "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", include, "-c", str(SOURCE), "-o", str(fresh)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing("clang is not installed; run: apt-get install clang libbpf-dev") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"{SOURCE.name} does not compile (is libbpf-dev installed?):\n{error.stderr}") from error
    fresh.rename(built)
    return built


def key(address: str) -> bytes:
    """The map's key: an IPv6 address, IPv4 in its mapped form."""
    parsed = ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def value(setting: Setting, hz: int) -> bytes:
    """The map's value; times in ticks of this kernel."""
    jiffies = setting.synack_rto_ms * hz // 1000
    return SETTING.pack(setting.icw, jiffies, setting.rwin_packets, setting.congestion_control.encode())


def load(built: Path, pins: Path, group: Path) -> None:
    """Load and pin the program with its maps, and attach it to the control group."""
    pins.mkdir(parents=True, exist_ok=True)
    _bpftool("prog", "load", str(built), str(pins / "program"), "type", "sockops", "pinmaps", str(pins / "maps"))
    group.mkdir(parents=True, exist_ok=True)
    _bpftool("cgroup", "attach", str(group), "cgroup_sock_ops", "pinned", str(pins / "program"))


def fill(pins: Path, settings: Iterable[Setting]) -> None:
    """Write every setting, read the whole map back, and refuse a difference."""
    hz = ticks_per_second()
    wanted = {key(setting.address): value(setting, hz) for setting in settings}
    pinned = pins / "maps" / "settings"
    lines = (f"map update pinned {pinned} key {_numbers(k)} value {_numbers(v)}\n" for k, v in wanted.items())
    _bpftool("batch", "file", "-", stdin="".join(lines))
    # bpftool says bytes as "0x0a" without BTF
    entries = json.loads(_bpftool("--json", "map", "dump", "pinned", str(pinned)))
    found = {_bytes(entry["key"]): _bytes(entry["value"]) for entry in entries}
    if found != wanted:
        raise Missing(f"the sock_ops map holds {len(found)} settings that are not the {len(wanted)} written")


def refusals(pins: Path) -> int:
    """How many settings the kernel has refused so far."""
    entries = json.loads(_bpftool("--json", "map", "dump", "pinned", str(pins / "maps" / "refusals")))
    return int.from_bytes(_bytes(entries[0]["value"]), "little")


def attached(group: Path) -> bool:
    """Whether a sock_ops program sits on the control group."""
    return "sock_ops" in _bpftool("cgroup", "show", str(group))


def _numbers(data: bytes) -> str:
    return " ".join(map(str, data))


def _bytes(listed: list[str]) -> bytes:
    return bytes(int(number, 0) for number in listed)


def _bpftool(*arguments: str, stdin: str = "") -> str:
    try:
        done = subprocess.run(["bpftool", *arguments], input=stdin, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing("bpftool is not installed; run: apt-get install bpftool") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"bpftool {' '.join(arguments)}: {(error.stderr or error.stdout).strip()[:500]}") from error
    return done.stdout
