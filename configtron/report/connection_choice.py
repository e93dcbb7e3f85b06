# SPDX-License-Identifier: MIT
"""Which connections are shown, and in which order: conditions on columns, a column to sort by, one connection alone.

Method     Conditions and orders read a column's CSV cells. `ADDED` are columns beside those of the CSV.
           Trouble is time lost, in repeats. A repeat counts one, for a round trip. A timeout, a repeated SYN and a
           closed window count ten, since each lasts 0.2 s or more; so does a SYN that was refused or never answered.
           Resets together count one, if data was sent. Both sides count.
Reads as   An empty cell meets no condition, since an unknown value is neither more nor less. A lower bound (`>= 10`)
           meets only a condition that every larger value meets too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import get_close_matches
from math import isfinite
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, Self

import numpy as np

from configtron.fingerprint.passive.columns import FILE_SHIFT, Column, Endpoint
from configtron.fingerprint.passive.connection_report import ConnectionReports, address, none_if_nan
from configtron.fingerprint.passive.summary import SIDES
from configtron.model.errors import BadInput
from configtron.report.connection_rows import cells_of, columns

# What a timeout, a closed window or a connection that never opened costs, in repeats that cost a round trip.
SLOW = 10
REPEATS = ("rto", "tlp", "fast", "unneeded", "other")
# Columns beside those of the CSV: both ends with their ports; the worse side's loss in percent; bytes of both sides.
ADDED = ("client", "server", "loss", "bytes", "trouble")
# The table's headings of columns that have another name.
HEADINGS = {"s": "duration", "end": "ended"}
COMPARED: dict[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge}
SIGNS = {**COMPARED, "=": eq, "!=": ne}
# Two signs in a row are no sign: `icw==10` would compare with the text "=10".
CONDITION = re.compile(r"\s*(\w+)\s*(!~|~|<=|>=|!=|=|<|>)(?![=<>~])\s*(.*?)\s*", re.S)
BOUND = ">= "
Key = tuple[Any, ...]


class ColumnCondition(NamedTuple):
    """A condition on a column: `loss>1`, `server~^10\\.`, `icw>=10`."""

    column: str
    sign: str
    value: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a condition from text. Errors: `BadInput`."""
        found = CONDITION.fullmatch(text)
        if found is None:
            raise BadInput(f"--where {text}: write a column, one of = != < <= > >= ~ !~, and a value: loss>1")
        made = cls(*found.groups())
        try:
            re.compile(made.value if "~" in made.sign else "")
        except re.error as error:
            raise BadInput(f"--where {text}: {error}; ~ takes a regular expression") from error
        if made.sign in COMPARED and _number(made.value) is None:
            raise BadInput(f"--where {text}: {made.value} is not a number: write it without a unit, as 500000")
        return made._replace(column=column_named("--where", made.column))

    def holds(self, cell: str) -> bool:
        """Return whether a CSV cell meets the condition."""
        if not cell or "~" in self.sign:
            return bool(cell) and bool(re.search(self.value, cell)) == (self.sign == "~")
        found, wanted = _number(cell.removeprefix(BOUND)), _number(self.value)
        if found is None or wanted is None:
            return self.sign not in COMPARED and (cell == self.value) == (self.sign == "=")
        # The true value is at least the bound.
        sign = self.sign if not cell.startswith(BOUND) else {">": ">", ">=": ">=", "!=": ">"}.get(self.sign, "")
        return bool(sign) and SIGNS[sign](found, wanted)


class ConnectionChoice(NamedTuple):
    """The connections that are wanted, and their order.

    where       conditions that all hold
    sort        a column: the largest number or the first text first; "": worst first in a table, else by first frame
    connection  only the one with this first frame (file << 40 | number); None: any
    every       whether a table shows all, not only its first rows
    """

    where: tuple[ColumnCondition, ...] = ()
    sort: str = ""
    connection: int | None = None
    every: bool = False

    @classmethod
    def read(cls, where: Sequence[str], sort: str, connection: str, files: int, *, every: bool) -> Self:
        """Read the options; `files`: number of files. Errors: `BadInput`."""
        sort = sort and column_named("--sort", sort)
        number = connection_number(connection, files) if connection else None
        return cls(tuple(map(ColumnCondition.of, where)), sort, number, every)

    @property
    def narrows(self) -> bool:
        """Return whether some connections are left out."""
        return bool(self.where) or self.connection is not None

    def unmet(self, connection: str) -> str:
        """Return why there is none; connection: its number as typed."""
        met = " ".join(f"--where {''.join(one)}" for one in self.where)
        if connection:
            return f"frame {connection} is not the first of a connection{met and f' that meets {met}'}"
        return f"no connection meets {met}: times are in seconds; server has the port, as in server~^10\\.77\\.0\\.3:"

    def of(
        self, batches: Iterable[ConnectionReports], files: Sequence[str], counts: Counter[str]
    ) -> Iterator[ConnectionReports]:
        """Yield each batch with only the chosen connections; add their number to counts["chosen"] if this narrows."""
        for reports in batches:
            if self.connection is not None:
                reports = reports.only(reports.columns["frame"] == self.connection)
            for one in self.where:
                cells = column_of(reports, files, one.column)
                met = {cell: one.holds(cell) for cell in set(cells)}
                reports = reports.only(np.fromiter((met[cell] for cell in cells), bool, len(cells)))
            counts["chosen"] += len(reports) * self.narrows
            yield reports
            del reports  # its memory is needed for the next

    def keys(self, reports: ConnectionReports, files: Sequence[str]) -> list[Key]:
        """Return the sort key of each connection; no two keys are equal."""
        frames = reports.columns["frame"].tolist()
        if not self.sort:
            return list(zip((-trouble(reports)).tolist(), (-volume(reports)).tolist(), frames, strict=True))
        cells = column_of(reports, files, self.sort)
        made = {cell: _sort_key(cell) for cell in set(cells)}
        return [(*made[cell], frame) for cell, frame in zip(cells, frames, strict=True)]


def connection_number(text: str, files: int) -> int:
    """Return file << 40 | frame of a connection as the table prints it: `17`, with several files `2:17`.

    Errors: `BadInput`.
    """
    file, _, frame = text.rpartition(":")
    named = frame.isdecimal() and (file or "1").isdecimal() and 1 <= int(file or files == 1) <= files
    if not named or int(frame) >> FILE_SHIFT:
        raise BadInput(f"--connection {text}: name it as the table's column frame does: 17, of several files 2:17")
    return (int(file or 1) - 1) << FILE_SHIFT | int(frame)


def column_named(option: str, name: str) -> str:
    """Return the column of that name or heading. Errors: `BadInput`."""
    name, known = HEADINGS.get(name, name), (*ADDED, *columns())
    if name not in known:
        near = "".join(f": {one}?" for one in get_close_matches(name, known, 1))
        others = f"; there are those of -f csv (docs/fingerprint.md), and {', '.join(ADDED)}"
        raise BadInput(f"{option}: no column {name!r}{near or others}")
    return name


def column_of(reports: ConnectionReports, files: Sequence[str], name: str) -> Sequence[str]:
    """Return each connection's cell in a column, "" where it is unknown."""
    if not len(reports):
        return []
    if name in SIDES:
        return [named(ends[SIDES.index(name)]) for ends in reports.ends]
    if name == "loss":
        worse = none_if_nan(np.fmax(*(reports.loss[side] for side in SIDES)))
        return ["" if share is None else f"{100 * share:.4g}" for share in worse]
    if name in ADDED:
        return list(map(str, (volume if name == "bytes" else trouble)(reports).tolist()))
    return cells_of(reports, list(files), name)


def trouble(reports: ConnectionReports) -> Column:
    """Return the time that repeats, closed windows and resets of both sides cost, in repeats of a round trip each."""
    syns, spoke = reports.columns["syns"], volume(reports) > 0
    unopened = (syns > 0) & (reports.columns["synacks"] <= 0) & ~spoke
    waits: Column = summed(reports, "rto", "zero_windows") + np.maximum(syns - 1, 0) + unopened
    return SLOW * waits + summed(reports, *REPEATS[1:]) + (summed(reports, "resets") > 0) * spoke


def volume(reports: ConnectionReports) -> Column:
    """Return the bytes that both sides sent, without repeats."""
    return summed(reports, "bytes")


def summed(reports: ConnectionReports, *names: str) -> Column:
    """Return the sum of these columns of both sides; what is unknown counts as nothing."""
    found = [np.maximum(reports.columns[f"{side}_{name}"], 0) for side in SIDES for name in names]
    return np.sum(found, axis=0)  # type: ignore[no-any-return]


def named(end: Endpoint) -> str:
    """Return an end's address and port."""
    return site(address(end), end.port)


def site(host: str, port: int) -> str:
    """Return a host and its port as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _sort_key(cell: str) -> Key:
    found = _number(cell.removeprefix(BOUND))
    return (0, -found, "") if found is not None and isfinite(found) else (1 if cell else 2, 0.0, cell)
