"""Files that only their owner reads: databases say whom somebody measures and how his servers are set up.

A folder that is not there is made 0700, a file 0600, whatever the umask. What is there already and everybody can read
or write (configtron made it so once) is narrowed to its owner, and so are the log files that SQLite keeps beside it;
where somebody else owns it, a warning says what to run. Rights of the group are the operator's: they are left alone.
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
    """Make a folder and those above it that are not there, each for its owner alone. Errors: `OSError`."""
    whole = folder.absolute()
    for each in (*whole.parents[::-1], whole):
        if not each.exists():
            each.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(..., opener=opener)`: a file that is made belongs to its owner alone."""
    return os.open(path, flags, FILE)


def owned(path: Path) -> None:
    """Make a database file, empty, or narrow the one that is there. Errors: `OSError` where it cannot be made."""
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
