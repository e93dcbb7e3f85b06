# SPDX-License-Identifier: MIT
"""What acting on the host needs of the world: the database, drivers, a clock, one actor at a time, keepers."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from configtron.cli.tune.processes import myself
from configtron.db.private import folder_made, opener
from configtron.linux.netns import is_absent
from configtron.model.errors import Refused
from configtron.model.tuning import Place
from configtron.tune.drivers import load

if TYPE_CHECKING:
    from configtron.db.tuning import Tuning
    from configtron.model.protocols import Driver

# An apply of a hundred thousand prefixes takes seconds; who waits longer waits for somebody who hangs.
LOCK_PATIENCE_S = 30.0
LOCK_LOOK_S = 0.02


@dataclass(frozen=True)
class Desk:
    """An open database and the host around it.

    boot   of this kernel: after a reboot it is another one
    space  the network namespace we are in
    """

    book: Tuning
    boot: str
    space: str
    load: Callable[[str, Place], Driver] = load

    def now_s(self) -> float:
        """Seconds since boot, suspension included: no clock that somebody sets."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def space_of(self, place: Place) -> str:
        """What the journal keeps beside a place that names no namespace: which one that was."""
        return "" if place.netns else self.space


def desk(book: Tuning) -> Desk:
    """The desk on this host."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Desk(book, boot, os.readlink("/proc/self/ns/net"))


def gone(place: Place) -> bool:
    """Whether the namespace that a place names is no more: with it went all that was set there."""
    return "/" not in place.netns and is_absent(place.netns)


def lock_path(database: Path) -> Path:
    """The file whose lock the one who acts holds; in it who that is."""
    return database.with_name(database.name + ".tune")


@contextmanager
def sole(database: Path, patience_s: float = LOCK_PATIENCE_S) -> Iterator[None]:
    """Be the only one who acts for this database. The kernel ends it with the process. Errors: `Refused`."""
    folder_made(database.parent)
    # Who could open it could hold its lock, and keep everybody from acting.
    with open(lock_path(database), "a+", opener=opener) as file:
        if not locked(file.fileno(), patience_s):
            who = worker(database).partition(" ")[0]
            raise Refused(f"process {who} is acting on the stack; wait until it is done")
        # A watch comes by four times a second, and has signed already. On a full disk the lock alone will do.
        if worker(database) != (me := myself()):
            with suppress(OSError):
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), me.encode())
        yield


def locked(descriptor: int, patience_s: float) -> bool:
    """Take a file's lock, within so long; whether it was had."""
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(LOCK_LOOK_S)
        else:
            return True


def worker(database: Path) -> str:
    """Who acts now, or did last: "PID START"."""
    try:
        return lock_path(database).read_text()
    except OSError:
        return ""
