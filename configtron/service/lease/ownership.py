# SPDX-License-Identifier: MIT
"""Ownership records: which database has rules in force in a network namespace, where every database can read it.

Question   Two databases on one host each have a journal and a lock. How does a database avoid removing, at the end of
           its lease, the rules that another database put in force in the same namespace?
Method     A record is a file in /run, named by the boot, the namespace's cookie (never given twice) and the control
           group; its content is the path of the database. It is written under its lock together with the first row of
           an apply transaction in the journal.
Reads as   A record counts as long as that database has an open transaction there: its journal is read. So a record
           whose writer was killed, or whose database is gone, keeps no one out and needs no repair.
Fails as   `Refused`, with the owner and the next step. Where /run cannot be written, a warning, and no
           database is kept out.
Differs    from `exclusive_lock`, which belongs to one database and ends with a process: a record lasts as long as
           a transaction.
Source     lockf(3) advisory locks; SO_NETNS_COOKIE, Linux 5.14.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.linux.netns import NAMED, cookie
from configtron.model.errors import BadInput, ConfigtronError, Refused
from configtron.model.tuning import Place
from configtron.service.lease.context import RUNTIME, LeaseContext, take_lock, this_boot
from configtron.tune.drivers import FOR_TRIALS
from configtron.tune.journal import OPEN, Transaction

FOLDER = RUNTIME
# s; a record is locked for as long as one row of the journal takes to write, on a slow disk.
PATIENCE_S = 2.0
log = logging.getLogger("configtron.tune")


@contextmanager
def owned(context: LeaseContext, driver: str, place: Place) -> Iterator[None]:
    """Record this database as owner of a place; the block begins the transaction that makes it count.

    Errors: `Refused` where another database owns the place, or is recording itself.
    """
    file = _record_for(context, driver, place)
    if file is None:
        yield
        return
    try:
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        this_boot()  # is kept from now on
        record = _open(file)
    except BlockingIOError as error:
        raise Refused(f"{file}: another apply is claiming this network namespace; wait until it is done") from error
    except OSError as error:
        log.warning("%s: %s; another database that acts here would not be noticed", file, error.strerror)
        yield
        return
    with record:
        _write_owner(context, place, file, record)
        yield


def _write_owner(context: LeaseContext, place: Place, file: Path, record: BinaryIO) -> None:
    """Write this database into an open record. Errors: `Refused`."""
    owner = record.read()
    if conflict := _conflict(context, place, file, owner):
        raise Refused(conflict)
    # Not rewritten: killed between truncating and writing, we would leave a transaction without its record.
    if owner != _own_path(context):
        record.seek(0)
        record.truncate()
        record.write(_own_path(context))
        record.flush()


def other_owner(context: LeaseContext, driver: str, place: Place) -> str:
    """Return the other database with rules in force at a place and the next step, in one line; "" if there is none."""
    file = _record_for(context, driver, place)
    if file is None:
        return ""
    try:
        return _conflict(context, place, file, file.read_bytes())
    except OSError:
        return ""


def taken_over(context: LeaseContext, transaction: Transaction) -> bool:
    """Return whether another database's rules are in force at a transaction's place, by the same driver.

    They were refused while its namespace existed: this one was made later under the same name, and nothing in it is
    ours.
    """
    file = _record_for(context, transaction.driver, transaction.place)
    with suppress(BadInput, OSError):
        if file is not None and (owner := file.read_bytes()) not in (b"", _own_path(context)):
            return any(theirs.driver == transaction.driver for theirs in _open_there(context, transaction.place, owner))
    return False


def release(context: LeaseContext) -> None:
    """Remove this database's records of places where it has no open transaction."""
    transactions = context.journal.acts(*OPEN, bare=True)
    if not all(map(context.is_within, transactions)):
        return  # its record can only be named from within its namespace
    _remove(_own_path(context), {_record_for(context, "", each.place) for each in transactions})


def release_database(database: Path) -> None:
    """Remove the records of a database that no longer exists."""
    _remove(os.fsencode(database.resolve()), set())


def _remove(database: bytes, but: set[Path | None]) -> None:
    with suppress(OSError):
        for file in set(FOLDER.iterdir()) - but:
            with _open(file, 0) as record:
                if record.read() in (b"", database):
                    file.unlink()


def _record_for(context: LeaseContext, driver: str, place: Place) -> Path | None:
    """Return the record of a place; None for the driver of trials, without a namespace, or on an older kernel."""
    if driver == FOR_TRIALS:
        return None
    try:
        number = cookie(place.netns)
    except (ConfigtronError, OSError):
        return None
    group = blake2b(place.cgroup.strip("/").encode(), digest_size=4).hexdigest()
    return FOLDER / f"{context.boot}-{number}-{group}"


def _own_path(context: LeaseContext) -> bytes:
    return os.fsencode(context.journal.path.resolve())


def _open(file: Path, patience_s: float = PATIENCE_S) -> BinaryIO:
    """Return an open record, locked, at its beginning. Errors: `OSError`; `BlockingIOError` where it stays locked."""
    while True:
        record = file.open("a+b")
        try:
            if not take_lock(record.fileno(), patience_s):
                raise BlockingIOError(None, "another process holds its lock")
            # The process that held the lock may have removed the file.
            if file.exists() and os.fstat(record.fileno()).st_ino == file.stat().st_ino:
                record.seek(0)
                return record
        except BaseException:
            record.close()
            raise
        record.close()


def _conflict(context: LeaseContext, place: Place, file: Path, owner: bytes) -> str:
    """Return why the owner of a record keeps this database out, and the next step; "" if it does not."""
    if owner in (b"", _own_path(context)):
        return ""
    database = os.fsdecode(owner)
    try:
        transactions = _open_there(context, place, owner)
    except (BadInput, OSError) as error:
        useless = f"if it is of no use any more, remove {file}"
        return f"the database {database} has claimed this network namespace and cannot be read ({error}); {useless}"
    if not transactions:
        return ""
    first = transactions[0]
    return (
        f"transaction {first.id} ({first.driver}, {first.status}) of another database, {database}, is in force in this "
        f"network namespace; use that one (--db {database}), or first: configtron --db {database} tune rollback"
    )


def _open_there(context: LeaseContext, place: Place, owner: bytes) -> list[Transaction]:
    """Return the owner's open transactions at a place. Errors: `BadInput`, `OSError`."""

    def read(journal: Tuning) -> list[Transaction]:
        here = (_inode(place, context.namespace), place.cgroup.strip("/"))
        found = journal.acts(*OPEN, bare=True)
        return [each for each in found if each.boot == context.boot and _location(each) == here]

    return read_only(Path(os.fsdecode(owner)), read)


def _location(transaction: Transaction) -> tuple[str, str]:
    return _inode(transaction.place, transaction.space), transaction.place.cgroup.strip("/")


def _inode(place: Place, unnamed: str) -> str:
    """Return the namespace of a place as the journal writes those without a name; "" where it is gone."""
    if not place.netns:
        return unnamed
    try:
        return f"net:[{(NAMED / place.netns).stat().st_ino}]"
    except OSError:
        return ""
