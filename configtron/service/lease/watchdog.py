# SPDX-License-Identifier: MIT
"""Lease watchdog: one small process for each apply transaction, which undoes it when its lease ends or its apply died.

    python -m configtron.service.lease.watchdog DATABASE NUMBER

It checks four times a second whether the journal was written, reads it if so, and at least every two seconds; it holds
nothing open between. It ends when the transaction is over, kept or
replaced, so none is left after a rollback. It works in the network namespace that it was started in. A lease lasts
`LEASE_S` (60 s, `configtron/service/lease/options.py`) unless the apply sets another length.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from configtron.db.read_only import read_only
from configtron.db.tuning import Tuning
from configtron.model.errors import DONE, BadInput, ConfigtronError, Refused
from configtron.model.tuning import Rules
from configtron.service.lease.context import context_of, exclusive_lock, is_gone, lock_holder
from configtron.service.lease.kernel_rules import write
from configtron.service.lease.ownership import release_database
from configtron.service.lease.processes import end, used
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.undo import JournalBehind, revert_unjournaled
from configtron.service.lease.watchdog_process import POLL_S, READY
from configtron.tune.drivers import load
from configtron.tune.journal import KEPT, LEASED, OPEN, UNDOING, UNDONE, Transaction

# s past the end of a lease after which the watchdog checks whether the lock holder is making progress.
OVERRUN_S = 2.0
# s without processor time after which a lock holder hangs: no commit on a slow disk takes so long.
IDLE_S = 5.0
# s after which a busy lock holder hangs too: a million routes take a minute.
ENDLESS_S = 600.0
# s after which the journal is read though its files seem as they were.
READ_S = 2.0
# s from which on two writes differ in a file's time: some ticks of the kernel's clock.
APART_S = 0.05
# s before a failed try is repeated.
AGAIN_S = 1.0


def main(arguments: list[str]) -> int:
    """Watch one transaction until it is over."""
    path, number = Path(arguments[0]).resolve(), int(arguments[1])
    logging.getLogger("configtron").addHandler(logging.NullHandler())
    transaction = read_only(path, lambda journal: journal.act(number, bare=True))
    # A watchdog may live for days and must not keep a file system from being unmounted.
    os.chdir("/")
    os.write(1, READY)
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.close(devnull)
    return _watch(path, transaction) if transaction is not None else DONE


def _watch(path: Path, transaction: Transaction) -> int:
    expires_s, progress, journal = transaction.expires_s, LockProgress(), WatchedJournal(path, transaction)
    while True:
        try:
            status, expires_s = journal.state()
            if status not in OPEN or status == KEPT:
                return DONE
            late_s = _late_s(expires_s)
            if (status != LEASED or late_s >= 0) and not _recover(path, late_s if status != UNDOING else 0.0, progress):
                time.sleep(AGAIN_S)
        except JournalBehind:
            return DONE
        except Exception:
            # A journal that cannot be read or written (its disk went read-only) must not keep rules past their lease.
            with suppress(Exception):
                if _late_s(expires_s) >= OVERRUN_S:
                    _undo_without_journal(transaction, path)
                    return DONE
            time.sleep(AGAIN_S)
        time.sleep(POLL_S)


class WatchedJournal:
    """The journal's word on one transaction, read again once its files were written: a reading takes 3 ms."""

    def __init__(self, path: Path, transaction: Transaction) -> None:
        self._path, self._transaction = path, transaction
        self._files = (path, path.with_name(path.name + "-wal"))
        self._found, self._due_s = ("", 0.0), 0.0
        self._stamps: list[tuple[int, int, int]] = []

    def state(self) -> tuple[str, float]:
        """Return status and end of the lease, as `_state`. Errors: those of the journal."""
        stamps, now_s = [_stamp(file) for file in self._files], time.monotonic()
        if stamps != self._stamps or now_s >= self._due_s or self._found[0] != LEASED:
            self._stamps = []
            self._found = _state(self._path, self._transaction)
            # Another write within this tick of the file system's clock would not show.
            if time.time_ns() - max(written_ns for *_, written_ns in stamps) >= APART_S * 1e9:
                self._stamps, self._due_s = stamps, now_s + READ_S
        return self._found


def _stamp(file: Path) -> tuple[int, int, int]:
    """Return a file's number, size and time, ns; zeros where there is none."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_size, found.st_mtime_ns


def _state(path: Path, transaction: Transaction) -> tuple[str, float]:
    """Return status and end of the lease, s since boot; undo a transaction whose database was removed."""
    if path.exists():
        return read_only(path, lambda journal: journal.state(transaction.id))
    _undo_without_journal(transaction, path)
    return UNDONE, 0.0


def _late_s(expires_s: float) -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME) - expires_s


def _undo_without_journal(transaction: Transaction, path: Path) -> None:
    """Undo a transaction whose database was removed or fails, so that no command can renew or keep it.

    Restore the kept transaction below it, where the database can still be read. Errors: the driver's.
    """
    driver, base, gone = load(transaction.driver, transaction.place), None, is_gone(transaction.place)
    with suppress(*([BadInput] if gone else [])):
        revert_unjournaled(driver, transaction.place, transaction.before)
    with suppress(ConfigtronError, OSError):
        base = read_only(path, lambda journal: journal.act(transaction.over)) if transaction.over else None
    if base is not None and not gone:
        write(driver, Rules(), base.rules)
    if not path.exists():
        release_database(path)


class LockProgress:
    """The processor time of the lock holder at earlier checks: a holder that uses none hangs."""

    def __init__(self) -> None:
        self._seen, self._since_s = ("", 0), 0.0

    def hangs(self, process: str, now_s: float) -> bool:
        """Return whether that process used no processor time for too long, by the calls before."""
        seen = (process, used(process))
        if seen != self._seen:
            self._seen, self._since_s = seen, now_s
        return now_s - self._since_s >= IDLE_S


def _recover(path: Path, late_s: float, progress: LockProgress) -> bool:
    """Recover due transactions if no other process acts; kill a lock holder that hangs. Return False if nothing ended.

    Wait for a slow apply, even past the end of a lease; its own lease starts when it finishes.
    """
    try:
        with exclusive_lock(path, 0), Tuning(path) as journal:
            return bool(recover_due(context_of(journal)))
    except Refused:
        hangs = progress.hangs(lock_holder(path), time.monotonic())
        if late_s > OVERRUN_S and (hangs or late_s > ENDLESS_S):
            end(lock_holder(path), signal.SIGKILL)
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
