# SPDX-License-Identifier: MIT
"""Checks of a user's file before a world is made of it: CSV by its header, numbers within bounds.

Question   Can this line be a network or a time at all?
Method     A header's words are read as CSV, quoted or not. Every number is finite and within the range of a network, or
           of a replay's clock; each bound gives its reason.
Stop when  the lines end, or one is none.
Reads as   rows by column with where they stand ("FILE, line N"); numbers as floats.
Fails as   `BadInput` in one line: the file, the line, the error, the accepted form.
Differs    CT has no files of users.
Source     RFC 4180 (CSV).

Pure: text in, rows out.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence

from configtron.model.errors import BadInput
from configtron.model.nouns import Context

# No client's link is faster than a terabit a second.
MOST_KBPS = 1e9
# Nothing waits an hour for an answer: TCP itself gives up within minutes.
MOST_RTT_MS = 3_600_000.0
# A replay updates by the sessions' clock, every two minutes unless set: a year is a quarter of a million updates.
MOST_S = 366 * 86_400.0
# Weights are counts or shares; integers up to here are exact, and as many rows as memory holds sum to a finite number.
MOST_WEIGHT = 2.0**53
# A line with its end, which a quoted value may hold.
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# Characters of a file's own words that an error repeats.
QUOTED = 40
# The columns of a network, in all forms.
NUMBERS = ("bandwidth_kbps", "rtt_ms", "loss")


def quoted(word: object) -> str:
    """Return a file's own word as an error repeats it: quoted, on one line, not too long."""
    text = str(word)
    return repr(text if len(text) <= QUOTED else text[:QUOTED] + "...")


def header_of(text: str) -> tuple[str, ...]:
    """Return the words of a CSV's first line; empty where it begins with a number or a bracket."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first.startswith(("[", "{")):
        return ()
    try:
        words = tuple(word.strip() for word in next(csv.reader([first], skipinitialspace=True), []))
    except csv.Error:
        return ()
    return words if any(word[:1].isalpha() and not _is_number(word) for word in words) else ()


def _is_number(word: str) -> bool:
    try:
        float(word.split()[0])
    except ValueError:
        return False
    return True


def csv_rows(text: str, name: str) -> tuple[tuple[str, ...], Iterator[tuple[str, dict[str, str]]]]:
    """Return a CSV's columns, and its rows with the place of each; fields missing at a row's end are empty.

    Errors: `BadInput` for a column that stands twice, a row longer than the header, or text that is no CSV, by line.
    """
    lines = _filled(text, name)
    at, header = next(lines, (1, []))
    columns = tuple(word.strip() for word in header)
    if twice := [word for word in columns if word and columns.count(word) > 1]:
        raise BadInput(f"{name}, line {at}: two columns are called {quoted(twice[0])}; leave one out")
    return columns, _rows(lines, columns, name)


def _rows(
    lines: Iterator[tuple[int, list[str]]], columns: Sequence[str], name: str
) -> Iterator[tuple[str, dict[str, str]]]:
    for at, row in lines:
        if len(row) > len(columns):
            counts = f"{len(row)} values for {len(columns)} columns"
            raise BadInput(f"{name}, line {at}: {counts}; decimals are written with a point")
        yield f"{name}, line {at}", dict(zip(columns, [*row, *[""] * (len(columns) - len(row))], strict=True))


def _filled(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that hold something, with their numbers."""
    lines = csv.reader((line[0] for line in LINE.finditer(text)), skipinitialspace=True, strict=True)
    while True:
        try:
            row = next(lines, None)
        except csv.Error as error:
            raise BadInput(f"{name}, line {lines.line_num}: no CSV ({error}); is a quote left open?") from error
        if row is None:
            return
        if any(word.strip() for word in row):
            yield lines.line_num, row


def number(row: Mapping[str, str], key: str, where: str, most: float = math.inf) -> float:
    """Return a CSV's number, finite, at least 0 and at most `most`. Errors: `BadInput`, which says where."""
    try:
        value = float(row[key])
    except ValueError:
        raise BadInput(f"{where}: {key} is no number: {quoted(row[key])}") from None
    if not math.isfinite(value) or value < 0:
        raise BadInput(f"{where}: {key} must be at least 0 and finite, not {quoted(row[key])}")
    if value > most:
        raise BadInput(f"{where}: {key} must be at most {most:.12g}, not {quoted(row[key])}")
    return value


def network(row: Mapping[str, str], where: str, suffix: str = "") -> tuple[float, float, float]:
    """Return a row's kbit/s, ms and share of packets lost. Errors: `BadInput` for a value that no network has."""
    kbps, rtt, loss = (number(row, f"{key}{suffix}", where) for key in NUMBERS)
    possible(Context(kbps, rtt, loss), where)
    return kbps, rtt, loss


def possible(context: Context, where: str) -> Context:
    """Return the same context, if a network can have its numbers; unknown ones may be anything. Errors: `BadInput`."""
    kbps, rtt, loss = context.bandwidth_kbps, context.rtt_ms, context.loss
    if not (kbps is None or 0 < kbps <= MOST_KBPS):
        raise BadInput(f"{where}: bandwidth must be above 0 and at most {MOST_KBPS:g} kbit/s, not {kbps:g}")
    if not (rtt is None or 0 < rtt <= MOST_RTT_MS):
        raise BadInput(f"{where}: round trip must be above 0 and at most {MOST_RTT_MS:.0f} ms, not {rtt:g}")
    if not (loss is None or 0 <= loss <= 1):
        raise BadInput(f"{where}: loss must be a share from 0 to 1, not {loss:g}")
    return context


def near(at_s: float, first_s: float, where: str) -> float:
    """Return the same time, if it is finite and within a year of another one. Errors: `BadInput`."""
    if not math.isfinite(at_s):
        raise BadInput(f"{where}: a time must be finite, not {at_s}")
    if abs(at_s - first_s) > MOST_S:
        raise BadInput(
            f"{where}: {abs(at_s - first_s):.4g} s from the first time, and a year is the most;"
            " times are in seconds, and what lies further apart belongs into files of its own"
        )
    return at_s
