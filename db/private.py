# SPDX-License-Identifier: MIT
"""Database files that only their owner can read: they show whom a user measures and how a server is set up.

A folder that has to be made gets mode 0700, a file 0600, whatever the umask. An existing file that all users can read
or write (earlier versions made such files) is restricted to its owner, and so are the log files that SQLite keeps
beside it. If another user owns it, a warning gives the command to run. The group's permissions are not changed, unless
all users have some too.
"""

from __future__ import annotations

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700
# What SQLite keeps beside a database (sqlite.org/tempfiles.html).
BESIDE = ("", "-wal", "-shm", "-journal")
log = logging.getLogger("configtron.db")


def folder_made(folder: Path) -> None:
    """Make a folder and its missing parents, each with mode 0700. Errors: `OSError`."""
    whole = folder.absolute()
    for each in (*whole.parents[::-1], whole):
        if not each.exists():
            each.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Open for `open(..., opener=opener)`: a file that is created gets mode 0600. Errors: `OSError`."""
    return os.open(path, flags, FILE)


def owned(path: Path) -> None:
    """Create an empty database file with mode 0600, or restrict the existing one. Errors: `OSError` from open(2)."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))
        return
    for each in (path.with_name(path.name + end) for end in BESIDE):
        with suppress(FileNotFoundError):
            _narrowed(each)


def _narrowed(path: Path) -> None:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IRWXO:
        return
    try:
        path.chmod(FILE)
    except OSError as error:
        log.warning("%s can be read by everybody (%s); its owner should run: chmod 600 %s", path, error.strerror, path)
    else:
        log.warning("%s could be read by everybody; from now on by its owner only (0600)", path)
