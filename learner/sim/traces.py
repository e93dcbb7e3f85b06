"""What people bring: sessions as CSV, Mahimahi link traces, `[s, Mbit/s]` traces, and contexts over time.

Pure: text or columns in, columns out; `name` is how errors call the text. Samples become pieces by the change-point
detector, and pieces sessions: characteristics at the start, time to change, characteristics after (CT section 6).
"""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass

import numpy as np

from configtron.errors import BadInput
from configtron.learner.changepoint import Detector, changes
from configtron.learner.columns import Contexts, Floats, contexts_of
from configtron.learner.sim.sessions import Sessions, on
from configtron.nouns import Context
from configtron.tensor import Tensor

# A Mahimahi line is one opportunity to send a packet of 1504 bytes, in ms; traces repeat without end.
MAHIMAHI_BYTES = 1504
# Seconds a rate is taken over where a trace has packets only.
WINDOW_S = 1.0
# Below this a link is down; keeps logarithms finite.
LEAST_KBPS = 1.0
# CSV columns that a row of sessions must have, and those it may have.
NEEDED = ("at_s", "prefix", "site", "bandwidth_kbps", "rtt_ms", "loss")
OPTIONAL = ("change_s", "bandwidth_kbps_after", "rtt_ms_after", "loss_after")


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
    """A Mahimahi link trace. Errors: `BadInput` for what is none, by line."""
    at_ms = [_whole(word, f"{name}, line {line}") for line, word in _lines(text)]
    if not at_ms or at_ms[-1] == 0:
        raise BadInput(f"{name}: a Mahimahi trace has a time in ms on each line, the last above 0")
    if any(later < earlier for earlier, later in zip(at_ms, at_ms[1:], strict=False)):
        raise BadInput(f"{name}: the times of a Mahimahi trace never fall")
    end_s = at_ms[-1] / 1000.0
    edges = np.append(np.arange(0.0, end_s, WINDOW_S), end_s)
    packets, _ = np.histogram(np.array(at_ms) / 1000.0, edges)
    kbps = packets * MAHIMAHI_BYTES * 8.0 / 1000.0 / np.diff(edges)
    return Rates(edges[:-1], np.maximum(kbps, LEAST_KBPS), end_s)


def steps(text: str, name: str = "trace") -> Rates:
    """`[s, Mbit/s]` pairs: a JSON list of them, or one pair a line with comma or blank between. Each holds until the
    next; the last as long as the one before. Errors: `BadInput`."""
    pairs = _json_pairs(text, name) if text.lstrip().startswith("[[") else _line_pairs(text, name)
    if len(pairs) < 2:
        raise BadInput(f"{name}: a bandwidth trace has at least two pairs of s and Mbit/s")
    at_s, mbps = np.array(pairs).T
    if (np.diff(at_s) <= 0).any() or (mbps < 0).any() or not np.isfinite(pairs).all():
        raise BadInput(f"{name}: times must rise and rates must not be negative")
    return Rates(at_s, np.maximum(mbps * 1000.0, LEAST_KBPS), float(2.0 * at_s[-1] - at_s[-2]))


def pieces(rates: Rates, rtt_ms: float, loss: float, detector: Detector | None = None) -> list[Piece]:
    """A link's times without change; such traces have no round trip and no loss, so the caller says which."""
    starts = [0, *(change.since for change in changes(rates.kbps, detector)), len(rates.kbps)]
    at = np.append(rates.at_s, rates.end_s)
    return [
        Piece(float(at[a]), float(at[b]), float(np.median(rates.kbps[a:b])), rtt_ms, loss)
        for a, b in zip(starts, starts[1:], strict=False)
    ]


def contexts_pieces(at_s: Floats, contexts: Contexts, detector: Detector | None = None) -> list[Piece]:
    """One client's contexts over time, as a capture's connections show them: cut where round trips change. Rows with
    an unknown feature are left out. Errors: `BadInput` where none is left."""
    rows = np.flatnonzero(~np.isnan(contexts.points()).any(axis=1))
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
    """n sessions of one client, at uniform times over its pieces; each changes when its piece ends."""
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
    """Sessions from CSV with a header: `NEEDED`, and `OPTIONAL` together or not at all (empty: no change).

    Errors: `BadInput` for a missing column, a site that the tensor lacks, or a value out of range, by line.
    """
    reader = csv.DictReader(text.splitlines())
    columns = reader.fieldnames or ()
    wanted = (*NEEDED, *(OPTIONAL if set(OPTIONAL) & set(columns) else ()))
    if absent := [column for column in wanted if column not in columns]:
        raise BadInput(f"{name}: the header lacks {', '.join(absent)}")
    rows = [_row(row, len(wanted) > len(NEEDED), f"{name}, line {reader.line_num}") for row in reader]
    if not rows:
        raise BadInput(f"{name}: there is no session in it")
    rows.sort(key=lambda row: row[0])
    seen = contexts_of([row[1] for row in rows], tensor.sites)
    if (seen.site < 0).any():
        site = rows[int(seen.site.argmin())][1].site
        raise BadInput(f"{name}: the tensor has no site {site!r}; it has: {', '.join(tensor.sites)}")
    later = contexts_of([row[3] for row in rows], tensor.sites)
    start, after = (on(tensor, c.bandwidth_kbps, c.rtt_ms, c.loss) for c in (seen, later))
    at_s, change_s = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
    # A replay begins with its first session, whatever clock the times are of.
    return Sessions(at_s - at_s[0], start, change_s, after, seen)


def _row(row: dict[str, str], changing: bool, where: str) -> tuple[float, Context, float, Context]:
    at_s = number(row, "at_s", where)
    first = _context(row, "", where)
    if not changing or not row["change_s"]:
        return at_s, first, math.inf, first
    return at_s, first, number(row, "change_s", where), _context(row, "_after", where)


def _context(row: dict[str, str], suffix: str, where: str) -> Context:
    numbers = (number(row, f"{key}{suffix}", where) for key in ("bandwidth_kbps", "rtt_ms", "loss"))
    kbps, rtt, loss = numbers
    if kbps <= 0 or rtt <= 0 or loss > 1:
        raise BadInput(f"{where}: bandwidth and round trip must be above 0, loss at most 1")
    return Context(bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss, site=row["site"], prefix=row["prefix"])


def number(row: dict[str, str], key: str, where: str) -> float:
    """A CSV's number, at least 0 and finite. Errors: `BadInput`, which says where."""
    try:
        value = float(row[key])
    except (TypeError, ValueError):
        raise BadInput(f"{where}: {key} is no number: {row[key]!r}") from None
    if not math.isfinite(value) or value < 0:
        raise BadInput(f"{where}: {key} must be at least 0 and finite, not {row[key]}")
    return value


def _lines(text: str) -> list[tuple[int, str]]:
    return [(at, line.strip()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]


def _whole(word: str, where: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise BadInput(f"{where}: a whole number of ms is wanted, not {word[:40]!r}")
    return int(word)


def _json_pairs(text: str, name: str) -> list[tuple[float, float]]:
    try:
        return [(float(at), float(mbps)) for at, mbps in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise BadInput(f"{name}: no list of [s, Mbit/s] pairs ({error})") from error


def _line_pairs(text: str, name: str) -> list[tuple[float, float]]:
    found = []
    for at, line in _lines(text):
        words = line.strip("[],").replace(",", " ").split()
        try:
            first, second = map(float, words)
        except ValueError:
            raise BadInput(f"{name}, line {at}: two numbers are wanted, s and Mbit/s, not {line[:40]!r}") from None
        found.append((first, second))
    return found
