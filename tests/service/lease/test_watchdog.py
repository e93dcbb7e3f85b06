# SPDX-License-Identifier: MIT
"""Keepers as processes: they undo what is due, and go when there is nothing to keep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.model.errors import Missing, Refused
from configtron.model.tuning import Place, Rules
from configtron.service.lease import watchdog, watchdog_process
from configtron.service.lease.apply_transaction import apply_rules
from configtron.service.lease.context import LeaseContext, exclusive_lock, lock_holder, lock_path
from configtron.service.lease.processes import alive, end, ended, named, this_process, used
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.journal import BEGUN, KEPT, LEASED, UNDONE, WRITING, Transaction
from tests.support.children import child
from tests.support.memory_stack import here
from tests.support.waiting import PATIENCE_S, until

__all__ = ["here"]


def begun(here: LeaseContext, status: str, lease_s: float) -> Transaction:
    """An act of the memory driver, of which there is nothing to revert, so that only the journal shows it."""
    act = Transaction("memory", Place(), here.namespace, here.boot, status, "{}", Rules(), lease_s=lease_s)
    return here.journal.begin(replace(act, expires_s=here.now_s() + lease_s))


def outcome(here: LeaseContext, act: Transaction) -> tuple[str, str]:
    found = here.journal.act(act.id)
    assert found is not None
    return found.status, found.why


def test_a_lease_that_ends_is_undone_and_its_watchdog_ends(here: LeaseContext) -> None:
    act = begun(here, LEASED, 1.0)
    lease_watchdog = watchdog_process.start(here, act.id)
    assert alive(lease_watchdog) and here.journal.act(act.id) == replace(act, watchdog=lease_watchdog)
    assert watchdog_process.is_watched(replace(act, watchdog=lease_watchdog)) and not watchdog_process.is_watched(act)
    assert ended(lease_watchdog, PATIENCE_S) and outcome(here, act) == (UNDONE, "lease ended")


@pytest.mark.parametrize(("status", "why"), [(WRITING, "killed while it wrote"), (BEGUN, "killed before it wrote")])
def test_who_died_leaves_the_lock_and_is_mended_at_once(here: LeaseContext, status: str, why: str) -> None:
    act = begun(here, status, 3600.0)
    with exclusive_lock(here.journal.path):
        lease_watchdog = watchdog_process.start(here, act.id)
        # Another process is at work: nothing is mended.
        assert not ended(lease_watchdog, 3 * watchdog_process.POLL_S) and outcome(here, act) == (status, "")
    assert ended(lease_watchdog, PATIENCE_S) and outcome(here, act) == (UNDONE, why)


def kept_busy() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "while True: pass"])


def test_who_is_slow_is_waited_for_but_not_for_ever_and_who_hangs_is_not(here: LeaseContext) -> None:
    """The lock is in another's hand long past the end of a lease: what he does decides, not how long he takes."""
    path = here.journal.path
    begun(here, WRITING, 1.0)
    with exclusive_lock(path), kept_busy() as busy:
        lock_path(path).write_text(named(busy.pid))
        other, at_s = watchdog.LockProgress(), 0.0
        for _ in range(3):
            before = used(named(busy.pid))
            until(lambda before=before: used(named(busy.pid)) != before)
            at_s += 2 * watchdog.IDLE_S
            assert not other.hangs(lock_holder(path), at_s)
            assert watchdog._recover(path, at_s + watchdog.OVERRUN_S, watchdog.LockProgress())
            assert alive(named(busy.pid))
        busy.send_signal(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{busy.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        assert not other.hangs(lock_holder(path), at_s)
        assert not other.hangs(lock_holder(path), at_s + 0.9 * watchdog.IDLE_S)
        assert other.hangs(lock_holder(path), at_s + watchdog.IDLE_S)
        idle = watchdog.LockProgress()
        idle.hangs(lock_holder(path), time.monotonic() - watchdog.IDLE_S)
        assert watchdog._recover(path, 0.9 * watchdog.OVERRUN_S, idle)
        assert busy.poll() is None, "the lease has just ended"
        assert watchdog._recover(path, 1.1 * watchdog.OVERRUN_S, idle)
        assert busy.wait(PATIENCE_S) == -signal.SIGKILL
        with kept_busy() as endless:
            lock_path(path).write_text(named(endless.pid))
            assert watchdog._recover(path, 1.1 * watchdog.ENDLESS_S, watchdog.LockProgress())
            assert endless.wait(PATIENCE_S) == -signal.SIGKILL


@pytest.mark.parametrize("status", [KEPT, UNDONE])
def test_nothing_to_keep(here: LeaseContext, status: str) -> None:
    act = begun(here, LEASED, 3600.0)
    lease_watchdog = watchdog_process.start(here, act.id)
    here.journal.put(replace(act, status=status))
    watchdog_process.dismiss(replace(act, watchdog=lease_watchdog))
    assert not alive(lease_watchdog) and outcome(here, act) == (status, "")


def test_a_kept_transaction_has_no_watchdog_left(here: LeaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lived on for a moment would take the next rollback, asked for elsewhere, for its own."""
    started, start = list[str](), watchdog_process.start

    def noted(context_: LeaseContext, number: int) -> str:
        started.append(start(context_, number))
        return started[-1]

    monkeypatch.setattr(watchdog_process, "start", noted)
    with exclusive_lock(here.journal.path):
        act = apply_rules(here, MemoryDriver(Place()), Place(), Rules(), Rules(), 0.0, 0)
    assert act.status == KEPT and len(started) == 1 and not alive(started[0])


def test_a_watchdog_that_cannot_start_is_reported(here: LeaseContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(Missing, match="nothing was written"):
        watchdog_process.start(here, begun(here, BEGUN, 1.0).id)


def test_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with exclusive_lock(path):
        assert lock_holder(path) == this_process()
        with pytest.raises(Refused, match=f"process {os.getpid()} is acting"), exclusive_lock(path, 0):
            pass
    with exclusive_lock(path, 0):
        pass
    assert lock_path(path).exists()


def test_processes_are_known_by_number_and_start() -> None:
    assert alive(this_process()) and not alive("") and not alive(f"{os.getpid()} 1")
    with child(["sleep", "60"]) as sleeping:
        name = named(sleeping.pid)
        # Another process of that number: not the one that is meant.
        end(f"{sleeping.pid} 1", signal.SIGKILL)
        assert alive(name) and not ended(name, 0.1)
        end(name, signal.SIGKILL)
        assert ended(name, PATIENCE_S) and named(sleeping.pid) == ""
    end(name, signal.SIGKILL)
