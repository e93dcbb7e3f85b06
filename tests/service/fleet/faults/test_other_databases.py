# SPDX-License-Identifier: MIT
"""A manager and an agent find databases of a newer release, or of an older one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.db.schema import VERSION
from configtron.model.errors import USAGE
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet.spool import Spool
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.waiting import until

ROWS = 500
ROW = OutcomeRow("", "", 0, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5)
# The last version before tables of ended connections, and what came with them.
OLDER, NEW_TABLES = 12, ("end_state", "initial_model")


@pytest.fixture
def fleet(tmp_path: Path) -> RealFleet:
    """A fleet that has run, and whose agent has rows for its manager."""
    found = RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})
    with found.manager(), found.agent():
        until(lambda: found.held() == "1.1", found.logs)
    spool = Spool(found.agent_folder / "spool.db", "web1", boot="waits")
    spool.add([ROW] * ROWS)
    spool.close()
    return found


def version(path: Path, to: int = 0) -> int:
    """Return a file's version, as it was before it is set."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (found,) = database.execute("PRAGMA user_version").fetchone()
        if to:
            database.execute(f"PRAGMA user_version = {to}")
    return int(found)


def stored(fleet: RealFleet) -> list[tuple[str, str, int]]:
    with FleetStore(fleet.database) as store:
        return [(row.agent, row.boot, row.sequence) for row in store.every_row()]


def shown(line: str, fleet: RealFleet) -> str:
    """Return a line without the test's own folder."""
    return line.replace(str(fleet.folder), "/var/lib")


def ended(fleet: RealFleet, name: str) -> tuple[int, str]:
    """Run a process until it ends; return its exit code and what it logged."""
    at = len(fleet.log(name))
    with (fleet.manager if name == "manager" else fleet.agent)() as process:
        code: int = process.wait(60.0)
    return code, fleet.log(name)[at:].strip()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file"), [
    ("manager", lambda fleet: fleet.database), ("agent", lambda fleet: fleet.journal)],
    ids=["manager's", "agent's journal"])  # fmt: skip
def test_a_newer_database_is_refused_by_name(fleet: RealFleet, name: str, file: Callable[[RealFleet], Path]) -> None:
    path = file(fleet)
    before = version(path, VERSION + 1)
    code, line = ended(fleet, name)
    assert code == USAGE and line.count("\n") == 0
    assert f"{path}: written by a newer configtron (schema {VERSION + 1}, this one knows {VERSION})" in line
    assert version(path, before) == VERSION + 1
    with fleet.manager(), fleet.agent():
        until(lambda: len(stored(fleet)) >= ROWS, fleet.logs)
        until(lambda: fleet.held() not in ("", "1.1"), fleet.logs)
    assert len(stored(fleet)) == len(set(stored(fleet))) == ROWS
    end = (
        f"it is refused, exit code 2, and stays as it is; with its own release again {ROWS} rows that waited are stored"
    )
    write_row(f"{name}'s database of a newer release", f"{end} once", shown(line, fleet))


@pytest.mark.slow
def test_a_newer_spool_is_refused_by_name(fleet: RealFleet) -> None:
    """The applier goes on: what is in force does not depend on the spool."""
    path = fleet.agent_folder / "spool.db"
    before = version(path, 9)
    with fleet.manager(), fleet.agent():
        until(lambda: len(fleet.lines("written by a newer configtron")) == 2, fleet.logs)
        assert fleet.statuses()[-1] == "leased"
        version(path, before)
        until(lambda: len(stored(fleet)) >= ROWS, fleet.logs)
    line = fleet.lines("written by a newer configtron")[0]
    assert str(path) in line and len(stored(fleet)) == len(set(stored(fleet))) == ROWS
    end = "it is refused and stays as it is, the map in force stays; with its own release again"
    write_row("agent's spool of a newer release", f"{end} {ROWS} rows that waited are stored once", shown(line, fleet))


@pytest.mark.slow
def test_an_older_database_is_brought_up_to_date(fleet: RealFleet) -> None:
    for path in (fleet.database, fleet.journal):
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for table in NEW_TABLES:
                database.execute(f"DROP TABLE {table}")
        version(path, OLDER)
    with fleet.manager(), fleet.agent():
        until(lambda: len(stored(fleet)) >= ROWS, fleet.logs)
        until(lambda: fleet.held() not in ("", "1.1"), fleet.logs)
    assert len(stored(fleet)) == len(set(stored(fleet))) == ROWS
    assert version(fleet.database) == version(fleet.journal) == VERSION
    (line,) = fleet.lines("kept by its former start")
    end = (
        f"they are brought up to date; the map that the agent kept is in force, {ROWS} rows that waited are stored once"
    )
    write_row("manager's and agent's databases of an older release", end, line)
