# SPDX-License-Identifier: MIT
"""The name of this boot, the same for every process on the host.

Question   The kernel's boot id distinguishes rules of this boot from those of an earlier one. A container has two ids:
           its manager binds the container's id over the kernel's file, but a unit for which systemd mounts /proc anew
           (ProtectControlGroups= is enough) reads the kernel's id. How do an agent and its operator's shell agree?
Method     The first process with the permission writes the id that it read to /run; later processes read it there. They
           do so only where /run is in memory, so that no id outlives a boot; elsewhere each process uses what it reads.
Source     systemd-nspawn(1), systemd.exec(5) (MountAPIVFS=), proc(5): mountinfo
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from configtron.linux.mounts import TABLE, device_of, mounts

# Beside other daemons' runtime files; empty after a boot.
RUNTIME = Path("/run/configtron-tune")
_KERNEL = Path("/proc/sys/kernel/random/boot_id")
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def this_boot(runtime: Path = RUNTIME, kernel: Path = _KERNEL, table: Path = TABLE) -> str:
    """Return the name of this boot. Errors: `OSError` where the kernel's id cannot be read."""
    read = kernel.read_text().strip()
    with suppress(OSError, ValueError):
        if _kind(runtime, table) in IN_MEMORY:
            _keep(runtime / "boot", read)
            return str(UUID((runtime / "boot").read_text()))
    return read


def _kind(folder: Path, table: Path) -> str:
    """Return the kind of file system that a folder is on; "" if the table of mounts does not show it."""
    device = device_of(folder)
    return next((one.kind for one in mounts(table=table) if one.device == device), "")


def _keep(file: Path, name: str) -> None:
    """Give this boot its name, unless it has one or this process may not; a reader sees all of it or nothing."""
    if file.exists():
        return
    new = file.with_name(f"boot.{os.getpid()}")
    with suppress(OSError):
        new.write_text(name)
        with suppress(FileExistsError):
            os.link(new, file)
        new.unlink()
