# SPDX-License-Identifier: MIT
"""Users' own traces: sessions as CSV, Mahimahi link traces, `[s, Mbit/s]` traces, and contexts over time.

Pure: text or columns in, columns out; `name` is the text's name in errors. Samples become pieces by the change-point
detector, and pieces sessions: characteristics at the start, time to change, characteristics after (CT section 6).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from configtron.learner.changepoint import Detector, changes
from configtron.learner.columns import Contexts, Floats, contexts_of
from configtron.model.errors import BadInput
from configtron.model.nouns import Context
from configtron.model.tensor import Tensor
from configtron.studies.sim.brought import MOST_KBPS, MOST_S, NUMBERS, csv_rows, near, network, number, quoted
from configtron.studies.sim.sessions import Sessions, on

# A Mahimahi line is one opportunity to send a packet of 1504 bytes, in ms; traces repeat without end.
MAHIMAHI_BYTES = 1504
# Seconds a rate is taken over where a trace has packets only.
WINDOW_S = 1.0
# A packet trace is minutes long and repeats; a day of windows takes the change-point detector seconds.
MOST_TRACE_S = 86_400
# More than that has in ms, leading zeros included: Python itself refuses to read numbers of thousands of digits.
DIGITS = 12
# A JSON list of lists, rather than a bracketed pair a line.
NESTED = re.compile(r"\s*\[\s*\[")
# Below this a link is down; keeps logarithms finite.
LEAST_KBPS = 1.0
# CSV columns that a row of sessions must have, and those it may have.
NEEDED = ("at_s", "prefix", "site", *NUMBERS)
OPTIONAL = ("change_s", "bandwidth_kbps_after", "rtt_ms_after", "loss_after")
# Columns that name the tensor's conditions a session truly meets, where the numbers are those that a policy gets.
CONDITIONS = ("condition", "condition_after")


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """A link over time: at_s and kbit/s from then on, (n,) each; it ends at `end_s`."""

    at_s: Floats
    kbps: Floats
    end_s: float


@dataclass(frozen=True, slots=True)
class Piece:
    """A time without change: from, to (seconds) and the median kbit/s and ms within."""

    begin_s: float
    end_s: float
    kbps: float
    rtt_ms: float
    loss: float


def mahimahi(text: str, name: str = "trace") -> Rates:
    """Read a Mahimahi link trace. Errors: `BadInput` for text that is none, by line."""
    at_ms = [0]
    for line, word in _lines(text):
        where = f"{name}, line {line}"
        at_ms.append(_whole(word, where))
        if at_ms[-1] < at_ms[-2]:
            raise BadInput(f"{where}: the times of a Mahimahi trace never fall")
    if at_ms[-1] == 0:
        raise BadInput(f"{name}: a Mahimahi trace has a time in ms on each line, the last above 0")
    end_s = at_ms[-1] / 1000.0
    edges = np.append(np.arange(0.0, end_s, WINDOW_S), end_s)
    packets, _ = np.histogram(np.array(at_ms[1:]) / 1000.0, edges)
    kbps = packets * MAHIMAHI_BYTES * 8.0 / 1000.0 / np.diff(edges)
    return Rates(edges[:-1], np.maximum(kbps, LEAST_KBPS), end_s)


def steps(text: str, name: str = "trace") -> Rates:
    """Return `[s, Mbit/s]` pairs: a JSON list of them, or one pair a line with comma or blank between. Each holds until
    the next; the last as long as the one before. Errors: `BadInput`, by line or pair."""
    found: list[tuple[float, float]] = []
    for where, pair in _json_pairs(text, name) if NESTED.match(text) else _line_pairs(text, name):
        found.append(_step(pair, where))
        near(found[-1][0], found[0][0], where)
        if len(found) > 1 and found[-1][0] <= found[-2][0]:
            raise BadInput(f"{where}: times must rise")
    if len(found) < 2:
        raise BadInput(f"{name}: a bandwidth trace has at least two pairs of s and Mbit/s")
    at_s, mbps = np.array(found).T
    at_s = at_s - at_s[0]
    return Rates(at_s, np.maximum(mbps * 1000.0, LEAST_KBPS), float(2.0 * at_s[-1] - at_s[-2]))


def pieces(rates: Rates, rtt_ms: float, loss: float, detector: Detector | None = None) -> list[Piece]:
    """Return a link's times without change; such traces have no round trip and no loss, so the caller gives both."""
    starts = [0, *(change.since for change in changes(rates.kbps, detector)), len(rates.kbps)]
    at = np.append(rates.at_s, rates.end_s)
    return [
        Piece(float(at[a]), float(at[b]), float(np.median(rates.kbps[a:b])), rtt_ms, loss)
        for a, b in zip(starts, starts[1:], strict=False)
    ]


def contexts_pieces(at_s: Floats, contexts: Contexts, detector: Detector | None = None) -> list[Piece]:
    """One client's contexts over time, as a capture's connections show them: cut where round trips change. Rows with
    an unknown feature are left out. Errors: `BadInput` where none is left."""
    measured = (contexts.rtt_ms > 0) & (contexts.bandwidth_kbps > 0)
    rows = np.flatnonzero(measured & ~np.isnan(contexts.points()).any(axis=1))
    if not len(rows):
        raise BadInput("no connection shows bandwidth, round trip and loss")
    known, times = contexts[rows], at_s[rows]
    starts = [0, *(change.since for change in changes(known.rtt_ms, detector)), len(rows)]
    ends = np.append(times, times[-1])
    return [
        Piece(
            float(ends[a]),
            float(ends[b]),
            float(np.median(known.bandwidth_kbps[a:b])),
            float(np.median(known.rtt_ms[a:b])),
            float(np.mean(known.loss[a:b])),
        )
        for a, b in zip(starts, starts[1:], strict=False)
    ]


def visited(parts: list[Piece], prefix: str, tensor: Tensor, n: int, rng: np.random.Generator) -> Sessions:
    """Return n sessions of one client, at uniform times over its pieces; each changes when its piece ends."""
    begin, end = np.array([p.begin_s for p in parts]), np.array([p.end_s for p in parts])
    at_s = np.sort(begin[0] + (end[-1] - begin[0]) * rng.random(n))
    which = np.clip(np.searchsorted(begin, at_s, side="right") - 1, 0, len(parts) - 1)
    kbps, rtt, loss = (np.array([getattr(p, key) for p in parts]) for key in ("kbps", "rtt_ms", "loss"))
    code = on(tensor, kbps, rtt, loss)
    then = np.minimum(which + 1, len(parts) - 1)
    change_s = np.where(then > which, end[which] - at_s, np.inf)
    site, none = rng.integers(len(tensor.sites), size=n), np.zeros(n, dtype=np.int64)
    seen = Contexts(kbps[which], rtt[which], loss[which], site, tensor.sites, none, (prefix,))
    return Sessions(at_s, code[which], change_s, code[then], seen)


def csv_sessions(text: str, tensor: Tensor, name: str = "sessions") -> Sessions:
    """Return sessions from CSV with a header: `NEEDED`, and `OPTIONAL` together or not at all (empty: no change).

    Errors: `BadInput` for a missing column, a site that the tensor lacks, or a value out of range, by line.
    """
    columns, lines = csv_rows(text, name)
    wanted = (*NEEDED, *(OPTIONAL if set(OPTIONAL) & set(columns) else ()))
    if absent := [column for column in wanted if column not in columns]:
        raise BadInput(f"{name}: the header lacks {', '.join(absent)}")
    rows: list[tuple[float, Context, float, Context, tuple[int, int]]] = []
    places = {name: at for at, name in enumerate(tensor.names)}
    for where, row in lines:
        rows.append((*_row(row, len(wanted) > len(NEEDED), tensor.sites, where), _conditions(row, places, where)))
        near(rows[-1][0], rows[0][0], where)
    if not rows:
        raise BadInput(f"{name}: there is no session in it")
    rows.sort(key=lambda row: row[0])
    seen, later = (contexts_of([row[which] for row in rows], tensor.sites) for which in (1, 3))  # type: ignore[misc]
    start, after = (on(tensor, c.bandwidth_kbps, c.rtt_ms, c.loss) for c in (seen, later))
    named = np.array([row[4] for row in rows], dtype=np.int64)
    start = np.where(named[:, 0] >= 0, named[:, 0], start)
    after = np.where(named[:, 1] >= 0, named[:, 1], np.where(np.isinf([row[2] for row in rows]), start, after))
    at_s, change_s = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
    # A replay begins with its first session, whatever clock the times are of.
    return Sessions(at_s - at_s[0], start, change_s, after, seen)


def _row(
    row: dict[str, str], changing: bool, sites: tuple[str, ...], where: str
) -> tuple[float, Context, float, Context]:
    at_s, first = number(row, "at_s", where), _context(row, "", where)
    if first.site not in sites:
        raise BadInput(f"{where}: the tensor has no site {quoted(first.site)}; it has: {', '.join(sites)}")
    if not changing or not row["change_s"]:
        return at_s, first, math.inf, first
    return at_s, first, number(row, "change_s", where, MOST_S), _context(row, "_after", where)


def _conditions(row: dict[str, str], places: dict[str, int], where: str) -> tuple[int, int]:
    """Return positions of the conditions that a row names, -1 where it names none."""
    for column in CONDITIONS:
        if row.get(column) and row[column] not in places:
            raise BadInput(f"{where}: the tensor has no {column} {quoted(row[column])}; leave it empty for the nearest")
    start, then = (places[row[column]] if row.get(column) else -1 for column in CONDITIONS)
    return start, then


def _context(row: dict[str, str], suffix: str, where: str) -> Context:
    return Context(*network(row, where, suffix), site=row["site"], prefix=row["prefix"])


def _lines(text: str) -> list[tuple[int, str]]:
    return [(at, line.strip()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]


def _whole(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise BadInput(f"{where}: a whole number of ms is wanted, not {quoted(word)}")
    if len(word) > DIGITS or int(word) > MOST_TRACE_S * 1000:
        raise BadInput(f"{where}: {quoted(word)} ms; a link trace is at most {MOST_TRACE_S} s long, and repeats")
    return int(word)


def _step(pair: Sequence[object], where: str) -> tuple[float, float]:
    """Return a pair's time (s) and rate (Mbit/s)."""
    try:
        at_s, mbps = (float(value) for value in pair)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{where}: two numbers are wanted, s and Mbit/s, not {quoted(pair)}") from None
    if not (math.isfinite(at_s) and 0 <= mbps <= MOST_KBPS / 1000.0):
        most = f"{MOST_KBPS / 1000.0:g}"
        raise BadInput(f"{where}: a time must be finite, a rate from 0 (not negative) to {most} Mbit/s: {quoted(pair)}")
    return at_s, mbps


def _json_pairs(text: str, name: str) -> Iterator[tuple[str, Sequence[object]]]:
    try:
        pairs = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: no JSON list of [s, Mbit/s] pairs ({error})") from error
    for at, pair in enumerate(pairs, 1):
        yield f"{name}, pair {at}", pair if isinstance(pair, list) else [pair]


def _line_pairs(text: str, name: str) -> Iterator[tuple[str, Sequence[object]]]:
    for at, line in _lines(text):
        yield f"{name}, line {at}", line.strip("[],").replace(",", " ").split()
