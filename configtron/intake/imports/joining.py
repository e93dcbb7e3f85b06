# SPDX-License-Identifier: MIT
"""Outcomes get their client's network from contexts that were seen before the load.

Question   Which features of this client's network were known when its page load began?
Method     Contexts by prefix and time. An outcome's prefix is that of a context, or lies within it (the longest
           counts). Each feature is its latest value that is no older than `window_s` when the load begins; later
           values, those of the load's own connection above all, are consequences of its configuration and are left out.
           An outcome's own values stay. The device is not joined: a prefix has many.
Reads as   the outcomes with features filled in, and `Joined`: how many, how old, how many not and why.
Fails as   a counted reason: no prefix, no date, no context of the prefix, none before the load, older than the window.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from configtron.intake.outcome_formats import NUMBERS
from configtron.learner.columns import Codes, Floats, Named
from configtron.learner.logged import Logged
from configtron.learner.prefixes import longest, network_of
from configtron.model.nouns import Context

# How old a context may be by default: networks of prefixes change by the hour (congestion, who is there).
WINDOW_S = 3600.0
WORDS = ("asn", "region")
# Columns of their own; the others are in `Contexts.numbers`.
PLAIN = ("bandwidth_kbps", "rtt_ms", "loss")
NO_PREFIX, NO_DATE, NO_CONTEXT = "no prefix", "no date", "no context of the prefix"
LATER, OLDER = "no context before the load", "only older contexts"


@dataclass
class Joined:
    """The result of joining. ages_s: of each joined outcome's latest context; left: why others got none."""

    ages_s: array[float] = field(default_factory=lambda: array("f"))
    left: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        total = len(self.ages_s) + sum(self.left.values())
        ages = np.array(self.ages_s)
        how = f" (age {np.median(ages):.0f} s at the median, {ages.max():.0f} s at most)" if len(ages) else ""
        why = ", ".join(f"{count} {reason}" for reason, count in self.left.most_common())
        found = f"{len(ages)} of {total} outcomes got their network from contexts{how}"
        return f"{found}; not: {why}" if why else found


class Contexted:
    """Contexts as columns, by prefix and time."""

    def __init__(self, seen: Iterable[tuple[int, Context]], window_s: float = WINDOW_S) -> None:
        self._window_ns = round(window_s * 1e9)
        self.joined = Joined()
        words: dict[object, int] = {}
        prefixes: dict[str, int] = {}
        columns = {name: array("d") for name in (*NUMBERS, *WORDS)}
        at, code = array("q"), array("q")
        for when, context in seen:
            if not context.prefix:
                continue
            at.append(when)
            code.append(prefixes.setdefault(context.prefix, len(prefixes)))
            for name in NUMBERS:
                value = getattr(context, name, None)
                columns[name].append(np.nan if value is None else value)
            for name in WORDS:
                word = getattr(context, name)
                columns[name].append(np.nan if word in (None, "") else words.setdefault(word, len(words)))
        codes, whens = np.array(code, dtype=np.int64), np.array(at, dtype=np.int64)
        order = np.lexsort((whens, codes))
        self._at, self._prefixes, self._words = whens[order], prefixes, tuple(words)
        self._start = np.searchsorted(codes[order], np.arange(len(prefixes) + 1))
        self._columns = {name: np.array(column)[order] for name, column in columns.items()}
        self._lengths: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._at)

    def fill(self, logged: Logged) -> Logged:
        """Return the same outcomes with their networks' features from contexts."""
        begin = logged.measured_at - np.round(logged.plt_ms * 1e6).astype(np.int64)
        place = self._places(logged, begin)
        rows = np.flatnonzero(place >= 0)
        self.joined.ages_s.extend(((begin[rows] - self._at[place[rows]]) / 1e9).tolist())
        found = {name: self._latest(name, place, begin) for name in (*NUMBERS, *WORDS)}
        return _with(logged, found, self._words)

    def _places(self, logged: Logged, begin: Codes) -> Codes:
        """Return (n,) the latest context of each outcome's prefix before the load, -1 for none; counts why."""
        place = np.full(len(logged), -1)
        seen, left = logged.contexts, self.joined.left
        if not len(seen.prefix):
            left[NO_PREFIX] += len(logged)
            return place
        for number in np.unique(seen.prefix):
            rows = np.flatnonzero(seen.prefix == number)
            dated = rows[logged.measured_at[rows] > 0]
            code = self._code(seen.prefixes[number]) if number >= 0 else -1
            if number < 0 or code < 0:
                left[NO_PREFIX if number < 0 else NO_CONTEXT] += len(rows)
                continue
            left[NO_DATE] += len(rows) - len(dated)
            first, stop = self._start[code], self._start[code + 1]
            at = first + np.searchsorted(self._at[first:stop], begin[dated], side="right") - 1
            early, old = at < first, begin[dated] - self._at[np.maximum(at, 0)] > self._window_ns
            left[LATER] += int(early.sum())
            left[OLDER] += int((old & ~early).sum())
            place[dated] = np.where(early | old, -1, at)
        left += Counter()  # a reason without outcomes is no reason
        return place

    def _code(self, prefix: str) -> int:
        """Return the contexts' prefix that holds this one; -1 if none does."""
        known = self._prefixes.get(prefix, self._lengths.get(prefix))
        if known is None:
            asked = network_of(prefix)
            found = longest(asked, self._prefixes) if asked is not None else ()
            known = self._lengths[prefix] = self._prefixes[found[0]] if found else -1
        return known

    def _latest(self, name: str, place: Codes, begin: Codes) -> Floats:
        """Return (n,) a feature's latest value within the window, at a context or before it; NaN for none."""
        column = self._columns[name]
        known = np.where(np.isnan(column), -1, np.arange(len(column)))
        for first, stop in zip(self._start[:-1], self._start[1:], strict=True):
            known[first:stop] = np.maximum.accumulate(known[first:stop])
        found = np.full(len(place), np.nan)
        rows = np.flatnonzero(place >= 0)
        rows = rows[known[place[rows]] >= 0]
        at = known[place[rows]]
        fresh = begin[rows] - self._at[at] <= self._window_ns
        found[rows[fresh]] = column[at[fresh]]
        return found


def _with(logged: Logged, found: dict[str, Floats], words: tuple[object, ...]) -> Logged:
    """Return the outcomes with the contexts' values, where an outcome has none of its own."""
    seen = logged.contexts
    plain: dict[str, Any] = {}
    numbers, names = dict(seen.numbers), dict(seen.names)
    for name, values in found.items():
        if name in WORDS:
            if not np.isnan(values).all():
                names[name] = _named(*seen.named(name), values, words)
            continue
        own = seen.number(name)
        both = np.where(np.isnan(own), values, own)
        if name in PLAIN:
            plain[name] = both
        elif not np.isnan(both).all():
            numbers[name] = both
    return replace(logged, contexts=replace(seen, **plain, numbers=numbers, names=names))


def _named(codes: Codes, own: tuple[str, ...], values: Floats, words: tuple[object, ...]) -> Named:
    """Return codes into a vocabulary of both, those of the outcomes first."""
    both = (*own, *(str(word) for word in words))
    return np.where((codes < 0) & ~np.isnan(values), np.nan_to_num(values).astype(np.int64) + len(own), codes), both
