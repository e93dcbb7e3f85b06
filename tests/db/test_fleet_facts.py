# SPDX-License-Identifier: MIT
"""A damaged fact of a manager's database is one line that names it, for every reader."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.db.fleet_facts import AGENT, agent_state, place_fact, whole_fact
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap
from configtron.service.fleet import enrolment
from configtron.service.fleet.manager_core import POSITION, ROLLBACK, ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.learning.fleet_report import ReportOptions, report

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


def started(path: Path) -> None:
    with FleetStore(path) as store:
        maker = FixedMapMaker(FleetMap(0, 0, {}, {}, {}, b"k" * 16, 0))
        core = ManagerCore(store, maker, SigningKey(b"s" * 32), "m1", 0)
        core.tick(0.0, 0)


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
    path = tmp_path / "m.db"
    key = SigningKey(b"s" * 32)
    with FleetStore(path) as store:
        core = ManagerCore(store, FixedMapMaker(FleetMap(0, 0, {}, {}, {}, b"k" * 16, 0)), key, "m1", 0)
        core.tick(0.0, 0)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("UPDATE fleet_map SET document = x'00'")
        store.put_facts({ROLLBACK: "1.1"})
        core.tick(9.0, 0)
        assert core.session.current is not None and core.session.current.place == (1, 1)


def test_manager_outlives_a_lock_on_its_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended after half a minute, and came back with a new term."""
    with FleetStore(tmp_path / "m.db") as store:
        maker = FixedMapMaker(FleetMap(0, 0, {}, {}, {}, b"k" * 16, 0))
        core = ManagerCore(store, maker, SigningKey(b"s" * 32), "m1", 0)
        core.tick(0.0, 0)
        store._connection.execute("PRAGMA busy_timeout = 1")
        with closing(sqlite3.connect(tmp_path / "m.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            core.tick(100.0, 10**11)
            core.tick(200.0, 2 * 10**11)
            other.execute("ROLLBACK")
        core.tick(300.0, 3 * 10**11)
        assert not core.stopped
    assert [one.getMessage().count("keeps the database locked") for one in caplog.records] == [1]
