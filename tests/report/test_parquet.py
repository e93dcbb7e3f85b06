# SPDX-License-Identifier: MIT
"""A run as Parquet: every reading and verdict once, by day and region, with few rows in memory."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from configtron.db.store import Store
from configtron.model.nouns import Vantage
from configtron.model.records import Result, canonical
from configtron.report import parquet
from configtron.report.parquet import RunSource, WrittenParquet, write_parquet
from configtron.report.target_results import TargetResult, found_in
from configtron.service import campaign
from tests.support import ROOT
from tests.support.sample_results import VANTAGES, run

pyarrow = pytest.importorskip("pyarrow")
dataset = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

DAY_NS = 86400 * 10**9
SOURCE = RunSource("r1", "host", VANTAGES)


def over_days() -> list[Result]:
    """The sample's connections, the second trial of each a day later."""
    return [one._replace(started_at=one.started_at + DAY_NS * (one.trace_id[-1] == "2")) for one in run()]


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found = dataset.dataset(folder / table, format="parquet", partitioning="hive")
    return list(found.to_table().to_pylist())


def test_every_reading_is_a_row_in_its_days_and_regions_folder(tmp_path: Path) -> None:
    done = write_parquet(found_in(over_days()), SOURCE, tmp_path)
    found = rows(tmp_path, "readings")
    expected = [(r.trace_id, o.knob, o.reason, o.grade) for r in over_days() for o in r.observations]
    assert sorted((r["trace_id"], r["knob"], r["reason"], r["grade"]) for r in found) == sorted(expected, key=str)
    assert done.readings == len(found) == 16
    for row in found:
        assert str(row["day"]) == row["started_at"].date().isoformat()
        assert row["region"] == VANTAGES[str(row["vantage"])].region and row["run"] == "r1"
    folders = {str(file.parent.relative_to(tmp_path / "readings")) for file in done.files if "readings" in file.parts}
    assert "day=2001-09-09/region=North America" in folders and len(folders) == 4


def test_values_are_json_and_numbers_are_numbers_and_a_strange_region_is_one_folder(tmp_path: Path) -> None:
    vantages = {"eu": Vantage("eu", "a/../b=c"), "na": Vantage("na", "")}
    done = write_parquet(found_in(run()), RunSource("r", "", vantages), tmp_path)
    assert {file.parent.name for file in done.files} == {"region=a%2F..%2Fb%3Dc", "region=na"}
    verdicts = rows(tmp_path, "verdicts")
    assert {row["region"] for row in verdicts} == {"a/../b=c", "na"}
    found = {(r["site"], r["vantage"]): r for r in verdicts if r["knob"] == "icw"}
    assert (found["a.example", "na"]["value"], found["a.example", "na"]["number"]) == ("10", 10.0)
    assert found["b.example", "na"]["grade"] == "L" and found["a.example", "na"]["trials"] == 2
    short = found["b.example", "eu"]
    assert (short["value"], short["number"], short["reason"]) == (None, None, "too-short")


@pytest.mark.parametrize("most", [1, 5, 100])
def test_few_rows_wait_in_memory_whatever_their_order(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []

    class Watched(parquet._ParquetTable):
        def add(self, *row: object) -> None:
            super().add(*row)  # type: ignore[arg-type]
            held.append(self._in_memory)

    monkeypatch.setattr(parquet, "_ParquetTable", Watched)
    done = write_parquet(found_in(over_days()), SOURCE, tmp_path, most_rows=most)
    assert max(held) <= most and done.readings == len(rows(tmp_path, "readings")) == 16


def test_a_partition_of_many_rows_is_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tmp_path / "whole"
    write_parquet(found_in(over_days()), SOURCE, whole)
    monkeypatch.setattr(parquet, "MOST_ROW_GROUPS", 3)
    parts = tmp_path / "parts"
    for most in (1, 2):
        done = write_parquet(found_in(over_days()), SOURCE, parts, most_rows=most)
        assert max(int(pq.ParquetFile(file).num_row_groups) for file in done.files) <= 3
        # none of the more files that were there before
        assert {file for file in parts.rglob("*") if file.is_file()} == set(done.files)
        for table in ("readings", "verdicts"):
            assert sorted(rows(parts, table), key=str) == sorted(rows(whole, table), key=str)
        if most == 1:
            assert any(file.name == "run-r1.2.parquet" for file in done.files)


def test_a_broken_export_leaves_no_file_under_its_name(tmp_path: Path) -> None:
    def broken() -> object:
        yield from found_in(run())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(broken(), SOURCE, tmp_path, most_rows=2)  # type: ignore[arg-type]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    left = tmp_path / "readings" / "day=2001-09-09" / "region=Europe" / ".run-r1.parquet.part"
    left.write_bytes(b"of a killed one")
    assert write_parquet(found_in(run()), SOURCE, tmp_path).readings == len(rows(tmp_path, "readings")) == 16
    assert not left.exists()


def test_two_exports_of_a_run_at_once_are_both_written(tmp_path: Path) -> None:
    done: list[int] = []
    second = Thread(target=lambda: done.append(write_parquet(found_in(run()), SOURCE, tmp_path, most_rows=1).readings))

    def first() -> Iterator[TargetResult]:
        targets = iter(found_in(run()))
        yield next(targets)
        second.start()
        # It ends by now if nothing keeps it out.
        second.join(0.3)
        yield from targets

    done.append(write_parquet(first(), SOURCE, tmp_path, most_rows=1).readings)
    second.join()
    assert done == [16, 16] and len(rows(tmp_path, "readings")) == 16
    assert [*tmp_path.rglob(".*.part")] == []


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_leaves_no_part(tmp_path: Path) -> None:
    """A limit on the size of files, small enough for the footer to meet it, in place of a disk."""
    program = (
        "import resource, sys; from pathlib import Path; from configtron.model.errors import Unwritten;"
        "from configtron.report.parquet import write_parquet; from configtron.report.target_results import found_in;"
        "from tests.report.test_parquet import SOURCE; from tests.support.sample_results import run\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_parquet(found_in(run()), SOURCE, Path(sys.argv[1]))\n"
        "except Unwritten as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert "File too large" in done.stdout and done.stdout.count("\n") == 1 and done.stderr == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def exported(folder: Path, machine: str) -> WrittenParquet:
    """The sample as a machine's run, in the folder `measured`."""
    with Store(folder / f"{machine}.db") as store:
        places = [{"name": one.name, "region": one.region} for one in VANTAGES.values()]
        number = store.begin_run(canonical({"host": machine, "vantages": places}))
        store.record(number, run())
        return campaign.export_parquet(store, store.run(number), folder / "measured")


def test_runs_of_machines_lie_beside_each_other_and_again_is_the_same(tmp_path: Path) -> None:
    exported(tmp_path, "one")
    before = rows(tmp_path / "measured", "readings")
    (tmp_path / "one.db").rename(tmp_path / "moved.db")
    with campaign.open_runs(tmp_path / "moved.db") as store:
        campaign.export_parquet(store, store.run(1), tmp_path / "measured")
    assert rows(tmp_path / "measured", "readings") == before
    exported(tmp_path, "two")
    found = rows(tmp_path / "measured", "readings")
    assert len(found) == 32 and {row["machine"] for row in found} == {"one", "two"}


def test_the_documents_queries_run_in_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    exported(tmp_path, "one")
    monkeypatch.chdir(tmp_path)
    verdicts, readings = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/probe.md").read_text(), re.S)
    found = duckdb.sql(verdicts.replace("('A', 'B')", "('A', 'B', 'C')")).fetchall()
    graded = [r for r in rows(tmp_path / "measured", "verdicts") if r["knob"] == "icw" and str(r["grade"]) in "ABC"]
    assert sum(row[2] for row in found) == len(graded) == 2
    assert [row[2:] for row in duckdb.sql(readings).fetchall()] == [("too-short", 2)]
