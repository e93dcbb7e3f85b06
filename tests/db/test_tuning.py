# SPDX-License-Identifier: MIT
"""What tuning keeps comes back; reading leaves no trace; a hundred thousand prefixes pass; rules
that a transaction takes over from another stay as long as one needs them."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.act_rules import LONG_BYTES
from configtron.db.read_only import read_only
from configtron.db.store import Store
from configtron.db.tuning import Tuning
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.journal import KEPT, LEASED, REPLACED, UNDONE, WRITING, Transaction
from configtron.tune.rules import after
from tests.support import ROOT

WEB = Profile("web", (("initcwnd", 20), ("tcp_congestion_control", "reno")))
RULES = Rules({"web": WEB}, {"10.1.0.0/16": "web", "2001:db8::/32": "web"}, "web")
ACT = Transaction("route", Place(netns="x"), "", "boot", WRITING, '{"a":1}', RULES, lease_s=5, expires_s=7.5)


@pytest.fixture
def book(tmp_path: Path) -> Tuning:
    return Tuning(tmp_path / "t.db")


def test_wanted_rules_come_back(book: Tuning) -> None:
    assert book.wanted() == Rules()
    book.set_profiles([WEB, Profile("small")])
    assert book.set_prefixes(RULES.prefixes) == 2
    assert book.set_prefixes({"10.1.0.0/16": "small"}) == 0
    book.set_default("web")
    assert book.wanted() == Rules(
        {"web": WEB, "small": Profile("small")}, {**RULES.prefixes, "10.1.0.0/16": "small"}, "web"
    )
    assert book.set_prefixes({"10.3.0.0/16": "web"}, whole=True) == -1
    assert book.drop_prefixes(["10.3.0.0/16", "10.4.0.0/16"]) == 1
    book.set_default("")
    assert book.drop_profile("web") and not book.drop_profile("web")
    assert book.wanted() == Rules({"small": Profile("small")})


def test_names_that_are_no_profile_are_refused_and_nothing_is_kept(book: Tuning) -> None:
    book.set_profiles([WEB])
    with pytest.raises(BadInput, match="no profile is called 'wbe'.*there is: web.*profile set wbe"):
        book.set_prefixes({"10.1.0.0/16": "web", "10.2.0.0/16": "wbe"})
    with pytest.raises(BadInput, match=r"^[^\n]*profile set NAME[^\n]*$"):
        book.set_prefixes({"10.1.0.0/16": "web\n"})
    with pytest.raises(BadInput, match="no profile"):
        book.set_default("wbe")
    assert book.wanted() == Rules({"web": WEB})
    book.set_prefixes({"10.1.0.0/16": "web"})
    with pytest.raises(BadInput, match="1 prefixes have it"):
        book.drop_profile("web")
    book.drop_prefixes(["10.1.0.0/16"])
    book.set_default("web")
    with pytest.raises(BadInput, match="the default is it"):
        book.drop_profile("web")


def test_the_salt_is_drawn_once(book: Tuning, tmp_path: Path) -> None:
    assert book.salt() == ""
    book.set_profiles([WEB])
    drawn = book.salt()
    book.set_profiles([WEB])
    assert drawn and book.salt() == drawn
    with Tuning(tmp_path / "other.db") as other:
        other.set_profiles([WEB])
        assert other.salt() != drawn


def test_mute_and_unmute(book: Tuning) -> None:
    book.acknowledge({"a": "known", "b": ""})
    assert book.acknowledged() == {"a": "known", "b": ""}
    assert book.unacknowledge(["a", "c"]) == 1 and book.acknowledged() == {"b": ""}


def test_acts_come_back(book: Tuning) -> None:
    act = book.begin(ACT)
    assert (act.id, act.rules) == (1, RULES) and act.begun_at
    assert book.act(1) == act == book.open_act("route", Place(netns="x"), "")
    assert book.open_act("route", Place(), "") is None and book.open_act("kmod", Place(netns="x"), "") is None
    assert book.open_act("route", Place(netns="x"), "net:[1]") is None
    leased = replace(act, status=LEASED, watchdog="1 2")
    second = book.begin(replace(ACT, driver="kmod"))
    book.put(leased, second.closed(UNDONE, "lease ended"))
    assert book.acts() == [leased, second.closed(UNDONE, "lease ended")]
    assert book.acts(LEASED, KEPT) == [leased]
    assert book.acts(LEASED, bare=True) == [replace(leased, rules=Rules())]
    assert book.in_force() == {1: LEASED}
    assert book.state(1) == (LEASED, 7.5) and book.state(99)[0] == UNDONE
    assert book.renew(1, 9.5) and not book.renew(2, 9.5)
    book.note(1, "trouble")
    book.set_watchdog(1, "3 4")
    assert book.act(1) == replace(leased, expires_s=9.5, why="trouble", watchdog="3 4")


def test_frozen_scopes(book: Tuning) -> None:
    act = book.begin(ACT)
    book.freeze(act, {"10.1.0.0/16": ("profile=web", ""), "default": ("", "profile=x")})
    assert [(frozen.scope, frozen.was, frozen.found) for frozen in book.frozen()] == [
        ("10.1.0.0/16", "profile=web", ""), ("default", "", "profile=x"),
    ]  # fmt: skip
    assert book.known(act.id) == {("10.1.0.0/16", ""), ("default", "profile=x")} and book.known(99) == set()
    assert book.unfreeze(["10.1.0.0/16", "10.9.0.0/16"]) == 1
    assert [frozen.scope for frozen in book.frozen()] == ["default"]
    assert book.unfreeze(None) == 1 and book.unfreeze(None) == 0


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.iterdir()}


WRITER = """
import os, signal, sys
from pathlib import Path
from configtron.db.tuning import Tuning
book = Tuning(Path(sys.argv[1]))
from configtron.model.nouns import Profile
book.set_profiles([Profile("late", (("initcwnd", 7),))])
print("written", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["settled", "open", "killed"])
def test_reading_leaves_no_trace(tmp_path: Path, how: str) -> None:
    """A database that no process has open, one has open, or a killed one left with a log."""
    path = tmp_path / "t.db"
    with Tuning(path) as book:
        book.set_profiles([WEB])
    writer = None
    if how != "settled":
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert writer.stdout is not None and writer.stdout.readline()
        if how == "killed":
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()
    before = files(tmp_path)
    found = read_only(path, Tuning.wanted)
    assert files(tmp_path) == before
    assert sorted(found.profiles) == (["web"] if how == "settled" else ["late", "web"])
    if writer is not None:
        writer.kill()
        writer.communicate()


def test_reading_a_database_that_never_tuned_is_empty_but_not_one_that_may_have_rules_in_force(tmp_path: Path) -> None:
    """`tune log` had "no transaction yet" for a journal of 0.2.0, and `status` called its rules foreign."""
    assert read_only(tmp_path / "sub" / "t.db", Tuning.wanted) == Rules() and list(tmp_path.iterdir()) == []
    with Store(tmp_path / "t.db") as store:
        store.begin_run("{}")
    Tuning(tmp_path / "old.db").close()
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 10")
    with pytest.raises(BadInput, match="an older schema .*configtron probe show"):
        read_only(tmp_path / "old.db", Tuning.wanted)
    with closing(sqlite3.connect(tmp_path / "t.db", isolation_level=None)) as database:
        for table in ("profile", "prefix", "tuning", "muted", "act", "frozen"):
            database.execute(f"DROP TABLE {table}")
        database.execute("PRAGMA user_version = 2")
    assert read_only(tmp_path / "t.db", Tuning.wanted) == Rules()
    (tmp_path / "text").write_text("not a database, but long enough to look at" * 40)
    with pytest.raises(BadInput, match="not a database"):
        read_only(tmp_path / "text", Tuning.wanted)


def test_reading_is_repeated_if_another_process_wrote_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with Tuning(path) as book:
        book.set_profiles([WEB])
    looks = []

    def look(book: Tuning) -> Rules:
        looks.append(1)
        if len(looks) == 1:
            with Tuning(path) as other:
                other.set_profiles([Profile("late")])
        return book.wanted()

    assert sorted(read_only(path, look).profiles) == ["late", "web"] and len(looks) == 2


@pytest.mark.slow
def test_many_prefixes(book: Tuning) -> None:
    book.set_profiles([WEB])
    many = {f"{a}.{b}.{c}.0/24": "web" for a in (10, 11) for b in range(250) for c in range(200)}
    assert book.set_prefixes(many) == 100_000
    assert book.wanted().prefixes == many
    act = book.begin(replace(ACT, rules=Rules({"web": WEB}, many)))
    assert book.act(act.id) == act


def test_measured_damage_is_of_what_the_learner_set_and_no_human_changed(tmp_path: Path) -> None:
    bbr, fast = (Profile(name, (("tcp_congestion_control", one),)) for name, one in (("b", "bbr"), ("f", "reno")))
    with Tuning(tmp_path / "t.db") as tuning:
        tuning.hand_over([bbr, fast], {"10.0.0.0/8": "b", "11.0.0.0/8": "f"}, {"b": 1.1, "f": 1.2, "gone": 9.0})
        assert tuning.measured_damage() == {"b": 1.1, "f": 1.2}
        tuning.set_prefixes({"12.0.0.0/8": "b"})
        assert tuning.measured_damage() == {"f": 1.2}, "a human gave it to clients that were not measured"
        tuning.set_profiles([fast])
        assert tuning.measured_damage() == {}, "a human's profile now"
        tuning.hand_over([bbr], {"10.0.0.0/8": "b"})
        assert tuning.measured_damage() == {}, "the next export has no measurement"


# So many that they stand beside their transaction's row; and so few that they stand in it.
COUNTS = (LONG_BYTES // 20, 3)


PROFILES = {name: Profile(name, (("initcwnd", 10),)) for name in ("one", "two")}


def transaction(rules: Rules) -> Transaction:
    return Transaction("memory", Place(), "net:[1]", "boot", KEPT, "{}", rules)


@pytest.mark.parametrize("count", COUNTS)
def test_rules_are_written_once_and_outlive_their_transaction(tmp_path: Path, count: int) -> None:
    rules = Rules(PROFILES, {f"10.{n >> 8}.{n & 255}.0/24": "one" for n in range(count)})
    changes = [Changes(prefixes={f"10.0.{n}.0/24": "two"}) for n in range(3)]
    with Tuning(tmp_path / "t.db") as book:
        acts, wanted = [book.begin(transaction(rules))], [rules]
        for change in changes:
            acts.append(book.begin_over(transaction(Rules()), acts[-1].id, change))
            wanted.append(after(wanted[-1], change))
            assert [one.rules for one in book.acts()] == wanted
            assert book.steps(acts[-1].id) == len(acts) - 1
        if count == COUNTS[0]:
            query = "SELECT (SELECT total(length(rules)) FROM act) + (SELECT total(length(changes)) FROM act_change)"
            (found,) = book._connection.execute(query).fetchone()
            assert found < 1.1 * (LONG_BYTES + count * 10), "once, not four times"
        for turn, act in enumerate(acts[:-1]):
            book.put(act.closed(REPLACED, ""))
            assert [one.rules for one in book.acts()] == [Rules()] * (turn + 1) + wanted[turn + 1 :]
        book.put(acts[-1].closed(UNDONE, ""))
        assert not book._connection.execute("SELECT * FROM act_change").fetchall()
        assert [one.rules for one in book.acts()] == [Rules()] * 4


def test_a_transaction_that_is_undone_leaves_the_one_below_with_its_rules(tmp_path: Path) -> None:
    rules = Rules(PROFILES, {f"10.{n >> 8}.{n & 255}.0/24": "one" for n in range(COUNTS[0])})
    with Tuning(tmp_path / "t.db") as book:
        below = book.begin(transaction(rules))
        above = book.begin_over(transaction(Rules()), below.id, Changes(prefixes={"10.0.0.0/24": "two"}))
        book.put(replace(below, status=REPLACED), above)
        book.put(above.closed(UNDONE, ""), replace(below, status=KEPT))
        found = book.act(below.id)
        assert found is not None and found.rules == rules
