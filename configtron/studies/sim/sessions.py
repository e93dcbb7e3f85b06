# SPDX-License-Identifier: MIT
"""Sessions: page loads of clients whose networks change, as columns.

Question   Which client loads which site when, over which network, and what is the history's estimate of that network?
Method     Prefixes arrive by a Poisson process, few of them often (Zipf). Each has a condition of the tensor; a session
           may meet another one half-way. A policy is shown the condition the history believes in, a little off.
Stop when  n sessions are drawn.
Reads as   columns in order of arrival; the true condition and the believed one side by side.
Fails as   `BadInput` for columns that do not fit one another.
Differs    CT cuts sessions out of CAIDA's and MAWI's packets; such sessions come in by `traces.py`, these are drawn.
Source     CT section 6: characteristics at the start, time to change, characteristics after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Contexts, Floats, conditions_of
from configtron.model.characteristics import BY_NAME
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """n sessions, (n,) each, in order of arrival.

    at_s       arrival, seconds since the replay began
    condition  the tensor's condition at the start
    change_s   seconds until it changes; infinite where it does not
    after      the condition from then on
    seen       the context that a policy gets: site, prefix, and the history's estimate of the condition
    """

    at_s: Floats
    condition: Codes
    change_s: Floats
    after: Codes
    seen: Contexts

    def __post_init__(self) -> None:
        lengths = {len(self.at_s), len(self.condition), len(self.change_s), len(self.after), len(self.seen)}
        if len(lengths) != 1:
            raise BadInput(f"sessions: columns have {sorted(lengths)} rows")
        if (np.diff(self.at_s) < 0).any():
            raise BadInput("sessions: they must be in order of arrival")

    def __len__(self) -> int:
        return len(self.at_s)

    def truth(self, tensor: Tensor, rows: slice) -> Contexts:
        """Return the contexts that Optimal gets: the true conditions."""
        code, seen = self.condition[rows], self.seen[rows]
        numbers = (tensor.bandwidth_kbps[code], tensor.rtt_ms[code], tensor.loss[code])
        further = {name: column[code] for name, column in tensor.characteristics.items()}
        return Contexts(*numbers, seen.site, seen.sites, seen.prefix, seen.prefixes, numbers=further)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How sessions come. Every number is a reader's to change.

    prefixes      client networks; the k-th most frequent has a share proportional to k ** -skew
    per_s         sessions a second, all together
    change_share  share of sessions whose network changes meanwhile, after `change_median_s` at the median
    off_ln        how far the history's bandwidth and round trip are off, ln
    path_off_ln   the same of a tensor's characteristics: few samples are of a full queue, and fewer of a loss
    """

    prefixes: int = 1200
    per_s: float = 10.0
    skew: float = 0.5
    change_share: float = 0.05
    change_median_s: float = 2.0
    off_ln: float = 0.08
    path_off_ln: float = 0.2


USUAL = Arrivals()


def drawn(
    tensor: Tensor, n: int, rng: np.random.Generator, how: Arrivals = USUAL, home: Codes | None = None
) -> Sessions:
    """Return n sessions over a tensor's conditions and sites. home: (prefixes,) each one's condition; None: in turn."""
    share = np.arange(1, how.prefixes + 1) ** -how.skew
    prefix = np.searchsorted(np.cumsum(share / share.sum()), rng.random(n)).clip(0, how.prefixes - 1)
    # Conditions in turn, shuffled: none is missing where there are prefixes enough.
    turn = rng.permutation(np.arange(how.prefixes) % len(tensor.names))
    condition = (turn if home is None else home)[prefix]
    changing = rng.random(n) < how.change_share
    # Times to change spread by an e-fold: some at once, some after the page.
    change_s = np.where(changing, how.change_median_s * np.exp(rng.standard_normal(n)), np.inf)
    after = np.where(changing, rng.integers(len(tensor.names), size=n), condition)
    at_s = np.cumsum(rng.exponential(1.0 / how.per_s, n))
    site = rng.integers(len(tensor.sites), size=n)
    seen = _seen(tensor, condition, how.off_ln, rng)
    names = tuple(f"10.{at >> 8}.{at & 255}.0/24" for at in range(how.prefixes))
    shown = Contexts(*seen, site, tensor.sites, prefix, names, numbers=_path(tensor, condition, how.path_off_ln, rng))
    return Sessions(at_s, condition, change_s, after, shown)


def drifted(
    sessions: Sessions,
    tensor: Tensor,
    rng: np.random.Generator,
    *,
    at_s: float,
    noticed_s: float,
    share: float = 0.5,
    off_ln: float = USUAL.off_ln,
    path_off_ln: float = USUAL.path_off_ln,
) -> Sessions:
    """Return the same sessions, but a share of prefixes moves to another condition at `at_s`, which the history learns
    `noticed_s` seconds later: re-classification latency."""
    prefixes = len(sessions.seen.prefixes)
    moving = rng.random(prefixes) < share
    there = rng.integers(len(tensor.names), size=prefixes)
    prefix = sessions.seen.prefix
    moved = moving[prefix] & (sessions.at_s >= at_s)
    condition = np.where(moved, there[prefix], sessions.condition)
    after = np.where(moved & np.isinf(sessions.change_s), condition, sessions.after)
    known = moved & (sessions.at_s >= at_s + noticed_s)
    anew = _seen(tensor, condition, off_ln, rng)
    old = (sessions.seen.bandwidth_kbps, sessions.seen.rtt_ms, sessions.seen.loss)
    kbps, rtt, loss = (np.where(known, new, before) for new, before in zip(anew, old, strict=True))
    path = _path(tensor, condition, path_off_ln, rng)
    numbers = {name: np.where(known, path[name], before) for name, before in sessions.seen.numbers.items()}
    seen = replace(sessions.seen, bandwidth_kbps=kbps, rtt_ms=rtt, loss=loss, numbers=numbers)
    return replace(sessions, condition=condition, after=after, seen=seen)


def _seen(tensor: Tensor, condition: Codes, off_ln: float, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    wrong = np.exp(off_ln * rng.standard_normal((2, len(condition))))
    return tensor.bandwidth_kbps[condition] * wrong[0], tensor.rtt_ms[condition] * wrong[1], tensor.loss[condition]


def _path(tensor: Tensor, condition: Codes, off_ln: float, rng: np.random.Generator) -> dict[str, Floats]:
    """Return characteristics by name, (n,) each, as the history has them: off like bandwidth, but no share above 1."""
    found = {}
    for name, column in tensor.characteristics.items():
        wrong = np.exp(off_ln * rng.standard_normal(len(condition)))
        found[name] = np.minimum(column[condition] * wrong, BY_NAME[name].most)
    return found


def networks_of(tensor: Tensor) -> Contexts:
    """Return the tensor's conditions as a policy would be shown them: one context each, in their order, of no site."""
    return conditions_of(tensor)


def on(tensor: Tensor, kbps: Floats, rtt_ms: Floats, loss: Floats) -> Codes:
    """Return (n,) the tensor's condition nearest to each network, by the logarithms classes live over: between
    conditions nothing is interpolated."""
    none = np.zeros(0, dtype=np.int64)
    there = networks_of(tensor).points()
    here = Contexts(kbps, rtt_ms, loss, none, ()).points()
    away = np.stack([((here - point) ** 2).sum(axis=1) for point in there], axis=1)
    found: Codes = away.argmin(axis=1)
    return found
