# SPDX-License-Identifier: MIT
"""Measurements of the testbed as SQL: shards, what read back, cells, loads.

One `record()` is one shard in one transaction: after `kill -9` at any moment the database holds every shard whose
`record()` returned, and none by half.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from configtron.db.connection import Database
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form, pairs_of
from configtron.model.repeats import Verdict
from configtron.model.samples import Cell, Filled, Kept, digest

SELECT_MEASUREMENTS = """
    SELECT id, begun_at, coalesce(finished_at, ''), status, version, study, config,
           (SELECT count(*) FROM shard WHERE shard.measurement = measurement.id)
    FROM measurement ORDER BY id
"""
SELECT_SHARDS = """
    SELECT condition, orders, software, lines, virtual_s, wall_s,
           (SELECT count(*) FROM load WHERE load.shard = shard.id),
           (SELECT json_group_object(name, value) FROM path_view WHERE path_view.shard = shard.id)
    FROM shard WHERE measurement = ? ORDER BY id
"""
SELECT_CELLS = """
    SELECT shard.id, cell.configuration, cell.site, shard.condition, stack.settings, cell.median_ms, cell.low_ms,
           cell.high_ms, cell.loads, cell.flag, stack.read_back, cell.provenance, load.plt_ms,
           neighbour_loss.bytes
    FROM shard
    JOIN stack ON stack.shard = shard.id
    JOIN cell ON cell.shard = stack.shard AND cell.configuration = stack.configuration
    LEFT JOIN load ON load.shard = cell.shard AND load.configuration = cell.configuration AND load.site = cell.site
    LEFT JOIN neighbour_loss ON neighbour_loss.shard = load.shard
        AND neighbour_loss.configuration = load.configuration AND neighbour_loss.site = load.site
        AND neighbour_loss.repeat = load.repeat
    WHERE shard.measurement = ?
    ORDER BY shard.condition, cell.configuration, cell.site, load.repeat
"""


class MeasurementRow(NamedTuple):
    """One measurement as kept; `config` is the JSON it was begun with."""

    id: int
    begun_at: str
    finished_at: str
    status: str
    version: str
    study: str
    config: str
    shards: int


class ShardRow(NamedTuple):
    """One boot as kept: SHA-256 of its orders and of its lines; what it ran on; what it took."""

    condition: str
    orders: str
    software: Mapping[str, str]
    lines: str
    virtual_s: float
    wall_s: float
    loads: int
    features: Mapping[str, float] = MappingProxyType({})


class Measuring(Database):
    """The database as measurements see it."""

    def begin(self, study: str, config: str) -> int:
        """Keep a measurement with its whole configuration (JSON). Returns its number."""
        return self._begin_job("measurement", study=study, config=config)

    def resume(self, number: int) -> MeasurementRow:
        """Mark a measurement as running again."""
        found = self.measurement(number)
        self._resume_job("measurement", found.id)
        return found

    def finish(self, number: int, status: str) -> None:
        """Say how a measurement ended: done, partial, interrupted, failed."""
        self._finish_job("measurement", number, status)

    def measurements(self) -> tuple[MeasurementRow, ...]:
        """Return all of them, oldest first."""
        return tuple(MeasurementRow(*row) for row in self._read(SELECT_MEASUREMENTS))

    def measurement(self, number: int) -> MeasurementRow:
        """Return the measurement of that number; negative numbers count from the end. Errors: `BadInput`."""
        every = self.measurements()
        found = [one for one in (every[number:][:1] if number < 0 else every) if number < 0 or one.id == number]
        if not found or number < -len(every):
            held = ", ".join(str(one.id) for one in every) or "none"
            raise BadInput(f"measurement {number}: not in {self.path}, which holds {held}")
        return found[0]

    def record(
        self,
        number: int,
        filled: Filled,
        cells: Sequence[Cell],
        configurations: Sequence[Profile],
        boot: ShardRow,
    ) -> bool:
        """Keep a shard, all of it or nothing. One that is already kept stays as it is: then False."""
        row = (number, boot.condition, boot.orders, canonical(dict(boot.software)), canonical(dict(filled.network)),
               boot.lines, boot.virtual_s, boot.wall_s)  # fmt: skip
        with self._clear(), self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO shard (measurement, condition, orders, software, network, lines, virtual_s, wall_s)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (measurement, condition) DO NOTHING",
                row,
            )
            if cursor.rowcount == 0:
                return False
            self._record_cells(cast(int, cursor.lastrowid), filled, cells, configurations, boot)
        return True

    def _record_cells(
        self, shard: int, filled: Filled, cells: Sequence[Cell], configurations: Sequence[Profile], boot: ShardRow
    ) -> None:
        write = self._connection.executemany
        write(
            "INSERT INTO stack VALUES (?, ?, ?, ?, ?, ?)",
            [
                (shard, stack.configuration, canonical(pairs_form(configurations[stack.configuration].settings)),
                 canonical(dict(stack.read_back)), stack.reason, stack.words)
                for stack in filled.stacks
            ],
        )  # fmt: skip
        write(
            "INSERT INTO cell VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (shard, cell.configuration, cell.site, *cell.verdict, _provenance(boot, cell, configurations))
                for cell in cells
            ],
        )
        write("INSERT INTO load VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", [(shard, *one[:8]) for one in filled.samples])
        write(
            "INSERT INTO neighbour_loss VALUES (?, ?, ?, ?, ?)",
            [(shard, *one[:3], one.neighbours_lost) for one in filled.samples if one.neighbours_lost is not None],
        )
        write("INSERT INTO path_view VALUES (?, ?, ?)", [(shard, *feature) for feature in filled.features])

    def shards(self, number: int) -> tuple[ShardRow, ...]:
        """Return a measurement's shards, in the order in which they were done."""
        return tuple(
            ShardRow(condition, orders, json.loads(software), lines, virtual_s, wall_s, loads, json.loads(seen))
            for condition, orders, software, lines, virtual_s, wall_s, loads, seen in self._read(SELECT_SHARDS, number)
        )

    def cells(self, number: int) -> Iterator[Kept]:
        """Yield a measurement's cells, by condition, configuration and site."""
        with self._clear():
            rows = self._connection.execute(SELECT_CELLS, (number,))
            for _, group in groupby(rows, key=itemgetter(0, 1, 2)):
                yield _kept(list(group))


def _provenance(boot: ShardRow, cell: Cell, configurations: Sequence[Profile]) -> str:
    settings = canonical(pairs_form(configurations[cell.configuration].settings))
    return digest(boot.orders, canonical(dict(boot.software)), settings, cell.site)


def _kept(rows: Sequence[tuple[Any, ...]]) -> Kept:
    _, configuration, site, condition, settings, median, low, high, loads, flag, read_back, provenance, *_ = rows[0]
    return Kept(
        condition,
        configuration,
        pairs_of(json.loads(settings)),
        site,
        Verdict(median, low, high, loads, flag),
        tuple(sorted(json.loads(read_back).items())),
        provenance,
        tuple(row[-2] for row in rows) if loads else (),
        tuple(row[-1] for row in rows) if loads else (),
    )
