# SPDX-License-Identifier: MIT
"""One database a namespace: the second is refused with the owner's name; a dead or finished owner refuses none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.errors import DONE, REFUSED, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service.lease import ownership
from configtron.service.lease.context import LeaseContext, context_of
from configtron.service.lease.ownership import other_owner, owned, release, release_database
from configtron.service.lease.processes import end, ended
from configtron.service.lease.undo import undo
from configtron.tune.drivers import FOR_TRIALS
from configtron.tune.journal import KEPT, LEASED, UNDONE, Transaction
from configtron.tune.rules import difference
from tests.support.memory_stack import Stack, stack
from tests.support.tune_sandbox import TuneSandbox, tune_sandbox
from tests.support.waiting import PATIENCE_S

__all__ = ["stack"]

HERE = Place()
Desks = tuple[LeaseContext, LeaseContext]


@pytest.fixture
def desks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desks]:
    """Two databases of one host, whose claims are not the host's own."""
    monkeypatch.setattr(ownership, "FOLDER", tmp_path / "run")
    with Tuning(tmp_path / "one.db") as one, Tuning(tmp_path / "two.db") as two:
        yield context_of(one), context_of(two)


def held(at: LeaseContext, place: Place = HERE, status: str = KEPT) -> Transaction:
    """An act with its claim, as `enforce` begins one. Nothing is written to the stack."""
    with owned(at, "route", place):
        return at.journal.begin(Transaction("route", place, at.namespace_of(place), at.boot, status, "{}", Rules()))


def folder() -> list[Path]:
    return list(ownership.FOLDER.iterdir()) if ownership.FOLDER.exists() else []


def test_the_second_is_refused_with_whose_it_is(desks: Desks) -> None:
    one, two = desks
    act = held(one)
    with pytest.raises(Refused) as caught:
        held(two)
    refusal = other_owner(two, "route", HERE)
    assert refusal == str(caught.value)
    assert f"transaction {act.id} (route, kept) of another database, {one.journal.path}, is in" in refusal
    assert f"configtron --db {one.journal.path} tune rollback" in refusal and "\n" not in refusal
    assert two.journal.acts() == [] and other_owner(one, "route", HERE) == ""
    held(one)


def test_a_death_between_claim_and_journal_keeps_no_database_out(desks: Desks) -> None:
    one, two = desks
    with suppress(KeyboardInterrupt), owned(one, "route", HERE):
        raise KeyboardInterrupt
    assert len(folder()) == 1
    held(two)


def test_a_claim_that_stands_is_not_written_anew(desks: Desks) -> None:
    """Or a process killed between emptying and writing it leaves a transaction that no other database sees."""
    held(desks[0])
    (file,) = folder()
    os.utime(file, ns=(0, 0))
    held(desks[0])
    assert file.stat().st_mtime_ns == 0


def test_claims_that_say_nothing_are_taken_away(desks: Desks) -> None:
    ownership.FOLDER.mkdir()
    (ownership.FOLDER / "left").touch()
    release(desks[1])
    assert folder() == []


def test_a_path_is_any_bytes(desks: Desks) -> None:
    one, two = desks
    odd = os.fsdecode(os.fsencode(one.journal.path.parent) + b"/a\xff\r.db")
    with Tuning(Path(odd)) as book:
        act = held(context_of(book))
        assert f"transaction {act.id} (route, kept) of another database, {odd}," in other_owner(two, "route", HERE)
        assert other_owner(context_of(book), "route", HERE) == ""


def test_a_missing_database_keeps_no_other_out(desks: Desks) -> None:
    one, two = desks
    held(one)
    one.journal.path.rename(one.journal.path.with_name("away"))
    held(two)


def test_a_database_that_cannot_be_read_keeps_others_out(desks: Desks) -> None:
    one, two = desks
    held(one)
    one.journal.close()
    for file in one.journal.path.parent.glob("one.db*"):
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(Refused, match=f"cannot be read .*remove {folder()[0]}"):
        held(two)


def test_claims_go_with_what_they_are_for(desks: Desks) -> None:
    one, two = desks
    act, group = held(one), held(one, Place(cgroup="/web"))
    assert len(folder()) == 2, "another control group is another place"
    release(two)
    release_database(two.journal.path)
    assert len(folder()) == 2, "not ours to take away"
    one.journal.put(group.closed(UNDONE, ""))
    release(one)
    assert len(folder()) == 1
    with pytest.raises(Refused):
        held(two)
    one.journal.put(act.closed(UNDONE, ""))
    release(one)
    assert folder() == []
    held(one)
    release_database(one.journal.path)
    assert folder() == []


def test_another_boot_and_another_namespace_are_other_places(desks: Desks) -> None:
    one, two = desks
    held(LeaseContext(one.journal, "an-earlier-boot", one.namespace))
    held(two)
    # The same file, but the act in it was made elsewhere.
    two.journal.put(*(act.closed(UNDONE, "") for act in two.journal.acts()))
    with owned(one, "route", HERE):
        one.journal.begin(Transaction("route", HERE, "net:[1]", one.boot, KEPT, "{}", Rules()))
    held(two)


def test_a_namespace_that_was_made_anew_is_left_to_whom_it_is_now(
    desks: Desks, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, and with it the place in the journal, is the same; what the first act set went with the old one."""
    monkeypatch.setattr(ownership, "FOR_TRIALS", "")
    one, two = desks

    def begun(at: LeaseContext, rules: Rules) -> Transaction:
        stack.driver.apply(difference(stack.rules, rules))
        with owned(at, "memory", HERE):
            return at.journal.begin(Transaction("memory", HERE, at.namespace, at.boot, LEASED, "{}", rules))

    first = begun(one, Rules({"web": Profile("web", (("initcwnd", 20),))}, {"10.1.0.0/16": "web"}))
    theirs = Rules({"far": Profile("far", (("initcwnd", 30),))}, {"10.1.0.0/16": "far"})
    # The new one has a cookie of its own: no claim of the first is there.
    folder()[0].unlink()
    second = begun(two, theirs)
    assert undo(one, first, "lease ended").status == UNDONE and stack.rules == theirs
    assert [act.status for act in one.journal.acts()] == [UNDONE]
    assert undo(two, second, "lease ended").status == UNDONE and stack.rules == Rules()


def test_what_sets_nothing_of_the_host_claims_nothing(desks: Desks) -> None:
    one, two = desks
    with owned(one, FOR_TRIALS, HERE):
        pass
    assert folder() == [] and other_owner(two, FOR_TRIALS, HERE) == ""


def test_who_claims_just_now_is_not_passed_over(desks: Desks, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped there, or whose disk is slow."""
    monkeypatch.setattr(ownership, "take_lock", lambda *_: False)
    with pytest.raises(Refused, match="another apply is claiming"):
        held(desks[0])
    assert desks[0].journal.acts() == []


def test_where_no_claim_can_be_kept_a_warning_is(
    desks: Desks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ownership, "FOLDER", Path("/proc/no/such/folder"))
    held(desks[0])
    assert "another database that acts here would not be noticed" in caplog.text


def run_tune(here: TuneSandbox, database: str, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "configtron", "--db", str(here.folder / database), "tune", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.root
def test_two_databases_on_one_host_do_not_undo_each_other() -> None:
    with tune_sandbox("route") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", "60")
        inside = here.state()
        run_tune(here, "two.db", "profile", "set", "mine", "initcwnd=7")
        run_tune(here, "two.db", "prefix", "set", "10.9.0.0/16", "mine")
        code, refusal = run_tune(here, "two.db", "apply", *here.where, "--lease", "1")
        assert code == REFUSED and f"--db {here.database} tune rollback" in refusal and refusal.count("\n") == 1
        plan = run_tune(here, "two.db", "plan", *here.where)[1]
        assert "apply will be refused: transaction 1 (route, leased)" in plan
        assert run_tune(here, "two.db", "rollback", *here.where)[0] == REFUSED
        assert run_tune(here, "two.db", "rollback")[0] == DONE and here.state() == inside
        # Killed with its watchdog, the first still holds it; mended, it does not.
        ((_, _, watchdog),) = here.open_acts()
        end(watchdog, signal.SIGKILL)
        assert ended(watchdog, PATIENCE_S) and run_tune(here, "two.db", "apply", *here.where)[0] == REFUSED
        here.run("rollback")
        assert here.state() == baseline
        assert run_tune(here, "two.db", "apply", *here.where, "--lease", "60")[0] == DONE
        assert run_tune(here, "two.db", "rollback")[0] == DONE and here.state() == baseline
        kept = [file for file in folder() if file.read_text().startswith(str(here.folder))]
        assert kept == [], os.listdir(here.folder)
