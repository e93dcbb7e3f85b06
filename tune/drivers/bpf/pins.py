# SPDX-License-Identifier: MIT
"""Where what we leave in the kernel is kept: the BPF file system, and the control group that it acts on.

Under /sys/fs/bpf/configtron, one folder for each place (network namespace, control group and listeners):

    PROGRAMS-PLACE/   prefixes, prefixes4, lengths, current, profiles, place, listeners, refusals, writes: the maps
                      (clients.h); plans, mixes, which, not_after (drawing.h), connections, records, lost (recording.h):
                      made with the program; link: the program at its control group, pinned last: a folder with a link
                      is whole

A map or link lives while it is pinned, whatever becomes of the process that made it, but no longer than the BPF file
system that holds the pin: `private` says where that would be soon. PROGRAMS and PLACE are checksums:
the first of the programs, so that maps of another version of configtron are never misread; the second of the names that
the place was given, so that it is found, and can be cleared, when the namespace or the group themselves have gone.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from configtron.linux import mounts as table
from configtron.linux import netns
from configtron.linux.libbpf import EFFECTIVE, SOCK_OPS, attached_to_cgroup, call, info, program_name
from configtron.model.errors import BadInput, Missing
from configtron.model.tuning import Difference, Place
from configtron.tune.drivers.bpf.objects import headers, source

BPFFS = Path("/sys/fs/bpf")
ROOT = BPFFS / "configtron"
LINK = "link"
# struct bpf_link_info: type and number, the program's number, the group's inode.
_LINK_INFO = struct.Struct("=8xI4xQ")


def mounts(kind: str) -> list[Path]:
    """Where file systems of a kind are mounted, as this process sees them; one that another mount hides is not."""
    found = []
    for one in table.mounts(kind):
        with suppress(OSError):
            if table.device_of(Path(one.folder)) == one.device:
                found.append(Path(one.folder))
    return found


def group(place: Place) -> Path:
    """Return the place's control group. Errors: `Missing` without version 2 of them, `BadInput` for no such group."""
    roots = mounts("cgroup2")
    if not roots:
        raise Missing("control groups version 2 are not mounted; run: mount -t cgroup2 none DIRECTORY")
    found = roots[0] / place.cgroup.strip("/")
    if not found.is_dir():
        raise BadInput(f"control group {place.cgroup!r}: there is no {found}; `systemd-cgls` lists those there are")
    return found


def group_id(place: Place) -> int:
    return group(place).stat().st_ino


def folder(place: Place) -> Path:
    """Return the place's folder, whether it is there or not."""
    return ROOT / f"{_programs()}-{_name(place)}"


@cache
def _programs() -> str:
    """Return the programs' checksum as of this process's start: sources that are replaced are of another configtron."""
    return _checksum(headers() + source("sockops").read_bytes())


def folders(place: Place) -> list[Path]:
    """All that stand there for that place, those of other versions too."""
    return sorted(ROOT.glob(f"*-{_name(place)}"))


def _name(place: Place) -> str:
    """Return the namespace that we are in has no name, but a number."""
    where = place.netns or f"#{netns.cookie('')}"
    listen = f" {place.listen}" if place.listen else ""
    return _checksum(f"{where} {place.cgroup.strip('/')}{listen}".encode())


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def neighbours(place: Place) -> Iterator[str]:
    """Yield a line for each program that is not ours, of any place, and runs on connections of the place's group."""
    ours = link_state(folder(place) / LINK)[0] if (folder(place) / LINK).exists() else 0
    known = {link_state(link)[0] for link in ROOT.glob(f"*/{LINK}")}
    found = attached_to_cgroup(group(place), SOCK_OPS, EFFECTIVE)
    for at, number in enumerate(found):
        with suppress(OSError):
            if number not in known:
                order = "after" if ours in found[:at] else "before" if ours in found else "beside"
                name = f"the sock_ops program {program_name(number)} (id {number})"
                yield f"{name} runs {order} ours on each connection; what it sets was not asked: bpftool prog show"


def elsewhere(place: Place) -> Iterator[Difference]:
    """Yield that no process of the place's group is in its network namespace: then no connection there is ours."""
    files = group(place).rglob("cgroup.procs") if place.cgroup.strip("/") else ()
    found: dict[int, str] = {}
    for file in files:
        with suppress(OSError):
            found |= {os.stat(f"/proc/{process}/ns/net").st_ino: process for process in file.read_text().split()}
    with netns.inside(place.netns):
        here = os.stat("/proc/thread-self/ns/net").st_ino
    if found and here not in found:
        where = f"in another network namespace: configtron tune --netns /proc/{min(found.values())}/ns/net"
        yield Difference("cgroup", "netns", "its processes in this network namespace", where)


def mount() -> None:
    """The BPF file system at its usual place. Errors: `Missing`."""
    if BPFFS in mounts("bpf"):
        return
    if ctypes.CDLL(None, use_errno=True).mount(b"bpf", str(BPFFS).encode(), b"bpf", 0, b"mode=700"):
        raise Missing(f"mounting the BPF file system at {BPFFS}: {os.strerror(ctypes.get_errno())}; run as root")


def private() -> str:
    """Return why pins made here would be gone with this command, one line; "" if they would not.

    `ip netns exec` mounts a /sys of its own, by the name of the namespace, in a mount namespace that ends with its
    command. Other mount namespaces are there on purpose: a container's, a test's.
    """
    name = ""
    for one in table.mounts():
        if one.folder == "/sys":
            name = one.source
    if not name or netns.is_absent(name):
        return ""
    why = "what would stand in /sys here ends with the command, for `ip netns exec` mounts one for each"
    return f"{why}; run it outside, with --netns {name}"


def unmount() -> None:
    """Unless it is in use, or holds anything but what the kernel itself puts there."""
    if BPFFS in mounts("bpf") and not [entry for entry in BPFFS.iterdir() if entry.suffix != ".debug"]:
        ctypes.CDLL(None).umount(str(BPFFS).encode())


def link_state(pinned: Path) -> tuple[int, int]:
    """(number of the program, inode of the control group) of a link; group 0 is a link that was detached."""
    with opened(pinned) as descriptor:
        about = info(descriptor)
    program, group = _LINK_INFO.unpack_from(about)
    return program, group


def remove(place_folder: Path) -> None:
    """Detach and forget. A link that another process still holds is detached all the same."""
    link = place_folder / LINK
    if link.exists():
        with opened(link) as descriptor, suppress(OSError):
            call("bpf_link_detach", descriptor)
        link.unlink()
    for pinned in place_folder.iterdir():
        pinned.unlink()
    place_folder.rmdir()


def remove_root() -> bool:
    """Return whether no place is left, in this BPF file system."""
    if ROOT.exists() and any(ROOT.iterdir()):
        return False
    with suppress(FileNotFoundError):
        ROOT.rmdir()
    return True


class opened:
    """The descriptor of something pinned, for the length of a block."""

    def __init__(self, pinned: Path) -> None:
        self._descriptor = call("bpf_obj_get", str(pinned).encode())

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
