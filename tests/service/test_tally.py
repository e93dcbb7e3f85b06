# SPDX-License-Identifier: MIT
"""Results are gathered into batches for the database, and none waits for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.db.store import Store
from configtron.model.nouns import Observation, Target
from configtron.model.records import Result
from configtron.service.campaign import tally
from configtron.service.progress import Event

RESULTS = [Result(f"v/h/icw.{n}", "v", Target("h"), "icw") for n in range(2 * tally.BATCH)]


@pytest.fixture
def kept() -> list[list[Result]]:
    return []


def test_results_are_kept_in_whole_batches_and_the_rest_at_the_end(kept: list[list[Result]]) -> None:
    batches = tally.ResultBatches(kept.append)
    for one in RESULTS[: tally.BATCH + 5]:
        batches.take([one])
    batches.flush()
    assert [len(batch) for batch in kept] == [tally.BATCH, 5]
    assert [one for batch in kept for one in batch] == RESULTS[: tally.BATCH + 5]


def test_what_has_waited_is_kept_when_nothing_more_comes(kept: list[list[Result]]) -> None:
    now_s = 100.0
    batches = tally.ResultBatches(kept.append, lambda: now_s)
    batches.take(RESULTS[:1])
    assert kept == []
    now_s += tally.BATCH_S
    batches.take(())
    assert kept == [RESULTS[:1]]


def counted(tmp_path: Path, results: list[Result], total: int) -> list[Event]:
    seen: list[Event] = []
    with Store(tmp_path / "t.db") as store:
        tally.RunTally(total, store, store.begin_run("{}"), seen.append).keep(results)
    return seen


def test_a_closed_port_is_an_answer(tmp_path: Path) -> None:
    endings = ("done", "refused", "reset", "no-synack", "no-data", "send-failed:no route")
    results = [Result(f"v/h/x.{n}", "v", Target("h"), "icw", frames=2, ending=one) for n, one in enumerate(endings)]
    (counts,) = counted(tmp_path, results, 1)
    assert isinstance(counts, tally.RunProgress) and (counts.calls, counts.failed) == (6, 3)


@pytest.mark.parametrize(("total", "lines"), [(tally.LONG, 1), (tally.LONG - 1, 0)])
def test_a_long_run_shows_its_first_verdict_once(tmp_path: Path, total: int, lines: int) -> None:
    seen = Observation("icw", 10, unit="segments", grade="C")
    results = [
        Result(f"v/{host}/icw.{n}", "v", Target(host), "icw", (("mss", 536 + n),), observations=(seen,))
        for host in ("a", "b")
        for n in range(3)
    ]
    shown = [event.what for event in counted(tmp_path, results, total) if "verdict" in event.what]
    assert shown == ["first verdict: a from v: icw 10 segments, grade B"] * lines


def test_a_name_server_that_is_silent_is_reported_once(tmp_path: Path) -> None:
    now_s, seen = 100.0, list[Event]()
    with Store(tmp_path / "t.db") as store:
        counts = tally.RunTally(9, store, store.begin_run("{}"), seen.append, clock=lambda: now_s)
        counts.keep([])
        assert tally.NO_NAMES not in [event.what for event in seen]
        now_s += tally.SILENT_S
        counts.keep([])
        counts.keep([])
    assert [event.what for event in seen].count(tally.NO_NAMES) == 1
