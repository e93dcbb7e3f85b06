# SPDX-License-Identifier: MIT
"""Another program locks the manager's database: the manager answers agents meanwhile, and loses no row."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.fleet.messages import AgentHello, batch_frame, encode_rows, frame
from configtron.service.fleet.manager import LOCK_PATIENCE_S
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from tests.support.fleet_rows import BEGUN_NS, fleet_rows
from tests.support.running_fleet import MAP


def test_a_locked_database_holds_up_no_answer_and_rows_come_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A batch held the manager's loop for half a minute, and each tick that writes did so too."""
    with FleetStore(tmp_path / "m.db") as store:
        store.enroll("web1", "key")
        core = ManagerCore(store, FixedMapMaker(MAP, valid_s=100.0), SigningKey(bytes(32)), "m", BEGUN_NS)
        store.wait_at_most(LOCK_PATIENCE_S)
        assert store._connection.execute("PRAGMA busy_timeout").fetchone()[0] < 50, "ms that each write may wait"
        core.receive(b"1", "key", frame(AgentHello("b1", "0")), 0.0, BEGUN_NS)
        batch = batch_frame("b1", 1, encode_rows([fleet_rows(1, 1)[0]._replace(rtt_ms=20.0)]))
        other = sqlite3.connect(tmp_path / "m.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with caplog.at_level(logging.ERROR):
            answers = [core.receive(b"1", "key", batch, at, BEGUN_NS) for at in (1.0, 2.0)]
            core.tick(60.0, BEGUN_NS + 60 * 10**9)
            greeted = core.receive(b"1", "key", frame(AgentHello("b1", "0")), 61.0, BEGUN_NS)
        assert answers == [[], []] and greeted and len(caplog.records) == 1 and "locked" in caplog.text
        other.execute("ROLLBACK")
        assert core.receive(b"1", "key", batch, 62.0, BEGUN_NS)
        assert len(store.rows_after(0)) == 1
