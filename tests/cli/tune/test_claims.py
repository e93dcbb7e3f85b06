# SPDX-License-Identifier: MIT
"""One database a namespace: the second is refused, with whose it is; who died, or is done, keeps nobody out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.tune_ground import Ground, ground
from configtron.cli.tune import claims
from configtron.cli.tune.acting import undo
from configtron.cli.tune.claims import abandoned, claimed, other, released
from configtron.cli.tune.desk import Desk, desk
from configtron.cli.tune.processes import end, ended
from configtron.db.tuning import Tuning
from configtron.model.errors import DONE, REFUSED, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.tune.drivers import FOR_TRIALS
from configtron.tune.journal import KEPT, LEASED, UNDONE, Act
from configtron.tune.rules import difference
from tests.cli.tune.memory import Stack, stack

__all__ = ["stack"]

PATIENCE_S = 30.0
HERE = Place()


@pytest.fixture
def desks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, Desk]]:
    """Two databases of one host, whose claims are not the host's own."""
    monkeypatch.setattr(claims, "FOLDER", tmp_path / "run")
    with Tuning(tmp_path / "one.db") as one, Tuning(tmp_path / "two.db") as two:
        yield desk(one), desk(two)


def held(at: Desk, place: Place = HERE, status: str = KEPT) -> Act:
    """An act with its claim, as `enforce` begins one. Nothing is written to the stack."""
    with claimed(at, "route", place):
        return at.book.begin(Act("route", place, at.space_of(place), at.boot, status, "{}", Rules()))


def folder() -> list[Path]:
    return list(claims.FOLDER.iterdir()) if claims.FOLDER.exists() else []


def test_the_second_is_refused_with_whose_it_is(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    act = held(one)
    with pytest.raises(Refused, match=rf"act {act.id} \(route, kept\) of another database, {one.book.path}, is in"):
        held(two)
    told = other(two, "route", HERE)
    assert f"configtron --db {one.book.path} tune rollback" in told and "\n" not in told
    assert two.book.acts() == [] and other(one, "route", HERE) == ""
    held(one)


def test_whose_act_is_over_keeps_nobody_out(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    one.book.put(held(one).closed(UNDONE, "rollback"))
    held(two)
    with pytest.raises(Refused, match="two.db"):
        held(one)


def test_whoever_died_between_claim_and_journal_keeps_nobody_out(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    with suppress(KeyboardInterrupt), claimed(one, "route", HERE):
        raise KeyboardInterrupt
    assert len(folder()) == 1
    held(two)


def test_a_claim_that_stands_is_not_written_anew(desks: tuple[Desk, Desk]) -> None:
    """Or whoever is killed between emptying and writing it leaves an act that no other database sees."""
    held(desks[0])
    (file,) = folder()
    os.utime(file, ns=(0, 0))
    held(desks[0])
    assert file.stat().st_mtime_ns == 0


def test_claims_that_say_nothing_are_taken_away(desks: tuple[Desk, Desk]) -> None:
    claims.FOLDER.mkdir()
    (claims.FOLDER / "left").touch()
    released(desks[1])
    assert folder() == []


def test_a_path_is_any_bytes(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    odd = os.fsdecode(os.fsencode(one.book.path.parent) + b"/a\xff\r.db")
    with Tuning(Path(odd)) as book:
        act = held(desk(book))
        assert f"act {act.id} (route, kept) of another database, {odd}," in other(two, "route", HERE)
        assert other(desk(book), "route", HERE) == ""


def test_a_database_that_is_gone_keeps_nobody_out(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    held(one)
    one.book.path.rename(one.book.path.with_name("away"))
    held(two)


def test_a_database_that_cannot_be_read_keeps_others_out(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    held(one)
    one.book.close()
    for file in one.book.path.parent.glob("one.db*"):
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(Refused, match=f"cannot be read .*remove {folder()[0]}"):
        held(two)


def test_claims_go_with_what_they_are_for(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    act, group = held(one), held(one, Place(cgroup="/web"))
    assert len(folder()) == 2, "another control group is another place"
    released(two)
    abandoned(two.book.path)
    assert len(folder()) == 2, "not ours to take away"
    one.book.put(group.closed(UNDONE, ""))
    released(one)
    assert len(folder()) == 1
    with pytest.raises(Refused):
        held(two)
    one.book.put(act.closed(UNDONE, ""))
    released(one)
    assert folder() == []
    held(one)
    abandoned(one.book.path)
    assert folder() == []


def test_another_boot_and_another_namespace_are_other_places(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    held(Desk(one.book, "an-earlier-boot", one.space))
    held(two)
    # The same file, but the act in it was made elsewhere.
    two.book.put(*(act.closed(UNDONE, "") for act in two.book.acts()))
    with claimed(one, "route", HERE):
        one.book.begin(Act("route", HERE, "net:[1]", one.boot, KEPT, "{}", Rules()))
    held(two)


def test_a_namespace_that_was_made_anew_is_left_to_whom_it_is_now(
    desks: tuple[Desk, Desk], stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, and with it the place in the journal, is the same; what the first act set went with the old one."""
    monkeypatch.setattr(claims, "FOR_TRIALS", "")
    one, two = desks

    def begun(at: Desk, rules: Rules) -> Act:
        stack.driver.apply(difference(stack.rules, rules))
        with claimed(at, "memory", HERE):
            return at.book.begin(Act("memory", HERE, at.space, at.boot, LEASED, "{}", rules))

    first = begun(one, Rules({"web": Profile("web", (("initcwnd", 20),))}, {"10.1.0.0/16": "web"}))
    theirs = Rules({"far": Profile("far", (("initcwnd", 30),))}, {"10.1.0.0/16": "far"})
    # The new one has a cookie of its own: no claim of the first is there.
    folder()[0].unlink()
    second = begun(two, theirs)
    assert undo(one, first, "lease ended").status == UNDONE and stack.rules == theirs
    assert [act.status for act in one.book.acts()] == [UNDONE]
    assert undo(two, second, "lease ended").status == UNDONE and stack.rules == Rules()


def test_what_sets_nothing_of_the_host_claims_nothing(desks: tuple[Desk, Desk]) -> None:
    one, two = desks
    with claimed(one, FOR_TRIALS, HERE):
        pass
    assert folder() == [] and other(two, FOR_TRIALS, HERE) == ""


def test_who_claims_just_now_is_not_passed_over(desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was stopped there, or whose disk is slow."""
    monkeypatch.setattr(claims, "locked", lambda *_: False)
    with pytest.raises(Refused, match="another apply is claiming"):
        held(desks[0])
    assert desks[0].book.acts() == []


def test_where_no_claim_can_be_kept_a_warning_is(
    desks: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "FOLDER", Path("/proc/no/such/folder"))
    held(desks[0])
    assert "another database that acts here would not be noticed" in caplog.text


def said(here: Ground, database: str, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "configtron", "--db", str(here.folder / database), "tune", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.root
def test_two_databases_on_one_host_do_not_undo_each_other() -> None:
    with ground("route") as here:
        baseline = here.state()
        here.run("apply", *here.where, "--lease", "60")
        inside = here.state()
        said(here, "two.db", "profile", "set", "mine", "initcwnd=7")
        said(here, "two.db", "prefix", "set", "10.9.0.0/16", "mine")
        code, told = said(here, "two.db", "apply", *here.where, "--lease", "1")
        assert code == REFUSED and f"--db {here.database} tune rollback" in told and told.count("\n") == 1
        assert "apply will be refused: act 1 (route, leased)" in said(here, "two.db", "plan", *here.where)[1]
        assert said(here, "two.db", "rollback", *here.where)[0] == REFUSED
        assert said(here, "two.db", "rollback")[0] == DONE and here.state() == inside
        # Killed with its keeper, the first still holds it; mended, it does not.
        ((_, _, keeper),) = here.open_acts()
        end(keeper, signal.SIGKILL)
        assert ended(keeper, PATIENCE_S) and said(here, "two.db", "apply", *here.where)[0] == REFUSED
        here.run("rollback")
        assert here.state() == baseline
        assert said(here, "two.db", "apply", *here.where, "--lease", "60")[0] == DONE
        assert said(here, "two.db", "rollback")[0] == DONE and here.state() == baseline
        kept = [file for file in folder() if file.read_text().startswith(str(here.folder))]
        assert kept == [], os.listdir(here.folder)
