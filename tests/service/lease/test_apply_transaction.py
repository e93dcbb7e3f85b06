# SPDX-License-Identifier: MIT
"""An apply transaction is all in force or all undone, whatever fails; the next process completes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput, Mismatch, Missing
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.lease import context, watchdog_process
from configtron.service.lease.apply_transaction import apply_rules, keep_transaction
from configtron.service.lease.context import LeaseContext
from configtron.service.lease.recovery import GONE, recover_due
from configtron.service.lease.undo import undo
from configtron.tune.drivers.memory import MemoryDriver
from configtron.tune.journal import BEGUN, KEPT, LEASED, OPEN, REPLACED, UNDOING, UNDONE, WRITING, Transaction
from tests.support.memory_stack import Stack, stack

__all__ = ["stack"]

ONE = Rules({"web": Profile("web", (("initcwnd", 20),))}, {"10.1.0.0/16": "web", "10.2.0.0/16": "web"}, "")
TWO = Rules({"web": Profile("web", (("initcwnd", 30),))}, {"10.1.0.0/16": "web"}, "web")


@dataclass(frozen=True)
class Later(LeaseContext):
    """A context whose clock is ahead."""

    ahead_s: float = 0.0

    def now_s(self) -> float:
        return 1000.0 + self.ahead_s


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Later]:
    """A context without watchdogs: time passes when the test lets it."""
    monkeypatch.setattr(watchdog_process, "start", lambda context, act: "")
    with Tuning(tmp_path / "t.db") as book:
        yield Later(book, "boot-1", "net:[1]")


def enforce(here: LeaseContext, target: Rules, lease_s: float = 60.0) -> Transaction:
    driver = MemoryDriver(Place())
    return apply_rules(here, driver, Place(), driver.read(), target, lease_s, 0)


def statuses(here: LeaseContext) -> list[str]:
    return [act.status for act in here.journal.acts()]


def test_apply_then_undo(here: Later, stack: Stack) -> None:
    act = enforce(here, ONE)
    assert (act.status, act.expires_s, act.space, act.boot) == (LEASED, 1060.0, "net:[1]", "boot-1")
    assert stack.rules == ONE and here.journal.act(1) == act
    undo(here, act, "rollback")
    assert stack.rules == Rules() and statuses(here) == [UNDONE]
    undo(here, act, "rollback")
    assert stack.rules == Rules() and statuses(here) == [UNDONE]


def test_a_lease_that_ends_is_undone_and_one_that_lasts_is_not(here: Later, stack: Stack) -> None:
    enforce(here, ONE)
    assert recover_due(replace(here, ahead_s=59.9)) == [] and stack.rules == ONE
    (ended,) = recover_due(replace(here, ahead_s=60.0))
    assert (ended.status, ended.why) == (UNDONE, "lease ended") and stack.rules == Rules()
    assert recover_due(replace(here, ahead_s=60.0)) == []


def test_a_lease_begins_when_all_is_in_force(here: Later, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that takes longer than the lease: what it set stays for the whole of it."""
    fast, done = MemoryDriver.apply, replace(here, ahead_s=30.0)
    clock = {"desk": here}

    def slow(driver: MemoryDriver, changes: Changes) -> Rules:
        (act,) = here.journal.acts()
        assert act.status == WRITING
        clock["desk"] = done
        return fast(driver, changes)

    monkeypatch.setattr(MemoryDriver, "apply", slow)
    monkeypatch.setattr(Later, "now_s", lambda _: 1000.0 + clock["desk"].ahead_s)
    act = enforce(here, ONE, 1.0)
    assert (act.status, act.expires_s) == (LEASED, 1031.0)


def test_what_was_kept_comes_back_when_a_later_lease_ends(here: Later, stack: Stack) -> None:
    enforce(here, ONE, 0.0)
    assert statuses(here) == [KEPT]
    enforce(here, TWO)
    assert statuses(here) == [REPLACED, LEASED] and stack.rules == TWO
    # A third over the second, which was not kept: there is still only the first to go back to.
    enforce(here, ONE)
    assert statuses(here) == [REPLACED, REPLACED, LEASED]
    recover_due(replace(here, ahead_s=61.0))
    assert stack.rules == ONE and statuses(here) == [KEPT, REPLACED, UNDONE]
    # And rollback leaves nothing at all, of a later one and of the kept one below it.
    undo(here, enforce(here, TWO), "rollback", wholly=True)
    assert stack.rules == Rules() and statuses(here) == [UNDONE, REPLACED, UNDONE, UNDONE]
    enforce(here, ONE, 0.0)
    (kept,) = here.journal.acts(KEPT)
    undo(here, kept, "rollback", wholly=True)
    assert stack.rules == Rules() and statuses(here)[-1] == UNDONE


def test_an_act_that_takes_all_away_is_undone_like_any_other(here: Later, stack: Stack) -> None:
    enforce(here, ONE, 0.0)
    act = enforce(here, Rules())
    assert stack.rules == Rules() and here.journal.act(act.id) == act and act.before == "{}"
    stack.fail_revert = Missing("no device")
    recover_due(replace(here, ahead_s=61.0))
    (left,) = here.journal.acts(UNDOING)
    assert left.before == "{}", "what is to be handed to the driver is kept until it is done"
    stack.fail_revert = None
    recover_due(replace(here, ahead_s=61.0))
    assert stack.rules == ONE and statuses(here) == [KEPT, UNDONE]
    # And the kept one takes nothing away, kept in its turn.
    keep_transaction(here, enforce(here, Rules()))
    enforce(here, TWO)
    recover_due(replace(here, ahead_s=61.0))
    (kept,) = here.journal.acts(KEPT)
    assert (kept.rules, kept.before) == (Rules(), "{}") and stack.rules == Rules()


def test_keeping_a_later_act_lets_go_of_the_earlier(here: Later, stack: Stack) -> None:
    enforce(here, ONE, 0.0)
    keep_transaction(here, enforce(here, TWO))
    assert statuses(here) == [REPLACED, KEPT]
    first, second = here.journal.acts()
    assert first.rules == Rules() and second.over == 0
    recover_due(replace(here, ahead_s=1e6))
    assert stack.rules == TWO


@pytest.mark.parametrize(
    "error", [BadInput("no such"), Missing("gone"), KeyboardInterrupt(), RuntimeError("a mistake"), None]
)
def test_an_apply_that_fails_leaves_nothing(here: Later, stack: Stack, error: Exception | None) -> None:
    """None: what was written does not read back, and is named."""
    stack.fail_apply, stack.lose = error, error is None
    lost = r"driver memory.*10\.1\.0\.0/16 profile: web -> none$"
    with pytest.raises(type(error or Mismatch()), match=None if error else lost):
        enforce(here, ONE)
    assert stack.rules == Rules() and statuses(here) == [UNDONE]


def test_a_failed_apply_over_a_kept_one_goes_back_to_it(here: Later, stack: Stack) -> None:
    enforce(here, ONE, 0.0)
    stack.lose = True
    more = Rules(ONE.profiles, {**ONE.prefixes, "10.3.0.0/16": "web", "10.4.0.0/16": "web"}, "")
    with pytest.raises(
        Mismatch, match=r"does not read back as written: 10\.3\.0\.0/16 profile: web -> none; and.*not put back yet"
    ):
        enforce(here, more)
    # What comes back is read back too: while the stack loses rules, the act stays open, with the reason.
    assert statuses(here)[-1] == UNDOING
    stack.lose = False
    recover_due(here)
    assert stack.rules == ONE and statuses(here) == [KEPT, UNDONE]


@pytest.mark.parametrize("status", [WRITING, UNDOING])
def test_what_was_left_half_done_is_undone(here: Later, stack: Stack, status: str) -> None:
    act = enforce(here, ONE)
    here.journal.put(replace(act, status=status))
    assert [one.status for one in recover_due(here)] == [UNDONE]
    assert stack.rules == Rules()


def test_what_was_never_written_is_forgotten(here: Later, stack: Stack) -> None:
    """A leased act stands, and the one after it died before it wrote: the first goes on."""
    first = enforce(here, ONE)
    here.journal.begin(replace(first, status=BEGUN, rules=TWO))
    assert [one.why for one in recover_due(here)] == ["killed before it wrote"]
    assert stack.rules == ONE and statuses(here) == [LEASED, UNDONE]


def test_after_a_reboot_nothing_is_written(here: Later, stack: Stack) -> None:
    enforce(here, ONE, 0.0)
    enforce(here, TWO)
    other = replace(here, boot="boot-2", ahead_s=1e6)
    stack.fail_revert = AssertionError("reverted")
    assert {one.why for one in recover_due(other)} == {"reboot"}
    assert not here.journal.acts(*OPEN)


@pytest.mark.parametrize(
    ("space", "ended"),
    [(os.readlink("/proc/self/ns/net"), []), pytest.param("net:[1]", [GONE], marks=pytest.mark.root)],
)
def test_acts_of_another_namespace_are_left_alone_unless_that_is_gone(
    here: Later, stack: Stack, space: str, ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "FIRST_PROCESSES", os.readlink("/proc/self/ns/pid"))
    enforce(replace(here, namespace=space), ONE)
    assert recover_due(replace(here, namespace="net:[2]")) == [], "its lease has time left"
    assert [one.why for one in recover_due(replace(here, namespace="net:[2]", ahead_s=1e6))] == ended
    assert stack.rules == ONE and statuses(here) == [UNDONE if ended else LEASED]


@pytest.mark.parametrize("status", [LEASED, KEPT, WRITING])
def test_acts_of_a_namespace_that_is_gone_end(here: Later, stack: Stack, status: str) -> None:
    """Whatever its driver keeps outside of the namespace goes; that the driver finds no namespace is no fault."""
    act = enforce(here, ONE)
    here.journal.put(act.closed(UNDONE, ""))
    other = replace(act, place=Place(netns="there-is-none"), space="", status=status)
    here.journal.begin(other)
    assert [one.why for one in recover_due(here)] == [GONE]
    assert stack.rules == Rules(), "a program that is pinned outlives the namespace it was for"
    here.journal.begin(other)
    stack.fail_revert = BadInput("no network namespace is called 'there-is-none'")
    assert [one.why for one in recover_due(here)] == [GONE]
    assert not here.journal.acts(*OPEN)


def test_a_revert_that_fails_is_reported_and_tried_again(here: Later, stack: Stack) -> None:
    act = enforce(here, ONE)
    stack.fail_revert = Missing("no device")
    late = replace(here, ahead_s=61.0)
    assert recover_due(late) == [] == recover_due(late)
    (left,) = here.journal.acts(UNDOING)
    assert left.why == "lease ended; not undone yet: no device" and left.id == act.id
    stack.fail_revert = None
    assert [one.why for one in recover_due(late)] == ["lease ended"]
    assert stack.rules == Rules()


def test_one_driver_that_fails_does_not_keep_another_from_being_mended(here: Later, stack: Stack) -> None:
    enforce(here, ONE)
    act = here.journal.begin(replace(here.journal.acts()[0], driver="absent"))
    assert [one.driver for one in recover_due(replace(here, ahead_s=61.0))] == ["memory"]
    (left,) = here.journal.acts(UNDOING)
    assert left.id == act.id and "no driver is called" in left.why
