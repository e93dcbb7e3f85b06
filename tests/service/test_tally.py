# SPDX-License-Identifier: MIT
"""Results are gathered into batches for the database, and none waits for long."""

from __future__ import annotations

import pytest

from configtron.model.nouns import Target
from configtron.model.records import Result
from configtron.service.campaign import tally

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
