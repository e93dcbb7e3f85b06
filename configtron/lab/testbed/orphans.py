# SPDX-License-Identifier: MIT
"""Guests that outlive their owner: how to boot one, and how a later owner finds it, waits for it and ends it.

Question   How can a measurement be killed without losing the work of its guests?
Method     A guest itself, not its owner, holds a lock on a file in its folder: the lock is free when the last of its
           processes is gone. The file has a line for each boot: the number of its outermost process. There is no
           daemon, and no list of what runs.
Stop when  the guest's command ends; or at its limit of time (`GuestJob.limit_s`), as an orphan that is not adopted.
Fails as   `Refused` when a guest must be ended and cannot be found: its folder is seen from another machine.
"""

from __future__ import annotations

import fcntl
import subprocess
import time
from pathlib import Path
from typing import IO

from configtron.lab.uml.enclosure import Running
from configtron.model.errors import Refused

# Locked while a guest lives; a line a boot.
LIFE = "guest.boots"
# s between two looks at an adopted guest whose end a caller waits for.
LOOK_EVERY_S = 0.05


def claim(folder: Path) -> IO[bytes] | None:
    """Return the folder's lock, to be handed to a guest; None while a guest has it."""
    file = (folder / LIFE).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def boots(folder: Path) -> int:
    """Return the number of guests that this folder has had."""
    try:
        return len((folder / LIFE).read_text().split())
    except FileNotFoundError:
        return 0


def adopt(folder: Path) -> Running:
    """Return the guest that lives in this folder, or that has ended by now."""
    return Running(_AdoptedProcess(folder), folder)


def lived_s(folder: Path) -> float:
    """Return seconds since the last boot there."""
    return max(0.0, time.time() - (folder / LIFE).stat().st_mtime)


class _AdoptedProcess:
    """A process that is not our child: it lives while its lock is taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def pid(self) -> int:
        """Return the number of its outermost process. Errors: `Refused`."""
        number = (self._folder / LIFE).read_text().split()[-1:]
        try:
            words = Path("/proc", *number, "cmdline").read_bytes().split(b"\0")
        except OSError:
            words = []
        if not number or str(self._folder.resolve()).encode() not in words:
            raise Refused(f"{self._folder}: a guest is at work there that was booted elsewhere; wait until it ends")
        return int(number[0])

    def poll(self) -> int | None:
        """Return None while it runs, else 0."""
        file = claim(self._folder)
        if file is None:
            return None
        file.close()
        return 0

    def wait(self, timeout: float | None = None) -> int:
        """Return when it has ended. Errors: `subprocess.TimeoutExpired`."""
        patience_s = float("inf") if timeout is None else timeout
        deadline = time.monotonic() + patience_s
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("an adopted guest", patience_s)
            time.sleep(LOOK_EVERY_S)
        return 0
