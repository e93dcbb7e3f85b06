# SPDX-License-Identifier: MIT
"""A disk that is full or went read-only, a database that is damaged: what is due is undone all the same."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import DONE, NOTHING, USAGE, BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service.lease import watchdog, watchdog_process
from configtron.service.lease.apply_transaction import apply_rules
from configtron.service.lease.context import LeaseContext, exclusive_lock, lock_path
from configtron.service.lease.processes import ended
from configtron.service.lease.recovery import recover_due
from configtron.service.lease.undo import JournalBehind
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.journal import KEPT, LEASED, UNDONE, Transaction
from tests.support.memory_stack import Stack
from tests.support.tune_command import TuneCommand
from tests.support.waiting import PATIENCE_S

ONE = Rules({"web": Profile("web", (("initcwnd", 20),))}, {"10.1.0.0/16": "web"}, "")
TWO = Rules({"web": Profile("web", (("initcwnd", 30),))}, {"10.2.0.0/16": "web"}, "web")
BEHIND = "what stood before is back, but not in the journal"


@pytest.fixture
def leased(here: LeaseContext, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Transaction:
    """One transaction that is kept, and over it one whose lease ends."""
    with monkeypatch.context() as alone:
        alone.setattr(watchdog_process, "start", lambda lease_context, act: "")
        driver = MemoryDriver(Place())
        for rules, lease_s in ((ONE, 0.0), (TWO, 60.0)):
            act = apply_rules(here, driver, Place(), driver.read(), rules, lease_s, 0)
    return act


@pytest.fixture
def database(wanted: TuneCommand, stack: Stack, tmp_path: Path) -> Path:
    """Where the commands of `wanted` have theirs; one transaction is kept."""
    assert wanted("apply", "--driver", "memory", "--keep")[0] == DONE
    return tmp_path / "XDG_DATA_HOME" / "configtron" / "configtron.db"


def full(*_: object) -> None:
    raise BadInput("t.db: no space left on the device")


def fill(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("put", "note", "set_watchdog"):
        monkeypatch.setattr(Tuning, name, full)


def close(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that went read-only."""
    whole = Tuning.__init__

    def read_only(book: Tuning, at: Path, **how: bool) -> None:
        if not how.get("traceless"):
            raise BadInput(f"{at}: cannot be opened")
        whole(book, at, **how)

    monkeypatch.setattr(Tuning, "__init__", read_only)


def unlockable(database: Path) -> Path:
    """As open() for writing fails where the file system is read-only."""
    lock_path(database).unlink(missing_ok=True)
    lock_path(database).mkdir()
    return lock_path(database)


def test_a_full_disk_keeps_nothing_in_force(
    here: LeaseContext, stack: Stack, leased: Transaction, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.journal.renew(leased.id, here.now_s() - 1)
    with monkeypatch.context() as disk:
        fill(disk)
        with pytest.raises(JournalBehind, match="is back, but not in the journal: .*no space left"):
            recover_due(here)
        assert stack.rules == ONE
    assert [one.why for one in recover_due(here)] == ["lease ended"], "once there is room again, the journal says so"
    assert stack.rules == ONE and [one.status for one in here.journal.acts()] == [KEPT, UNDONE]


def test_rollback_on_a_full_disk(
    wanted: TuneCommand, stack: Stack, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as disk:
        fill(disk)
        disk.setattr(watchdog_process, "start", lambda lease_context, act: lease_context.journal.set_watchdog(act, ""))
        code, _, message = wanted("rollback")
        assert code == NOTHING and BEHIND in message
    assert stack.rules == Rules() and wanted("rollback")[0] == DONE


@pytest.mark.parametrize("locked", [True, False])
def test_rollback_where_the_journal_cannot_be_opened(
    wanted: TuneCommand, stack: Stack, database: Path, monkeypatch: pytest.MonkeyPatch, locked: bool
) -> None:
    """A read-only disk: a kept transaction is undone only on request."""
    with monkeypatch.context() as disk:
        close(disk)
        disk.setattr(import_module("configtron.service.lease.roll_back"), "load", lambda *_: stack.driver)
        if not locked:
            unlockable(database)
        assert wanted("rollback", "--last")[0] == wanted("rollback", "--cgroup", "/elsewhere")[0] == USAGE
        assert stack.rules != Rules()
        for _ in range(2):
            code, _, message = wanted("rollback")
            assert code == NOTHING and f"transaction 1 (memory): {BEHIND}" in message
            assert stack.rules == Rules() and message.count("\n") == 1
    if not locked:
        lock_path(database).rmdir()
    assert wanted("rollback", "-f", "csv")[1].splitlines()[1:] == ["1,memory,kept,undone,rollback"]


def test_who_cannot_sign_the_lock_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full_disk)
    with exclusive_lock(tmp_path / "t.db"):
        pass


@pytest.mark.parametrize("readable", [True, False])
def test_one_driver_that_fails_does_not_keep_others_in_force(
    wanted: TuneCommand, stack: Stack, database: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    with Tuning(database) as book:
        (act,) = book.acts()
        book.put(replace(act, status=UNDONE))
        book.begin(replace(act, driver="absent"))
        book.begin(act)
    if not readable:
        close(monkeypatch)
    code, out, message = wanted("rollback", "-f", "csv")
    assert code == NOTHING and "transaction 2 (absent): no driver is called" in message and stack.rules == Rules()
    assert "3,memory,kept,undone" in out if readable else f"transaction 3 (memory): {BEHIND}" in message


@pytest.mark.parametrize("fault", ["damaged", "read-only"])
def test_a_watchdog_whose_journal_fails_undoes_what_is_due(
    here: LeaseContext, stack: Stack, leased: Transaction, fault: str
) -> None:
    act = replace(leased, expires_s=here.now_s() - watchdog.OVERRUN_S)
    path = here.journal.path
    if fault == "damaged":
        here.journal.close()
        path.write_bytes(b"no database\n" * 1000)
    else:
        here.journal.renew(act.id, act.expires_s)
        unlockable(path)
    assert watchdog._watch(path, act) == DONE
    assert stack.rules == (Rules() if fault == "damaged" else ONE), "what was kept before comes back if it can be read"


def test_a_watchdog_imports_nothing_from_where_it_is_started(
    here: LeaseContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "elsewhere" / "configtron"
    planted.mkdir(parents=True)
    (planted / "__init__.py").write_text("raise SystemExit('planted')\n")
    monkeypatch.chdir(planted.parent)
    act = Transaction("memory", Place(), here.namespace, here.boot, LEASED, "{}", Rules(), lease_s=1.0)
    act = here.journal.begin(replace(act, expires_s=here.now_s() + 1.0))
    lease_watchdog = watchdog_process.start(here, act.id)
    assert Path(f"/proc/{lease_watchdog.split()[0]}/cwd").readlink() == Path("/")
    assert ended(lease_watchdog, PATIENCE_S)
