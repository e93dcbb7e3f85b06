# SPDX-License-Identifier: MIT
"""What a manager keeps: each outcome once, terms that only rise, agents by key; and an agent's spool."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import UNKNOWN_MAP, WHOLE_MAPS, EnrolledAgent, FleetStore, Stream
from configtron.db.fleet_facts import AGENT, agent_state, place_fact, whole_fact
from configtron.db.outcomes import Outcomes
from configtron.db.spool_file import SpooledBatch, SpoolFile
from configtron.model.errors import BadInput, Unwritten
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet import enrolment
from configtron.service.fleet.manager_core import POSITION, ROLLBACK, ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.learning.fleet_report import ReportOptions, report

PROFILES = {"fast": Profile("fast", (("initcwnd", 30),)), "odd.name": Profile("odd.name", (("initcwnd", 7),))}


def rows(first: int, last: int, **named: object) -> list[OutcomeRow]:
    row = OutcomeRow("web1", "b1", 0, 5, "a.example", "192.0.2.0/24", "ab", 812.5, 1, 1, 3, "near", 0, "fast", 0.75,
                     rtt_ms=20.0, more={"jitter_ms": 2.0})  # fmt: skip
    return [row._replace(sequence=at, **named) for at in range(first, last + 1)]  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    found = FleetStore(tmp_path / "m.db")
    found.put_map(1, 1, "first", PROFILES, 0, b"document")
    return found


def test_each_row_is_stored_once_and_read_back_as_it_came(store: FleetStore) -> None:
    sent = rows(1, 40)
    assert store.add_rows("web1", "b1", 1, sent[:20], 9) == 20
    assert store.add_rows("web1", "b1", 1, sent[:20], 9) == 20
    assert store.add_rows("web1", "b1", 11, sent[10:], 9) == 40
    assert store.add_rows("web1", "b1", 1, sent[:3], 9) == 40
    assert list(store.every_row()) == sent
    assert store.add_rows("web1", "b2", 1, rows(1, 2, boot="b2"), 9) == 2
    assert store.streams() == [Stream("web1", "b1", 40, 0), Stream("web1", "b2", 2, 0)]


def test_a_gap_is_what_a_spool_dropped_and_is_counted(store: FleetStore) -> None:
    store.add_rows("web1", "b1", 1, rows(1, 5), 9)
    assert store.add_rows("web1", "b1", 11, rows(11, 12), 9) == 12
    assert store.streams() == [Stream("web1", "b1", 12, 5)]
    assert [row.sequence for row in store.every_row()] == [1, 2, 3, 4, 5, 11, 12]


def test_the_learner_reads_rows_that_teach_with_the_settings_of_their_map(store: FleetStore, tmp_path: Path) -> None:
    store.add_rows("web1", "b1", 1, [
        *rows(1, 1), *rows(2, 2, arm=None, profile="", held=True), *rows(3, 3, teaches=False, why_not="turn"),
        *rows(4, 4, plt_ms=None, failure="tcp"), *rows(5, 5, map_version=9), *rows(6, 6, profile="odd.name"),
    ], 9)  # fmt: skip
    with Outcomes(tmp_path / "m.db") as learner:
        (logged,) = learner.batches()
        assert learner.not_taught() == {"turn": 1, UNKNOWN_MAP: 1}
        assert [logged.profiles[at].settings for at in logged.decisions.configuration] == [
            (("initcwnd", 30),), (), (("initcwnd", 7),)]  # fmt: skip
        assert logged.plt_ms.tolist() == [812.5] * 3 and logged.decisions.propensity.tolist() == [0.75] * 3
    assert [row.why_not for row in store.every_row()] == ["", "", "turn", "", UNKNOWN_MAP, ""]


@pytest.mark.parametrize("name", ['a "quoted" one', "schnellé", "a[0]", "back\\slash"])
def test_a_row_teaches_whatever_its_profile_is_called(store: FleetStore, tmp_path: Path, name: str) -> None:
    """A quotation mark, or a letter beyond ASCII, made the profile unknown: no row of it taught."""
    store.put_map(1, 2, "made", {name: Profile(name, (("initcwnd", 9),))}, 0, b"document")
    store.add_rows("web1", "b1", 1, rows(1, 1, map_version=2, profile=name), 9)
    with Outcomes(tmp_path / "m.db") as learner:
        (logged,) = learner.batches()
        assert [one.settings for one in logged.profiles] == [(("initcwnd", 9),)]


@pytest.mark.parametrize("field", ["site", "prefix", "class_name", "profile", "device"])
def test_a_text_with_a_nul_is_refused_and_the_next_rows_are_stored(store: FleetStore, field: str) -> None:
    """It ended the manager by a KeyError, as SQLite's JSON ends a text there."""
    with pytest.raises(BadInput, match="NUL"):
        store.add_rows("web1", "b1", 1, rows(1, 1, **{field: "a\0b"}), 9)
    assert store.add_rows("web1", "b1", 1, rows(1, 2), 9) == 2


def test_a_full_disk_stores_no_half_batch_and_loses_none(store: FleetStore) -> None:
    store.add_rows("web1", "b1", 1, rows(1, 5), 9)
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unwritten):
        store.add_rows("web1", "b1", 6, rows(6, 2000, site="b" * 200), 9)
    assert store.streams() == [Stream("web1", "b1", 5, 0)]
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert store.add_rows("web1", "b1", 6, rows(6, 2000, site="b" * 200), 9) == 2000
    assert {row.site for row in store.every_row()} == {"a.example", "b" * 200}


def test_terms_only_rise(store: FleetStore) -> None:
    assert store.latest_term() == (0, "")
    assert [store.begin_term("a"), store.begin_term("b")] == [1, 2]
    store.raise_term(40)
    store.raise_term(7)
    with FleetStore(store.path) as again:
        assert again.begin_term("c") == 41 and again.latest_term() == (41, "c")


def test_a_revoked_agent_is_enrolled_again_by_another_key(store: FleetStore) -> None:
    store.enroll("web1", "k1")
    with pytest.raises(BadInput, match="enrolled already"):
        store.enroll("web1", "k2")
    with pytest.raises(BadInput, match="enrolled already"):
        store.enroll("web2", "k1")
    assert store.revoke("web1") and not store.revoke("web1")
    store.enroll("web1", "k2")
    assert store.allowed() == {"k2": "web1"}
    assert [(a.name, a.key, bool(a.revoked_at)) for a in store.enrolled()] == [
        ("web1", "k1", True),
        ("web1", "k2", False),
    ]
    assert isinstance(store.enrolled()[0], EnrolledAgent)


def test_the_latest_maps_are_kept_whole(store: FleetStore) -> None:
    for version in range(2, WHOLE_MAPS + 5):
        store.put_map(1, version, "", PROFILES, version, b"d%d" % version, {"position": str(version)})
    found = store.maps()
    assert [row.version for row in found if row.whole] == [*range(5, WHOLE_MAPS + 5)]
    assert store.document(1, 4) is None and store.document(1, 9) == b"d9"
    assert store.facts() == {"position": str(WHOLE_MAPS + 4)}
    with pytest.raises(BadInput):
        store.put_map(1, 9, "", PROFILES, 0, b"")


def batch(first: int, number: int, boot: str = "b1") -> SpooledBatch:
    return SpooledBatch(boot, first, number, bytes(10 * number))


def test_the_spool_hands_out_the_oldest_rows_of_one_boot(tmp_path: Path) -> None:
    spool = SpoolFile(tmp_path / "s.db", 1000)
    for each in (batch(1, 2), batch(3, 1), batch(4, 3), batch(1, 1, "b2")):
        assert spool.append(each)
    assert spool.oldest(5, 10_000) == SpooledBatch("b1", 1, 3, bytes(30))
    assert spool.oldest(100, 10_000) == SpooledBatch("b1", 1, 6, bytes(60))
    spool.forget("b1", 3)
    assert spool.oldest(100, 10_000) == batch(4, 3) and spool.waiting == 4
    spool.close()
    again = SpoolFile(tmp_path / "s.db", 1000)
    assert again.oldest(100, 10_000) == batch(4, 3) and again.waiting == 4
    again.forget("b1", 6)
    assert again.oldest(100, 10_000) == batch(1, 1, "b2")


def test_the_bound_drops_the_oldest_batches_whole_and_counts_their_rows(tmp_path: Path) -> None:
    spool = SpoolFile(tmp_path / "s.db", 100)
    for each in (batch(1, 2), batch(3, 2), batch(5, 5)):
        assert spool.append(each)
    assert (spool.dropped, spool.waiting) == (0, 9)
    assert spool.append(batch(10, 3))
    assert (spool.dropped, spool.waiting) == (2, 10) and spool.oldest(2, 1000) == batch(3, 2)
    assert not spool.append(batch(13, 11)) and spool.dropped == 13
    spool.close()
    assert SpoolFile(tmp_path / "s.db", 100).dropped == 2


def test_a_full_disk_refuses_new_rows_and_keeps_those_that_were_taken(tmp_path: Path) -> None:
    spool = SpoolFile(tmp_path / "s.db", 1 << 20)
    assert spool.append(batch(1, 100))
    (pages,) = spool._connection.execute("PRAGMA page_count").fetchone()
    spool._connection.execute(f"PRAGMA max_page_count = {pages}")
    taken = [spool.append(batch(101 + at * 100, 100)) for at in range(20)]
    assert not all(taken) and spool.dropped == 100 * taken.count(False)
    assert spool.oldest(100, 10_000) == batch(1, 100)
    spool.remember("manager", "1 m" * 3000)


def test_a_file_that_is_no_spool_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_text("x" * 5000)
    with pytest.raises(BadInput, match="no spool"):
        SpoolFile(tmp_path / "s.db", 100)
    SpoolFile(tmp_path / "t.db", 100).close()
    assert (tmp_path / "t.db").stat().st_mode & 0o777 == 0o600
    sqlite3.connect(tmp_path / "t.db").execute("PRAGMA user_version = 9")
    with pytest.raises(BadInput, match="newer"):
        SpoolFile(tmp_path / "t.db", 100)


@pytest.mark.parametrize(("complaint", "remedy"), [
    ("attempt to write a readonly database", "able to write"), ("unable to open database file", "able to write"),
    ("database is locked", "another agent uses this folder"), ("file is not a database", "move it away"),
])  # fmt: skip
def test_a_spool_that_cannot_be_used_names_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, complaint: str, remedy: str
) -> None:
    """A folder that the agent's user cannot write advised to move the spool away."""

    def refuse(spool: SpoolFile) -> None:
        raise sqlite3.OperationalError(complaint)

    monkeypatch.setattr(SpoolFile, "_open", refuse)
    with pytest.raises(BadInput, match=remedy):
        SpoolFile(tmp_path / "s.db", 100)


# Cut short, of another kind, nested too deep; then members of other kinds.
DAMAGED = ("", "{", "[]", "null", "7", "[" * 100_000, '{"heard_s": "now"}', '{"heard_s": NaN}', '{"heard_s": 1e15}',
           '{"heard_s": 1e300}',
           '{"held": 3}', '{"reason": null}', '{"waiting": [1]}', '{"refused": true}', '{"bounds": {}}',
           '{"bounds": [["initcwnd"]]}', '{"reaches": [["initcwnd", "low", null, []]]}',
           '{"reaches": [[1, 2, 3, []]]}')  # fmt: skip


def managed(path: Path, name: str, text: str) -> Path:
    """A manager's database with one agent, and one fact as it is given."""
    with FleetStore(path) as store:
        store.enroll("web1", "k" * 40)
        store.put_facts({name: text})
    return path


def begun(store: FleetStore) -> ManagerCore:
    core = ManagerCore(store, FixedMapMaker(FleetMap(0, 0, {}, {}, {}, b"k" * 16, 0)), SigningKey(b"s" * 32), "m1", 0)
    core.tick(0.0, 0)
    return core


def started(path: Path) -> None:
    with FleetStore(path) as store:
        begun(store)


READERS: dict[str, Callable[[Path], object]] = {
    "agents": enrolment.agents, "report": lambda path: report(ReportOptions(path)), "run": started,
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_state_of_an_agent_is_named(tmp_path: Path, text: str, reader: str) -> None:
    """`learn manager agents`, `learn report` and the manager's start ended in tracebacks."""
    path = managed(tmp_path / "m.db", f"{AGENT}web1", text)
    with pytest.raises(BadInput, match=r"m\.db: the manager's fact 'agent web1' is damaged; restore a copy"):
        READERS[reader](path)


@pytest.mark.parametrize("name", [POSITION, ROLLBACK])
@pytest.mark.parametrize("text", ["x", "1.x", "-1", "²", "1" * 5000, "1.2.3"])
def test_damaged_number_is_named(tmp_path: Path, name: str, text: str) -> None:
    """Of more than 4300 digits, Python's own conversion gives up by an error of its own."""
    with pytest.raises(BadInput, match=f"fact '{name}' is damaged"):
        started(managed(tmp_path / "m.db", name, text))


def test_facts_as_they_are_stored_are_read(tmp_path: Path) -> None:
    text = '{"bounds":[["initcwnd",2,30.5,[]],["cc",null,null,["cubic"]]],"heard_s":3,"held":"1.2","unfair":false}'
    assert agent_state(f"{AGENT}web1", text, "m.db")["held"] == "1.2"
    assert (whole_fact({"n": "12"}, "n", ""), whole_fact({}, "n", "")) == (12, 0)
    assert (place_fact({"p": "3.14"}, "p", ""), place_fact({"p": ""}, "p", "")) == ((3, 14), None)
    assert enrolment.agents(managed(tmp_path / "m.db", f"{AGENT}web1", text))[0].heard_at == "1970-01-01T00:00:03+00:00"


def test_damaged_map_is_not_rolled_back_to(tmp_path: Path) -> None:
    """A rollback to a map whose bytes another program changed ended the manager of all agents."""
    with FleetStore(tmp_path / "m.db") as store:
        core = begun(store)
        with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
            other.execute("UPDATE fleet_map SET document = x'00'")
        store.put_facts({ROLLBACK: "1.1"})
        core.tick(9.0, 0)
        assert core.session.current is not None and core.session.current.place == (1, 1)


def test_manager_outlives_a_lock_on_its_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ended after half a minute, and came back with a new term."""
    with FleetStore(tmp_path / "m.db") as store:
        core = begun(store)
        store._connection.execute("PRAGMA busy_timeout = 1")
        with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            core.tick(100.0, 10**11)
            core.tick(200.0, 2 * 10**11)
            other.execute("ROLLBACK")
        core.tick(300.0, 3 * 10**11)
        assert not core.stopped
    assert [one.getMessage().count("keeps the database locked") for one in caplog.records] == [1]


def test_documents_go_once_no_start_needs_them_and_one_of_a_version_stays(tmp_path: Path) -> None:
    with AgentJournal(tmp_path / "tune.db") as journal:
        assert journal.documents() == [] and journal.drawn() == (0, 0, 0, "")
        for at, data in enumerate((b"whole", b"second", b"another", b"whole again"), 1):
            journal.keep_document(data, 1, at)
        journal.set_drawn(1, 2, 77)
        assert journal.documents() == [b"second", b"another", b"whole again"]
        assert journal.drawn() == (1, 2, 77, "")
        journal.keep_document(b"whole once more", 1, 4)
        journal.drop_documents((1, 9))
        journal.set_drawn(1, 4, 78, "ab,cd")
    with AgentJournal(tmp_path / "tune.db") as journal:
        assert journal.documents() == [b"whole once more"] and journal.drawn() == (1, 4, 78, "ab,cd")
        journal.drop_documents((1, 3))
        assert journal.documents() == []
