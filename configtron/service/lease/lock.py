# SPDX-License-Identifier: MIT
"""The exclusive lock of a database: one process at a time applies, rolls back or recovers.

Method     flock(2) on the file DATABASE.tune, in which the holder writes its process; the kernel releases it when the
           process ends, however it ends.
Fails as   `Refused`, with the holder's process number.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EMFILE, ENFILE
from pathlib import Path
from typing import TextIO

from configtron.db.private import folder_made, opener
from configtron.model.errors import Refused, Unwritten
from configtron.service.lease.processes import this_process

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
