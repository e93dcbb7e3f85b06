# SPDX-License-Identifier: MIT
"""Write the connections of a capture as CSV: one row each, formatted column by column.

Method     A whole column of numbers is formatted at a time. Adjacent columns that have the same value in every row are
           joined once. The last columns of a row (names of TLS, verdicts) are formatted once for all connections of a
           kind (`ConnectionReports.kinds`).
Differs    from `csv.writer` in speed only. The bytes are the same: `csv.writer` itself quotes each text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, TypeVar

import numpy as np

from configtron.fingerprint.passive.columns import ABSENT, FILE_SHIFT, FRAME_MASK, Column
from configtron.fingerprint.passive.connection_report import IN_SECONDS, ConnectionReports, none_if_nan, numbers_of
from configtron.fingerprint.passive.limits import LIMITS
from configtron.fingerprint.passive.readings import Hellos
from configtron.fingerprint.passive.summary import CONNECTION, SIDE, SIDES
from configtron.fingerprint.passive.tls import Hello
from configtron.fingerprint.passive.traces import address_text
from configtron.model.nouns import Observation
from configtron.report.printed import text

# Columns that are not written as they are: others are computed from them; the last two are in JSON alone.
NOT_SHOWN = ("frame", "started", "ended", "first_data", "last_data", "out_of_order", "clock")
# Parameters that have a column of their own in the CSV and the table.
SHOWN_KNOBS = ("icw", "synack_rto", "http_version", "http_clear")
# The suffixes of a parameter's three columns: value, grade, reason.
VERDICT_SUFFIXES = ("", "_grade", "_reason")
# Columns that are read from the TLS hellos.
HELLO_COLUMNS = ("tls", "alpn", "server_name")
# Rows formatted at once: enough that numpy's cost per call is small beside theirs, few enough that their text is small.
ROWS_AT_ONCE = 4096
# The texts of counts below this come from a table, whose last entry is the text of `ABSENT`.
TABLE_SIZE = 1 << 12
_COUNT_TEXTS = np.array([*map(str, range(TABLE_SIZE)), ""], object)
# `ABSENT` used as an index has to give the last entry.
assert ABSENT == -1
# The type of the texts into which observations and hellos are formatted.
T = TypeVar("T")
# The cells of a column: one text for all rows, or one for each.
Cells = str | Sequence[str]


def columns() -> list[str]:
    """Return the names of the CSV's columns, in order."""
    times = ["file", "frame", "started_at", "duration", "ended", "captured_at", "limited_by", "limited_share"]
    numbers = [name for name in CONNECTION if name not in NOT_SHOWN]
    sides = [f"{side}_{name}" for side in SIDES for name in (*SIDE, "goodput_kbps", "loss") if name not in NOT_SHOWN]
    ends = [f"{side}_{name}" for side in SIDES for name in ("address", "port")]
    verdicts = [f"{knob}{suffix}" for knob in SHOWN_KNOBS for suffix in VERDICT_SUFFIXES]
    return [*times, *ends, *numbers, *sides, "largest_window", *HELLO_COLUMNS, *verdicts]


def csv_rows(reports: ConnectionReports, files: list[str]) -> Iterator[str]:
    """Yield the row of each connection, as `columns`. files: the captures' names, by the number that a report has."""
    for rows, texts in texts_by_kind(reports, reports.read, _tls_and_verdict_text):
        yield from joined(",", (*_cells(reports, rows, files), texts), len(texts))


def cells_of(reports: ConnectionReports, files: list[str], name: str) -> Sequence[str]:
    """Return each connection's cell in that column; there is one connection at least."""
    place = columns().index(name) - (len(columns()) - len(HELLO_COLUMNS) - len(SHOWN_KNOBS) * len(VERDICT_SUFFIXES))
    if place < 0:
        cells = list(_cells(reports, slice(None), files))[place]
        return [cells] * len(reports) if isinstance(cells, str) else cells
    found = texts_by_kind(reports, reports.read, lambda seen, hellos: [*tls_names(*hellos), *_verdicts(seen)][place])
    return [text for _, texts in found for text in texts]


def joined(separator: str, cells: Iterable[Cells], count: int) -> Iterator[str]:
    """Return the text of each of `count` rows: its cells, with the separator between them."""
    parts: list[Iterable[str]] = []
    same: list[str] = []
    for column in cells:
        if isinstance(column, str):
            same.append(column)
            continue
        if same:
            parts.append(repeat(separator.join(same), count))
            same = []
        parts.append(column)
    if same:
        parts.append(repeat(separator.join(same), count))
    return map(separator.join, zip(*parts, strict=True))


def _cells(reports: ConnectionReports, rows: slice, files: list[str]) -> Iterator[Cells]:
    """Yield the columns of these connections in the order of `columns`, without those of `_tls_and_verdict_text`."""
    numbers = {name: column[rows] for name, column in reports.columns.items()}
    frame, started = numbers["frame"], numbers["started"]
    names = list(map(csv_quoted, files))
    yield one_if_same([names[number] for number in (frame >> FILE_SHIFT).tolist()])
    yield list(map(str, (frame & FRAME_MASK).tolist()))
    yield [f"{ns // 10**9}.{ns % 10**9:09d}" if ns else "" for ns in started.tolist()]
    yield ["" if span is None else f"{span:.6f}" for span in none_if_nan(reports.durations[rows])]
    yield one_if_same(reports.endings[rows].tolist())
    yield one_if_same(reports.places[rows].tolist())
    limit, share = (column[rows] for column in reports.limited)
    yield [
        "" if part is None else LIMITS[number] for number, part in zip(limit.tolist(), none_if_nan(share), strict=True)
    ]
    yield _rounded_cells(share, 3)
    for ends in zip(*reports.ends[rows], strict=True):
        yield [address_text(end.address) for end in ends]
        yield [str(end.port) for end in ends]
    for name in CONNECTION:
        if name not in NOT_SHOWN:
            yield _number_cells(name, numbers[name])
    for side in SIDES:
        yield from (
            _number_cells(f"{side}_{name}", numbers[f"{side}_{name}"]) for name in SIDE if name not in NOT_SHOWN
        )
        yield _rounded_cells(reports.goodput_kbps[side][rows], 3)
        yield _rounded_cells(reports.loss[side][rows], 6)
    largest = (max(((w.segments, w.grade) for w in each), default=("", "")) for each in reports.windows(rows))
    yield one_if_same([f">= {segments}" if grade == "L" else f"{segments}" for segments, grade in largest])


def texts_by_kind(
    reports: ConnectionReports,
    read: Callable[[int], tuple[Any, ...]],
    text: Callable[..., T],
) -> Iterator[tuple[slice, list[T]]]:
    """Yield some rows at a time, and of each what its observations and hellos are formatted as, once for each kind.

    read: those of the connection in a row, and what else `text` takes; text: formats them. If a connection cannot be
    read, yield those before it, then raise.
    """
    numbers, of_kind = reports.kinds.tolist(), dict[int, T]()
    for begin in range(0, len(reports), ROWS_AT_ONCE):
        found: list[T] = []
        try:
            for row, kind in enumerate(numbers[begin : begin + ROWS_AT_ONCE], begin):
                if kind not in of_kind:
                    of_kind[kind] = text(*read(row))
                found.append(of_kind[kind])
        except BaseException:
            if found:
                yield slice(begin, begin + len(found)), found
            raise
        yield slice(begin, begin + len(found)), found


def _tls_and_verdict_text(observations: Sequence[Observation], hellos: Hellos) -> str:
    return ",".join(map(csv_quoted, [*tls_names(*hellos), *_verdicts(observations)]))


def tls_names(client_hello: Hello | None, server_hello: Hello | None) -> tuple[str, str, str]:
    """Return TLS version, ALPN and server name (`HELLO_COLUMNS`); "" where a hello was not captured or has none."""
    if server_hello is None:
        version = alpn = ""
    else:
        version, alpn = next(iter(server_hello.versions), ""), next(iter(server_hello.alpn), "")
    return version, alpn, client_hello.server_name if client_hello else ""


def _verdicts(observations: Sequence[Observation]) -> list[str]:
    """Return value, grade and reason of each of `SHOWN_KNOBS`; the last observation of a parameter counts."""
    cells = {knob: ("", "", "") for knob in SHOWN_KNOBS}
    for one in observations:
        if one.knob in cells:
            value = "" if one.value is None else text(one.value)
            cells[one.knob] = f">= {value}" if one.grade == "L" else value, one.grade, one.reason or ""
    return [cell for knob in SHOWN_KNOBS for cell in cells[knob]]


def _number_cells(name: str, column: Column) -> Cells:
    if name in IN_SECONDS:
        # A whole number of seconds has no point.
        return _texts_by_value(numbers_of(name, column), lambda value: repr(round(value, 9)).removesuffix(".0"))
    least, most = int(column.min()), int(column.max())
    if ABSENT <= least and most < TABLE_SIZE:
        return str(_COUNT_TEXTS[least]) if least == most else list(_COUNT_TEXTS[column])
    texts = list(map(str, column.tolist()))
    for place in np.flatnonzero(column == ABSENT).tolist():
        texts[place] = ""
    return texts


def _rounded_cells(column: Column, digits: int) -> Cells:
    return one_if_same(_texts_by_value(none_if_nan(column), lambda value: str(round(value, digits))))


def _texts_by_value(values: Sequence[float | None], to_text: Callable[[float], str]) -> list[str]:
    """Return the text of each number, "" for None; each distinct number is formatted once."""
    texts = {value: "" if value is None else to_text(value) for value in set(values)}
    return [texts[value] for value in values]


def one_if_same(texts: list[str]) -> Cells:
    """Return one text if all are the same, else all of them."""
    return texts[0] if len(set(texts)) == 1 else texts


@lru_cache(maxsize=4096)
def csv_quoted(text: str) -> str:
    """Return a text as a CSV field: in quotes if it needs them."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow((text, ""))
    return out.getvalue()[: -len(",\n")]
