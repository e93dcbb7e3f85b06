# SPDX-License-Identifier: MIT
"""Rows that wait for a manager: numbered, bounded, and named by the start of their agent."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.fleet.manager_session import ManagerSession, SendTo, StoreRows
from configtron.fleet.messages import (
    MOST_FRAME,
    AgentHello,
    OutcomeBatch,
    batch_frame,
    encode_rows,
    from_agent,
    outcome_rows,
)
from configtron.model.errors import BadInput, Unwritten
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet import Spool
from configtron.service.fleet.agent_core import AgentCore

ROW = OutcomeRow("", "", 0, 5, "a.example", "192.0.2.0/24", "0" * 16, 812.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def test_rows_come_out_numbered_as_they_went_in(path: Path) -> None:
    spool = Spool(path, "web1", boot="b1")
    sent = [ROW._replace(at_ns=at, more={"queue_ms": at / 2}) for at in range(4500)]
    assert spool.add(sent[:1]) == 1 and spool.add(sent[1:]) == 4499 and spool.add([]) == 0
    found: list[OutcomeRow] = []
    while (batch := spool.oldest())[2].number:
        message = from_agent(batch_frame(*batch))
        assert isinstance(message, OutcomeBatch)
        found += outcome_rows("web1", message)
        spool.forget(batch[0], batch[1] + batch[2].number - 1)
    assert found == [row._replace(agent="web1", boot="b1", sequence=at) for at, row in enumerate(sent, 1)]
    assert spool.waiting == 0 and spool.dropped == 0


def test_rows_with_long_texts_are_cut_into_batches_that_fit_a_frame(path: Path) -> None:
    long = ROW._replace(site="s" * 255, why_not="w" * 255, class_name="c" * 255)
    # One more than a frame has room for.
    spool, number = Spool(path, "web1"), MOST_FRAME // len(encode_rows([long]).data) + 1
    spool.add([long] * number)
    assert len(batch_frame(*spool.oldest())) <= MOST_FRAME


def test_another_start_has_another_name_and_old_rows_keep_theirs(path: Path) -> None:
    with closing(Spool(path, "web1")) as first:
        first.add([ROW])
        first.remember_manager(3, "m 3", "5 ab")
    second = Spool(path, "web1")
    second.add([ROW])
    assert second.boot != first.boot and second.manager() == ((3, "m 3"), "5 ab")
    assert second.oldest()[:2] == (first.boot, 1)
    second.forget(first.boot, 1)
    assert second.oldest()[:2] == (second.boot, 1)


def delivered(spool: Spool, seconds: int) -> list[OutcomeRow]:
    """The rows that a manager stores while an agent with this spool speaks to it for so long."""
    agent, manager = (
        AgentCore(AgentHello(spool.boot, "0"), (0, 0, b""), spool, lambda document: None),
        ManagerSession("m", 1, {"key": "web1"}, SigningKey(bytes(32))),
    )
    found: list[OutcomeRow] = []
    for second in range(seconds):
        waiting = agent.tick(float(second), 1)
        while waiting:
            for effect in manager.receive(b"c", "key", waiting.pop(0), float(second)):
                if isinstance(effect, StoreRows):
                    found += effect.rows
                    (effect,) = manager.stored(b"c", effect.boot, effect.first + len(effect.rows) - 1)
                if isinstance(effect, SendTo):
                    waiting += agent.receive(effect.data, float(second))
    return found


@pytest.mark.parametrize("damage", [
    "data = cast(substr(data, 1, 9) || x'c1' || substr(data, 11) AS BLOB)", "data = cast(substr(data, 1, 30) AS BLOB)",
    "data = x''", "number = 7", "number = 2",
])  # fmt: skip
def test_a_batch_that_the_disk_damaged_is_dropped_alone(
    path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    """The manager refused it again and again, and no later outcome of the agent went out."""
    with closing(Spool(path, "web1", boot="b1")) as spool:
        for at in range(1, 6):
            spool.add([ROW._replace(at_ns=at)] * 3)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(f"UPDATE batch SET {damage} WHERE id = 2")
    spool = Spool(path, "web1", boot="b2")
    spool.add([ROW._replace(at_ns=9)] * 4)
    found = delivered(spool, 40)
    assert [row.at_ns for row in found] == [1, 1, 1, 3, 3, 3, 4, 4, 4, 5, 5, 5, 9, 9, 9, 9]
    assert [row.sequence for row in found] == [1, 2, 3, 7, 8, 9, 10, 11, 12, 13, 14, 15, 1, 2, 3, 4]
    assert spool.waiting == 0 and spool.dropped >= 2
    assert sum("of the spool are damaged" in one.getMessage() for one in caplog.records) == 1
    spool.close()
    with closing(Spool(path, "web1")) as again:
        assert again.dropped == spool.dropped, "counted on the disk, too"


def test_a_row_that_no_manager_takes_is_refused_with_all_of_its_call(path: Path) -> None:
    spool = Spool(path, "web1")
    with pytest.raises(BadInput, match="plt_ms"):
        spool.add([ROW, ROW._replace(plt_ms=-1.0)])
    assert spool.waiting == 0


def spooled(path: Path) -> None:
    """Make a spool of some pages."""
    with closing(Spool(path, "web1")) as spool:
        for _ in range(40):
            spool.add([ROW] * 500)


@pytest.mark.parametrize("page", range(1, 40, 3))
def test_a_damaged_spool_is_one_line_wherever_it_is_damaged(path: Path, page: int) -> None:
    """Each second the process that has it ended in a traceback, and was started again."""
    spooled(path)
    with path.open("r+b") as file:
        file.seek(4096 * page)
        file.write(b"\xa5" * 4096)
    with suppress(BadInput), closing(Spool(path, "web1")) as spool:
        for use in (spool.oldest, spool.manager, lambda: spool.forget("b", 1), lambda: spool.add([ROW])):
            with suppress(BadInput):
                use()


@pytest.mark.parametrize(("name", "text"), [("dropped", "many"), ("manager", "x y")])
def test_a_spool_with_a_word_in_place_of_a_number_is_damaged(path: Path, name: str, text: str) -> None:
    spooled(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        opened.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (name, text))
    with pytest.raises(BadInput, match="no spool .* move it away"):
        Spool(path, "web1").manager()


@pytest.mark.root
def test_a_full_disk_at_the_start_is_no_reason_to_move_the_spool_away(tmp_path: Path) -> None:
    """The remedy for it was to move it away: with all outcomes that waited."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(folder)], check=True)
    try:
        spool = Spool(folder / "s.db", "web1")
        assert spool.add([ROW] * 500) == 500
        spool.close()
        filler = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
        with suppress(OSError):
            while True:
                os.write(filler, bytes(512))
        os.close(filler)
        with pytest.raises(Unwritten, match="make room: the outcomes in it are kept"):
            Spool(folder / "s.db", "web1")
        (folder / "filler").unlink()
        assert Spool(folder / "s.db", "web1").waiting == 500
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
