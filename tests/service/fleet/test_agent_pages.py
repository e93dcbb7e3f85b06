# SPDX-License-Identifier: MIT
"""Page loads between an agent's two processes: the one with rights never waits, and no address is handed on."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from configtron.learner.pageloads.request_join import BadEnding, EndedConnection
from configtron.model.errors import BadInput
from configtron.service.fleet.agent_pages import MOST_WAITING, PageReading
from configtron.service.fleet.page_intake import PageIntake, PagesOptions, pages_options
from configtron.service.fleet.spool import Spool
from configtron.service.fleet.turns import TurnLog
from configtron.service.outcomes.root_reader import ReaderBatch
from tests.support.pageloads import ARM


@pytest.fixture
def reading(tmp_path: Path) -> Any:
    enforcement = SimpleNamespace(draws=False)
    found = PageReading(PagesOptions("127.0.0.1", 0, tmp_path / "log"), cast(Any, enforcement))
    yield found
    found.close()


def test_the_root_process_drops_and_counts_what_a_process_that_hangs_does_not_take(reading: PageReading) -> None:
    end, applier = reading.connected(), cast(Any, SimpleNamespace(drawing=None, turns=TurnLog()))
    batch = ReaderBatch((), tuple(EndedConnection(at) for at in range(5_000)), (BadEnding("192.0.2.0/24", 1),))
    reading.reader.turn = lambda: batch  # type: ignore[method-assign]
    for _ in range(MOST_WAITING // 100 + 10):
        reading.turn(applier)
    assert reading.dropped > 0 and reading.counts()["batches dropped"] == reading.dropped
    end.setblocking(False)
    assert end.recv(1 << 20)
    end.close()
    # The other process has ended: what waits is for the next one.
    reading.turn(applier)
    again = reading.connected()
    reading.turn(applier)
    assert again.recv(1 << 20)
    again.close()


def test_a_port_that_is_taken_is_stated_once_and_maps_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spool = Spool(tmp_path / "spool.db", "")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with socket.create_server(("127.0.0.1", 0)) as taken, ours:
        intake = PageIntake(theirs, PagesOptions("127.0.0.1", taken.getsockname()[1]), spool)
        for _ in range(3):
            intake.turn()
            intake._listen_s = 0.0
        assert len([one for one in caplog.records if "cannot be received" in one.message]) == 1
        intake.close()
    spool.close()


def test_a_row_that_no_manager_would_take_costs_that_row_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool.db", "")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        intake = PageIntake(theirs, PagesOptions("127.0.0.1", 0), spool)
        good = intake.pages.beacons.row(ARM, 5, "a.example", 12.0, "", "")
        bad = intake.pages.beacons.row(ARM, 5, "a" * 5_000, 12.0, "", "")
        intake._keep([good, bad, good])
        assert spool.waiting == 2 and intake.counts()["row-refused"] == 1
        intake.close()
    spool.close()


def test_beacons_and_log_socket_are_checked_as_they_are_typed(tmp_path: Path) -> None:
    assert pages_options(None, None) is None
    found = pages_options("[::1]:9315", tmp_path / "log")
    assert found == PagesOptions("::1", 9315, tmp_path / "log") and PagesOptions.of(found.text) == found
    for wrong in ("9315", ":9315", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536", "a:²"):
        with pytest.raises(BadInput, match="write HOST:PORT"):
            pages_options(wrong, None)
    with pytest.raises(BadInput, match="--beacons"):
        pages_options(None, tmp_path / "log")
