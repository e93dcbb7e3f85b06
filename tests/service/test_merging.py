# SPDX-License-Identifier: MIT
"""Runs of several databases in one: each once, with its packets, whatever is repeated, killed or broken."""

from __future__ import annotations

import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from configtron.db.store import Store
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Observation, Target
from configtron.model.records import Result, canonical
from configtron.service import campaign
from tests.support.children import child
from tests.support.waiting import PATIENCE_S

MANY = 2500
ICW = Observation("icw", 10, unit="segments", method="flight", grade="C", evidence=(2, 3))


def result(vantage: str, number: int, at: int = 10**18) -> Result:
    name = f"s{number:05}.example"
    trace_id = f"{vantage}/{name}/icw.1"
    seen = (replace(ICW, trace_id=trace_id),)
    return Result(trace_id, vantage, Target(name, "192.0.2.1"), "icw", started_at=at + number, frames=9,
                  evidence_file=f"here/{vantage}.pcapng", evidence_end=100, observations=seen)  # fmt: skip


def machine(folder: Path, name: str, vantage: str, count: int = 3, **options: int) -> Path:
    """A machine's database of one run with packets; `options`: of the run."""
    path = folder / f"{name}.db"
    with Store(path) as store:
        places = [{"name": vantage, "region": vantage.upper()}]
        given = {"seed": 1, "shards": 1, "shard": 0, **options}
        run = store.begin_run(canonical({"host": name, "options": given, "vantages": places}))
        for first in range(0, count, 1000):
            store.record(run, [result(vantage, n) for n in range(first, min(first + 1000, count))])
        store.finish_run(run, "done")
    packets = folder / f"{name}.db.runs" / "1" / "here"
    packets.mkdir(parents=True)
    (packets / f"{vantage}.pcapng").write_bytes(name.encode() * 100)
    return path


def merged(db: Path, *files: Path, as_one: str = "") -> list[tuple[int, int, int]]:
    """Numbers of the runs here, and how many results are new and known."""
    done = campaign.merge(campaign.MergeOptions(files, as_one), db)
    return [(one.number, one.fresh, one.known) for one in done]


def results(db: Path, run: int) -> list[Result]:
    with campaign.open_runs(db) as store:
        return list(store.results(run))


def test_runs_keep_their_results_packets_and_dates(tmp_path: Path) -> None:
    files = machine(tmp_path, "one", "na"), machine(tmp_path, "two", "eu")
    db = tmp_path / "all.db"
    assert merged(db, *files) == [(1, 3, 0), (2, 3, 0)]
    for number, file in enumerate(files, 1):
        assert results(db, number) == results(file, 1)
        with campaign.open_runs(db) as store, campaign.open_runs(file) as source:
            here, there = store.run(number), source.run(1)
            assert (here.begun_at, here.finished_at, here.status) == (there.begun_at, there.finished_at, "done")
            assert campaign.vantages_of_run(here) == campaign.vantages_of_run(there)
    assert (tmp_path / "all.db.runs/2/here/eu.pcapng").read_bytes() == b"two" * 100


def test_the_same_again_adds_nothing_and_a_longer_run_what_is_new(tmp_path: Path) -> None:
    file, db = machine(tmp_path, "one", "na"), tmp_path / "all.db"
    copy = tmp_path / "copy.db"
    merged(db, file)
    with Store(file) as store:
        store.record(1, [result("na", 7)])
    copy.write_bytes(file.read_bytes())
    assert merged(db, copy, file, file) == [(1, 1, 3)]
    # a merge of what was merged is the same run still
    assert merged(tmp_path / "third.db", db) == [(1, 4, 0)] and merged(tmp_path / "third.db", file) == [(1, 0, 4)]
    assert len(results(db, 1)) == 4


def test_equal_commands_in_the_same_second_are_two_runs(tmp_path: Path) -> None:
    one, other = machine(tmp_path, "one", "na"), tmp_path / "other.db"
    other.write_bytes(one.read_bytes())
    with sqlite3.connect(other) as connection:
        connection.execute("UPDATE trace SET started_at = started_at + 1")
    assert merged(tmp_path / "all.db", one, other) == [(1, 3, 0), (2, 3, 0)]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_killed_merge_is_finished_by_the_next(tmp_path: Path, batch: int) -> None:
    file, db = machine(tmp_path, "one", "na", MANY), tmp_path / "all.db"
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from configtron.service import campaign\n"
        f"kill = lambda event: event.done >= {1000 * batch} and os.kill(os.getpid(), signal.SIGKILL)\n"
        "campaign.merge(campaign.MergeOptions((Path(sys.argv[1]),)), Path(sys.argv[2]), progress=kill)\n"
    )
    with child([sys.executable, "-c", script, str(file), str(db)]) as running:
        assert running.wait(PATIENCE_S) == -signal.SIGKILL
    assert merged(db, file) == [(1, MANY - 1000 * batch, 1000 * batch)]
    assert results(db, 1) == results(file, 1)
    assert [path.name for path in (tmp_path / "all.db.runs/1/here").iterdir()] == ["na.pcapng"]


def test_runs_become_one_that_compares_their_regions(tmp_path: Path) -> None:
    files = machine(tmp_path, "one", "na"), machine(tmp_path, "two", "eu")
    db = tmp_path / "all.db"
    assert merged(db, files[0], as_one="world") == [(1, 3, 0)]
    assert merged(db, *files, as_one="world") == [(1, 0, 3), (1, 3, 0)]
    with campaign.open_runs(db) as store:
        run = store.run(1)
        assert {item.vantage for item in campaign.records_of(store, run)} == {"na", "eu"}
        assert list(campaign.vantages_of_run(run)) == ["na", "eu"]
        names = store.evidence_files(1)
    # packets of both lie apart, also where both are named alike
    assert sorted((tmp_path / "all.db.runs/1" / name).read_bytes()[:3] for name in names) == [b"one", b"two"]
    with pytest.raises(BadInput, match="run 1 was merged: resume it where it was begun"):
        campaign.run(campaign.ProbeOptions(resume=1), db)


def test_shards_of_one_list_become_one_run(tmp_path: Path) -> None:
    files = [machine(tmp_path, f"m{n}", "na", shards=2, shard=n) for n in (0, 1)]
    with sqlite3.connect(files[1]) as connection:
        connection.execute("UPDATE trace SET trace_id = replace(trace_id, 's0', 't0'), site = replace(site, 's', 't')")
    assert merged(tmp_path / "all.db", *files, as_one="list") == [(1, 3, 0), (1, 3, 0)]


def test_the_same_vantage_of_two_runs_is_refused_by_name(tmp_path: Path) -> None:
    files = machine(tmp_path, "one", "here"), machine(tmp_path, "two", "here")
    with pytest.raises(BadInput, match=r"two.db: run 1 and .*one.db: run 1 both have the vantage 'here'"):
        merged(tmp_path / "all.db", *files, as_one="x")
    assert not (tmp_path / "all.db").exists()
    # also if the other came by an earlier merge
    merged(tmp_path / "all.db", files[0], as_one="x")
    with pytest.raises(BadInput, match="both have the vantage 'here'"):
        merged(tmp_path / "all.db", files[1], as_one="x")
    assert len(results(tmp_path / "all.db", 1)) == 3


def test_runs_of_different_versions_become_no_one_run(tmp_path: Path) -> None:
    files = machine(tmp_path, "one", "na"), machine(tmp_path, "two", "eu")
    with sqlite3.connect(files[1]) as connection:
        connection.execute("UPDATE run SET version = '0.0.9'")
    with pytest.raises(BadInput, match=r"made by configtron 0\.0\.9, .*one.db: run 1 by "):
        merged(tmp_path / "all.db", *files, as_one="x")
    assert merged(tmp_path / "all.db", *files) == [(1, 3, 0), (2, 3, 0)]


def changed_by(statement: str) -> Callable[[Path, Path], None]:
    """Return what makes a copy of a good database and changes it."""

    def make(good: Path, bad: Path) -> None:
        bad.write_bytes(good.read_bytes())
        with sqlite3.connect(bad) as connection:
            connection.execute(statement)

    return make


BAD: dict[str, Callable[[Path, Path], object]] = {
    "text": lambda good, bad: bad.write_text("no database\n" * 100), "absent": lambda good, bad: None,
    "newer": changed_by("PRAGMA user_version = 999"), "empty": lambda good, bad: Store(bad).close(),
    "damaged": lambda good, bad: bad.write_bytes(good.read_bytes()[:4096] + b"\xff" * 20000),
    "config": changed_by("UPDATE run SET config = json_object('vantages', 7)"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_line_and_nothing_is_merged(tmp_path: Path, kind: str) -> None:
    good, bad, db = machine(tmp_path, "one", "na"), tmp_path / "bad.db", tmp_path / "all.db"
    BAD[kind](good, bad)
    with pytest.raises(BadInput) as refused:
        merged(db, good, bad)
    assert "bad.db" in str(refused.value) or kind == "config" and "configuration" in str(refused.value)
    assert "\n" not in str(refused.value) and not db.exists()


def test_a_database_is_not_merged_into_itself(tmp_path: Path) -> None:
    file = machine(tmp_path, "one", "na")
    with pytest.raises(BadInput, match="is the database to merge into"):
        merged(file, file)


def test_a_merge_waits_for_no_other(tmp_path: Path) -> None:
    file, db = machine(tmp_path, "one", "na"), tmp_path / "all.db"
    with campaign.locked(tmp_path / "all.db.runs" / "merge", 0, "merge"), pytest.raises(Refused):
        merged(db, file)
    assert merged(db, file) == [(1, 3, 0)]
