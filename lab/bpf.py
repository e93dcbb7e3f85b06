# SPDX-License-Identifier: MIT
"""BPF programs of the laboratory: compiled once, loaded and pinned, their maps filled by address and read back."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from configtron.lab.kernel import cache_folder
from configtron.linux.trust import others
from configtron.model.errors import Missing, Refused


def compiled(source: Path, folder: Path | None = None) -> Path:
    """The object file, compiled by clang unless the cache has it for this very source.

    Errors: `Missing`; `Refused` where somebody else could have written what lies there, for it runs in the kernel.
    """
    folder = folder or cache_folder()
    stem = source.name.partition(".")[0]
    name = f"{stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.o"
    built = folder / name
    if why := others(built):
        raise Refused(f"{why}: no BPF program is loaded from there; mend its owner and mode, or set XDG_CACHE_HOME")
    if built.exists():
        return built
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f"{name}.{os.getpid()}"
    # Debian keeps <asm/types.h> in the multiarch folder, which clang's BPF target does not search.
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    command = ["clang", "-O2", "-g", "-Wall", "-Werror", "-target", "bpf", include, "-c", str(source), "-o", str(fresh)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing("clang is not installed; run: apt-get install clang libbpf-dev") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"{source.name} does not compile (is libbpf-dev installed?):\n{error.stderr}") from error
    fresh.chmod(0o600)
    fresh.rename(built)
    return built


def key(address: str) -> bytes:
    """An address as the maps have it: IPv6, IPv4 in its mapped form (RFC 4291 section 2.5.5.2)."""
    parsed = ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def fill(pinned: Path, wanted: Mapping[bytes, bytes]) -> None:
    """Write every entry, read the whole map back, and refuse a difference."""
    lines = (f"map update pinned {pinned} key {_numbers(k)} value {_numbers(v)}\n" for k, v in wanted.items())
    bpftool("batch", "file", "-", stdin="".join(lines))
    found = dump(pinned)
    if found != wanted:
        raise Missing(f"the BPF map {pinned.name} holds {len(found)} entries that are not the {len(wanted)} written")


def dump(pinned: Path) -> dict[bytes, bytes]:
    """The map as bytes."""
    # bpftool says bytes as "0x0a" without BTF
    entries = json.loads(bpftool("--json", "map", "dump", "pinned", str(pinned)))
    return {_bytes(entry["key"]): _bytes(entry["value"]) for entry in entries}


def _numbers(data: bytes) -> str:
    return " ".join(map(str, data))


def _bytes(listed: list[str]) -> bytes:
    return bytes(int(number, 0) for number in listed)


def bpftool(*arguments: str, stdin: str = "") -> str:
    """The command's output; its failure is an error."""
    try:
        done = subprocess.run(["bpftool", *arguments], input=stdin, check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise Missing("bpftool is not installed; run: apt-get install bpftool") from error
    except subprocess.CalledProcessError as error:
        raise Missing(f"bpftool {' '.join(arguments)}: {(error.stderr or error.stdout).strip()[:500]}") from error
    return done.stdout
