# SPDX-License-Identifier: MIT
"""BPF programs of the laboratory: compiled once, loaded and pinned, their maps filled by address and read back."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from configtron.lab.uml.kernel import cache_folder
from configtron.linux.libbpf import Map, Object
from configtron.linux.trust import others
from configtron.model.errors import Missing, Refused


def compiled(source: Path, folder: Path | None = None) -> Path:
    """Return the object file, compiled by clang unless the cache has it for this very source.

    Errors: `Missing`; `Refused` where another user could have written the file: it runs in the kernel.
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
    """Return an address as the maps have it: IPv6, IPv4 in its mapped form (RFC 4291 section 2.5.5.2)."""
    parsed = ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


def load(built: Path, programs: Path, maps: Path) -> None:
    """Load a compiled object and pin its programs and maps by name in these folders. Errors: `Missing`."""
    programs.mkdir(parents=True, exist_ok=True)
    maps.mkdir(parents=True, exist_ok=True)
    try:
        with Object(built) as one:
            one.load()
            one.pin(programs, maps)
    except OSError as error:
        raise Missing(f"{built.name} cannot be loaded: {error.strerror}") from error


def fill(pinned: Path, wanted: Mapping[bytes, bytes]) -> None:
    """Write every entry, read the whole map back, and raise `Missing` if it differs."""
    table = Map.pinned(pinned)
    try:
        for k, v in wanted.items():
            table.put(k, v)
    except OSError as error:
        raise Missing(f"the BPF map {pinned.name} cannot be written: {error.strerror}") from error
    finally:
        table.close()
    found = dump(pinned)
    if found != wanted:
        raise Missing(f"the BPF map {pinned.name} holds {len(found)} entries that are not the {len(wanted)} written")


def dump(pinned: Path) -> dict[bytes, bytes]:
    """Return the whole map: key -> value, as bytes."""
    table = Map.pinned(pinned)
    try:
        keys, values = table.all()
        return dict(zip(_cut(keys, table.key_bytes), _cut(values, table.value_bytes), strict=True))
    finally:
        table.close()


def _cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
