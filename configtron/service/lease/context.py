# SPDX-License-Identifier: MIT
"""The host and the database that a lease works with: the boot's name, the lock, journal, drivers, clock, namespace.

Question   The kernel's boot id distinguishes rules of this boot from those of an earlier one. A container has two ids:
           its manager binds the container's id over the kernel's file, but a unit for which systemd mounts /proc anew
           (ProtectControlGroups= is enough) reads the kernel's id. How do an agent and its operator's shell agree?
Method     The first process with the permission writes the id that it read to /run; later processes read it there. They
           do so only where /run is in memory, so that no id outlives a boot; elsewhere each process uses what it reads.
           One process at a time applies, rolls back or recovers: flock(2) on the file DATABASE.tune, in which the
           holder writes its process; the kernel releases it when the process ends, however it ends.
Fails as   `Refused`, with the process that holds the lock.
Source     systemd-nspawn(1), systemd.exec(5) (MountAPIVFS=), proc(5): mountinfo
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EMFILE, ENFILE
from pathlib import Path
from typing import TextIO
from uuid import UUID

from configtron.db.private import folder_made, opener
from configtron.db.tuning import Tuning
from configtron.linux.mounts import TABLE, device_of, mounts
from configtron.linux.netns import is_absent
from configtron.model.errors import Refused, Unwritten
from configtron.model.protocols import Driver
from configtron.model.tuning import Place
from configtron.service.lease.processes import this_process
from configtron.tune.drivers import load
from configtron.tune.journal import Transaction

# Beside other daemons' runtime files; empty after a boot.
RUNTIME = Path("/run/configtron-tune")
_KERNEL = Path("/proc/sys/kernel/random/boot_id")
# The first namespace of processes (PROC_PID_INIT_INO of linux/proc_ns.h).
FIRST_PROCESSES = "pid:[4026531836]"
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


# s; an apply of a hundred thousand prefixes takes seconds, so a longer wait means that the holder hangs.
LOCK_PATIENCE_S = 30.0
# s between two tries.
LOCK_POLL_S = 0.02


def lock_path(database: Path) -> Path:
    """Return the lock file of a database; it contains the holder's process."""
    return database.with_name(database.name + ".tune")


@contextmanager
def exclusive_lock(database: Path, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
    """Hold the database's lock within the block. Errors: `Refused` if another process keeps it longer than that;
    `Unwritten` where this process has no descriptor for it."""
    folder_made(database.parent)
    with _opened(lock_path(database)) as file:
        if not take_lock(file.fileno(), patience_s):
            process = lock_holder(database).partition(" ")[0]
            raise Refused(f"process {process} is acting on the stack; wait until it is done")
        # A watch comes here four times a second and its name is there already. On a full disk the lock alone will do.
        if lock_holder(database) != (process := this_process()):
            with suppress(OSError):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), process.encode())
        yield


def _opened(path: Path) -> TextIO:
    try:
        # Only the owner of the database may open it: a reader could hold the lock and keep everybody from acting.
        return open(path, "a+", opener=opener)
    except OSError as error:
        if error.errno not in (EMFILE, ENFILE):
            raise
        raise Unwritten(f"{path}: {error.strerror}; raise the limit of open files, or end what has them") from error


def take_lock(descriptor: int, patience_s: float) -> bool:
    """Try for so long to lock an open file; return whether it is locked."""
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOCK_POLL_S)
        else:
            return True


def lock_holder(database: Path) -> str:
    """Return the process that holds the lock, or held it last: "PID START"; "" if none did."""
    try:
        return lock_path(database).read_text()
    except OSError:
        return ""


@dataclass(frozen=True)
class LeaseContext:
    """An open database and the host around it.

    boot       name of this boot: another one after a reboot
    namespace  the network namespace of this process: "net:[4026531840]"
    load       makes the driver of a name for a place
    """

    journal: Tuning
    boot: str
    namespace: str
    load: Callable[[str, Place], Driver] = load

    def now_s(self) -> float:
        """Return seconds since boot, suspension included: a clock that cannot be set."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def namespace_of(self, place: Place) -> str:
        """Return the namespace that the journal records for a place without a named one."""
        return "" if place.netns else self.namespace

    def is_within(self, transaction: Transaction) -> bool:
        """Return whether a transaction can be reached from the network namespace of this process."""
        return transaction.space in ("", self.namespace)

    def is_here(self, transaction: Transaction) -> bool:
        """Return whether a transaction of this boot can be reached from here."""
        return transaction.boot == self.boot and self.is_within(transaction)


def context_of(journal: Tuning) -> LeaseContext:
    """Return the context of an open database on this host."""
    return LeaseContext(journal, this_boot(), os.readlink("/proc/self/ns/net"))


def is_gone(place: Place) -> bool:
    """Return whether the namespace of a place no longer exists: its settings ended with it."""
    return "/" not in place.netns and is_absent(place.netns)


def is_held(space: str) -> bool:
    """Return whether a network namespace ("net:[4026531840]") has a process or a mount, or may have one that this
    process does not see."""
    if os.readlink("/proc/self/ns/pid") != FIRST_PROCESSES or f" {space} " in TABLE.read_text():
        return True
    found = {os.path.realpath(link).rpartition("/")[2] for link in Path("/proc").glob("[0-9]*/ns/net")}
    return space in found or "net" in found  # a link that cannot be read
