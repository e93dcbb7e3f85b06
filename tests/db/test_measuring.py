# SPDX-License-Identifier: MIT
"""Shards in the database: whole or not at all, once, and as they were."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.db.measuring import Measuring, ShardRow
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.repeats import StoppingRule
from configtron.model.samples import Filled, Sample, Stack, judged

PROFILES = tuple(Profile(str(n), (("http_version", "h2"), ("initcwnd", n))) for n in (10, 30))
SITES = ("news", "shop")
RULE = StoppingRule()


def filled(condition: str = "a", first_ms: float = 100.0) -> Filled:
    """Six loads of one cell, one failed of another; the second configuration was refused."""
    loads = [Sample(0, "news", n, "", first_ms + n, 40.0, 60.0, 900) for n in range(6)]
    stacks = (Stack(0, (("initcwnd", "10"),)), Stack(1, (), "stack-not-as-asked", "it is 10"))
    return Filled(condition, (("r2", "netem"),), stacks, (*loads, Sample(0, "shop", 0, "timeout")), 12.5)


def shard_of(condition: str = "a", orders: str = "0f") -> ShardRow:
    return ShardRow(condition, orders, {"kernel": "6.12"}, "aa", 12.5, 3.25, 7)


def record(store: Measuring, number: int, condition: str = "a", **changed: float) -> bool:
    one = filled(condition, **changed)
    return store.record(number, one, judged(one, 2, SITES, RULE), PROFILES, shard_of(condition))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Measuring]:
    with Measuring(tmp_path / "x.db") as store:
        yield store


def test_cells_come_back_as_they_were(store: Measuring) -> None:
    number = store.begin("smoke", '{"seed":1}')
    assert record(store, number)
    cells = list(store.cells(number))
    assert [(c.configuration, c.site, c.verdict.flag) for c in cells] == [
        (0, "news", ""), (0, "shop", "timeout"), (1, "news", "stack-not-as-asked"), (1, "shop", "stack-not-as-asked"),
    ]  # fmt: skip
    first = cells[0]
    assert first.verdict[:4] == (102.5, 100.0, 105.0, 6) and first.plt_ms == tuple(100.0 + n for n in range(6))
    assert first.settings == (("http_version", "h2"), ("initcwnd", 10)) and first.read_back == (("initcwnd", "10"),)
    assert cells[1].plt_ms == (None,) and cells[2].plt_ms == () and cells[2].read_back == ()
    assert store.shards(number) == (shard_of(),)


def test_a_shard_is_kept_once_and_whole_or_not_at_all(store: Measuring) -> None:
    number, other, third = (store.begin("smoke", "{}") for _ in range(3))
    assert record(store, number) and not record(store, number, first_ms=500.0) and record(store, other, first_ms=500.0)
    assert [next(store.cells(one)).verdict.median_ms for one in (number, other)] == [102.5, 502.5]
    one = filled()
    doubled = Filled(one.condition, one.network, one.stacks, (*one.samples, one.samples[0]), 1.0)
    with pytest.raises(BadInput, match="UNIQUE"):
        store.record(third, doubled, judged(one, 2, SITES, RULE), PROFILES, shard_of())
    assert store.shards(third) == () and list(store.cells(third)) == []


def test_measurements_list_their_state(store: Measuring) -> None:
    number = store.begin("smoke", '{"seed":1}')
    record(store, number)
    store.finish(number, "partial")
    (found,) = store.measurements()
    assert found.id == number and found[3:] == ("partial", found.version, "smoke", '{"seed":1}', 1)
    assert store.resume(number).status == "partial" and store.measurement(-1).status == "running"
    for absent in (7, -2):
        with pytest.raises(BadInput, match=f"measurement {absent}.*holds 1"):
            store.measurement(absent)
    database = sqlite3.connect(store.path)
    rows = database.execute("SELECT condition, settings ->> 'initcwnd', site, median_ms, flag FROM plt ORDER BY 2, 3")
    assert rows.fetchall()[:2] == [("a", 10, "news", 102.5, ""), ("a", 10, "shop", None, "timeout")]
    assert database.execute("SELECT network FROM shard").fetchone() == ('{"r2":"netem"}',)
