# SPDX-License-Identifier: MIT
"""A run as Parquet: two tables, readings and verdicts, partitioned by day and region, in bounded memory.

    DIR/readings/day=2026-11-24/region=Europe/run-NAME.parquet     a row a single reading
    DIR/verdicts/day=2026-11-24/region=Europe/run-NAME.parquet     a row a verdict on a target from a vantage

NAME identifies the run, on whatever machine it was made: the same run written again replaces its files. A partition of
millions of rows is several files, `run-NAME.2.parquet` and so on. The files appear under their names when all of a
table is written; a killed export leaves hidden files that end in `.part`, which the next one replaces. An export waits
while another one writes to the same DIR.
"""

from __future__ import annotations

import fcntl
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from configtron.model.errors import cannot_write
from configtron.model.nouns import Observation, Value, Vantage
from configtron.model.packages import missing
from configtron.model.records import Result, canonical, value_form
from configtron.report.target_results import TargetResult

if TYPE_CHECKING:
    import pyarrow

SCHEMA = "configtron.readings/1"
# Rows of a table that wait in memory for all partitions together, some 15 MB; the fullest partition is written first.
MOST_ROWS_IN_MEMORY = 20_000
# Row groups of a table's open files together: each keeps 20 KB in memory until its file is closed, and 40 KB then.
MOST_ROW_GROUPS = 500
# Column -> type, by pyarrow's names. `value` is JSON; `number` is the value where it is a number.
TARGET_COLUMNS = {
    "run": "string", "machine": "string", "vantage": "string", "site": "string", "address": "string", "port": "int32",
    "path": "string", "provider": "string", "tag": "string",
}  # fmt: skip
READING_COLUMNS = {
    "knob": "string", "value": "string", "number": "float64", "reason": "string", "unit": "string", "method": "string",
    "grade": "string",
}  # fmt: skip
READINGS = {
    **TARGET_COLUMNS, "started_at": "timestamp", "trace_id": "string", "probe": "string", "ending": "string",
    "tainted": "bool", **READING_COLUMNS, "evidence_file": "string", "first_frame": "int64", "frames": "int64",
}  # fmt: skip
VERDICTS = {**TARGET_COLUMNS, "started_at": "timestamp", **READING_COLUMNS, "trials": "int32"}
Row = tuple[object, ...]


class RunSource(NamedTuple):
    """The run that rows come from: its name, the machine that made it, its vantages by name."""

    name: str
    machine: str
    vantages: Mapping[str, Vantage]


class WrittenParquet(NamedTuple):
    """Rows of both tables, and the files that hold them."""

    readings: int
    verdicts: int
    files: tuple[Path, ...]


def write_parquet(
    found: Iterable[TargetResult], source: RunSource, folder: Path, most_rows: int = MOST_ROWS_IN_MEMORY
) -> WrittenParquet:
    """Write both tables of a run, read one target at a time. Errors: `Missing`, `BadInput`, `Unwritten`."""
    try:
        readings = _ParquetTable(folder / "readings", source.name, READINGS, most_rows)
        verdicts = _ParquetTable(folder / "verdicts", source.name, VERDICTS, most_rows)
    except ModuleNotFoundError as error:
        raise missing(error) from error
    try:
        with _locked(folder), readings, verdicts:
            for item in found:
                _write(item, source, readings, verdicts)
    except OSError as error:
        raise cannot_write(error.filename or folder, error) from error
    return WrittenParquet(readings.rows, verdicts.rows, (*readings.files, *verdicts.files))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other exports out of it: two of one run would write the same hidden files."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # NFS locks no folder; one export at a time needs no lock.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(item: TargetResult, source: RunSource, readings: _ParquetTable, verdicts: _ParquetTable) -> None:
    began = min((result.started_at for result in item.evidence), default=0)
    vantage = source.vantages.get(item.vantage)
    region = vantage.region if vantage is not None and vantage.region else item.vantage
    whom = _target(item, source)
    for verdict in item.verdicts.values():
        verdicts.add(began, region, (*whom, began // 1000, *_reading(verdict), len(verdict.trials)))
    for result in item.evidence:
        for reading in result.observations:
            row = (*whom, *_trace(result), *_reading(reading), result.evidence_file, result.first_frame, result.frames)
            readings.add(result.started_at, region, row)


def _target(item: TargetResult, source: RunSource) -> Row:
    target = item.fingerprint.target
    return (
        source.name, source.machine, item.vantage, item.site, target.address, target.port, target.path,
        target.provider, target.tag,
    )  # fmt: skip


def _trace(result: Result) -> Row:
    return result.started_at // 1000, result.trace_id, result.probe, result.ending, bool(result.tainted)


def _reading(one: Observation) -> Row:
    value = None if one.value is None else canonical(value_form(one.value))
    return one.knob, value, _number(one.value), one.reason, one.unit, one.method, one.grade


def _number(value: Value | None) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class _ParquetTable:
    """One table: rows wait by partition, and the fullest is written once there are too many in all."""

    def __init__(self, folder: Path, run: str, columns: Mapping[str, str], most_rows: int) -> None:
        import pyarrow
        import pyarrow.parquet

        types: dict[str, Any] = {"timestamp": pyarrow.timestamp("us", tz="UTC"), "bool": pyarrow.bool_()}
        fields = [(name, types.get(kind) or getattr(pyarrow, kind)()) for name, kind in columns.items()]
        self._schema: pyarrow.Schema = pyarrow.schema(fields, metadata={"configtron.schema": SCHEMA})
        self._table: Callable[..., pyarrow.Table] = pyarrow.Table.from_arrays
        self._array, self._writer = pyarrow.array, pyarrow.parquet.ParquetWriter
        self._folder, self._run, self._most = folder, run, most_rows
        self._waiting: dict[Path, list[Row]] = {}
        self._writers: dict[Path, Any] = {}
        self._row_groups: Counter[Path] = Counter()
        self._parts: dict[Path, list[Path]] = {}
        self._in_memory = self.rows = 0
        self.files: tuple[Path, ...] = ()

    def add(self, started_at_ns: int, region: str, row: Row) -> None:
        """Keep a row for its partition."""
        day = datetime.fromtimestamp(started_at_ns // 10**9, UTC).date().isoformat()
        place = self._folder / f"day={day}" / f"region={quote(region, safe=' ')}"
        self._waiting.setdefault(place, []).append(row)
        self.rows += 1
        self._in_memory += 1
        if self._in_memory >= self._most:
            self._flush(max(self._waiting, key=lambda one: len(self._waiting[one])))

    def _flush(self, place: Path) -> None:
        rows = self._waiting.pop(place)
        self._in_memory -= len(rows)
        if place not in self._writers:
            place.mkdir(parents=True, exist_ok=True)
            parts = self._parts.setdefault(place, [])
            parts.append(self._part(place, len(parts) + 1))
            self._writers[place] = self._writer(parts[-1], self._schema)
        columns = zip(*rows, strict=True)
        arrays = [self._array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writers[place].write_table(self._table(arrays, schema=self._schema))
        self._row_groups[place] += 1
        if self._row_groups.total() >= MOST_ROW_GROUPS:
            longest = max(self._row_groups, key=self._row_groups.__getitem__)
            self._writers[longest].close()
            del self._writers[longest], self._row_groups[longest]

    def _part(self, place: Path, number: int) -> Path:
        """Return a partition's file of that number, from 1 on, while it is written."""
        name = self._file(place, number).name
        return place / f".{name}.part"

    def _file(self, place: Path, number: int) -> Path:
        return place / (f"run-{self._run}.parquet" if number == 1 else f"run-{self._run}.{number}.parquet")

    def __enter__(self) -> _ParquetTable:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Give the files their names; after an error, remove what was written."""
        try:
            if kind is None:
                self._finish()
        finally:
            self._discard()

    def _finish(self) -> None:
        for place in list(self._waiting):
            self._flush(place)
        for writer in self._writers.values():
            writer.close()
        self._writers = {}
        self.files = tuple(
            part.rename(self._file(place, number))
            for place, parts in self._parts.items()
            for number, part in enumerate(parts, 1)
        )
        for place, parts in self._parts.items():
            number = len(parts) + 1
            # what an earlier export left of the partition's files
            while (file := self._file(place, number)).exists() or self._part(place, number).exists():
                file.unlink(missing_ok=True)
                self._part(place, number).unlink(missing_ok=True)
                number += 1
        self._parts = {}

    def _discard(self) -> None:
        for writer in self._writers.values():
            with suppress(OSError):
                writer.close()
            # a writer that could not be closed would try again at its end, and print why not
            writer.is_open = False
        for part in chain.from_iterable(self._parts.values()):
            part.unlink(missing_ok=True)
