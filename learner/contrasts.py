# SPDX-License-Identifier: MIT
"""Whether a knob does nothing, by outcomes: its effects by pairs of class, site and other knobs.

Question   How much could this knob move page load times, and not have shown itself in these outcomes?
Method     Each load less its expectation by a regression (`loads.py`) with the knob at its default: the residual is the
           knob's effect, and noise. Each other value is compared with the default, among configurations that have both,
           within every pair of factors that it might depend on: class, site, the other knobs. The difference of means,
           squared, less its own variance, averages to the effect's square, over sessions as they came. Loads count by
           the inverse of their propensity, so that clients for whom a value was likelier weigh no more; the variance is
           of these loads, so that neither weights nor unequal noise are taken for an effect.
Stop when  every sum is made. Memory grows with classes, sites and knobs' values, not with outcomes.
Reads as   `DeadKnob`: no pair shows an effect (`DEAD_SIGMAS`), and in none could one of more than `unseen` have stayed
           unseen but in a `share` of such logs. It is dead if that is at most `looks.SMALL`.
Fails as   no verdict on a knob with a value of too few loads, in more than a tenth of the sessions.
Differs    from `importance.dead_knobs`, which looks at each cell and configuration alone: that needs repeats. Seen less
           here: effects of three factors together, by the root of the third's share.
Source     Schuirmann 1987 (equivalence); Berger 1982 (all parts must hold); Hajek 1971 (inverse propensities); White
           1980 (the loads' own variance); Lavenberg and Welch 1981 (control variates).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np

from configtron.learner.classes import Classes
from configtron.learner.columns import Codes, Contexts, Floats, site_codes
from configtron.learner.importance import DEAD_SIGMAS, REASON, DeadKnob
from configtron.learner.loads import FIT_SESSIONS, Loads
from configtron.learner.logged import Logged
from configtron.learner.repeated import SIGMAS_PER_MAD
from configtron.model.grid import Dead, Grid

# Loads further off, in deviations by their median, count as so far: one bad moment is no effect of a knob.
FAR_SIGMAS = 3.0
# Loads of a value, as many as their weights amount to, below which a group shows nothing of its own noise.
LEAST_LOADS = 3.0
# Share of sessions that must be of groups that show it: an effect on nine in ten is close to that on all.
COVERED_SHARE = 0.9
# A knob with more values shows each of them too seldom to be called dead.
MOST_VALUES = 8
# Sums of a group and value: loads, weights, their squares, and the residual of ln(ms) under each, and its square.
SUMS = 6


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A knob's value and its default. knob: position; rest (configurations,) whether the rest was had with both; arm
    (configurations,) 0 of the default, 1 of the value, -1 of another."""

    knob: int
    rest: Codes
    arm: Codes


class Contrasts:
    """Sums over outcomes of a log, in two passes: `count` all of them, then `add` all of them, then `found`.

    grid, classes, sites: as the policy has them; outcomes: how many there will be.
    """

    def __init__(self, grid: Grid, classes: Classes, sites: tuple[str, ...], outcomes: int):
        self.grid, self.classes, self.sites = grid, classes, sites
        self.stride, self.counted = max(outcomes // FIT_SESSIONS, 1), 0
        self.sample: list[tuple[Contexts, Codes, Floats]] = []
        self.twin = _twins(grid)
        self.pairs = list(_pairs(grid, self.twin))
        self.levels = [len(classes) + 1, len(sites) + 1, *(len(knob.values) for knob in grid.knobs)]
        self.chosen = np.zeros((len(classes) + 1, len(grid)))
        self.sums = [[np.zeros((SUMS, 2, a * b)) for a, b in self._margins(pair.knob)] for pair in self.pairs]
        self.came = [[np.zeros(a * b) for a, b in self._margins(pair.knob)] for pair in self.pairs]

    def count(self, part: Logged) -> None:
        """First pass: count how often each class was served each configuration; keep outcomes, evenly, to fit the
        regression to."""
        configuration = part.on(self.grid).configuration
        np.add.at(self.chosen, (self.classes.of(part.contexts), configuration), 1.0)
        rows = np.arange(-self.counted % self.stride, len(part), self.stride)
        self.counted += len(part)
        self.sample.append((self._known(part.contexts)[rows], configuration[rows], part.plt_ms[rows]))

    def fit(self) -> None:
        """Between the passes: fit the loads' expectation, and the bound of outliers."""
        every = [contexts for contexts, _, _ in self.sample]
        kbps, rtt, loss = (
            np.concatenate([getattr(one, name) for one in every]) for name in ("bandwidth_kbps", "rtt_ms", "loss")
        )
        contexts = Contexts(kbps, rtt, loss, np.concatenate([one.site for one in every]), (*self.sites, ""))
        configuration = np.concatenate([chosen for _, chosen, _ in self.sample])
        ms = np.concatenate([ms for _, _, ms in self.sample])
        self.sample = []
        self.loads = Loads(self.grid, contexts, configuration, ms)
        off = np.log(ms) - self.loads.several_ln(contexts, configuration[:, None])[:, 0]
        self.far = FAR_SIGMAS * SIGMAS_PER_MAD * float(np.median(np.abs(off)))
        self.shares = [self._shares(alike) for alike in self.twin]

    def add(self, part: Logged) -> None:
        """Second pass."""
        contexts, logged = self._known(part.contexts), part.on(self.grid)
        network, configuration = self.classes.of(part.contexts), logged.configuration
        factors = [network % self.levels[0], contexts.site, *self.grid.positions[configuration].T]
        left = np.log(part.plt_ms)[:, None] - self.loads.several_ln(contexts, self.twin[:, configuration].T)
        np.clip(left, -self.far, self.far, out=left)
        weight = [self._weights(knob, network, configuration, logged.propensity) for knob in range(len(self.twin))]
        for pair, sums, came in zip(self.pairs, self.sums, self.came, strict=True):
            rest, arm = pair.rest[configuration] > 0, pair.arm[configuration]
            used = rest & (arm >= 0)
            w, r, of = weight[pair.knob][used], left[used, pair.knob], arm[used]
            columns = (None, w, w * w, w * r, w * w * r, (w * r) ** 2)
            for at, (one, two) in enumerate(self._factors(pair.knob)):
                group = factors[one] * self.levels[two] + factors[two]
                size = len(came[at])
                came[at] += np.bincount(group[rest], minlength=size)
                where = of * size + group[used]
                for row, column in zip(sums[at], columns, strict=True):
                    row += np.bincount(where, weights=column, minlength=2 * size).reshape(2, size)

    def found(self, share: float) -> list[DeadKnob]:
        """Return the knobs without an effect seen, with the largest one that may be missed; share: of logs that would
        miss it."""
        found = []
        for at, knob in enumerate(self.grid.knobs):
            seen = [(sums, came) for pair, sums, came in zip(self.pairs, self.sums, self.came, strict=True)
                    if pair.knob == at]  # fmt: skip
            if not seen or len({*self.grid.positions[:, at]}) > len(seen) + 1:
                continue
            unseen = [_unseen(one, two, share) for sums, came in seen for one, two in zip(sums, came, strict=True)]
            if all(one is not None for one in unseen):
                loads = sum(int(sums[0][0].sum()) for sums, _ in seen)
                most = max(one for one in unseen if one is not None)
                found.append(DeadKnob(Dead(knob.name, REASON), loads, float(np.expm1(most))))
        return found

    def _known(self, contexts: Contexts) -> Contexts:
        """With sites in this vocabulary; those of none are its last."""
        numbers = contexts.bandwidth_kbps, contexts.rtt_ms, contexts.loss
        return Contexts(*numbers, site_codes(contexts, self.sites), (*self.sites, ""))

    def _factors(self, knob: int) -> Iterator[tuple[int, int]]:
        """Yield the pairs of factors that a knob may depend on."""
        return combinations([at for at in range(len(self.levels)) if at != knob + 2], 2)

    def _margins(self, knob: int) -> Iterator[tuple[int, int]]:
        return ((self.levels[one], self.levels[two]) for one, two in self._factors(knob))

    def _shares(self, alike: Codes) -> Floats:
        """Return (classes + 1, configurations) this log's share of each configuration with whatever value of a knob;
        alike (configurations,): the one with it at its default."""
        every, some = np.zeros(self.chosen.shape), np.flatnonzero(alike >= 0)
        np.add.at(every.T, alike[some], self.chosen.T[some])
        found: Floats = every[:, alike] / np.maximum(self.chosen.sum(axis=1, keepdims=True), 1.0)
        return found

    def _weights(self, knob: int, network: Codes, configuration: Codes, propensity: Floats) -> Floats:
        """Return (n,) weights: the share of all configurations with the same other knobs, over the propensity of the
        choice. The share is this log's, by class, and the same for all values, so rare other knobs get no larger
        weight. 2 where the log has no propensity."""
        share = self.shares[knob][network, configuration]
        known = np.isfinite(propensity) & (propensity > 0)
        found: Floats = np.where(known, share / np.where(known, propensity, 1.0), 2.0)
        return found


def _twins(grid: Grid) -> Codes:
    """Return (knobs, configurations): the configuration with that knob at its default; -1 where there is none."""
    place = {row: at for at, row in enumerate(grid.rows)}
    usual = grid.rows[grid.default]
    found = [[place.get((*row[:at], usual[at], *row[at + 1 :]), -1) for row in grid.rows] for at in range(len(usual))]
    return np.array(found, dtype=np.int64).reshape(len(usual), len(grid))


def _pairs(grid: Grid, twin: Codes) -> Iterator[_Pair]:
    """Yield every knob's other values; none of a knob with too many, or of a value that has no default beside it."""
    for at in range(len(grid.knobs)):
        position, usual = grid.positions[:, at], grid.positions[grid.default, at]
        values = [value for value in np.unique(position) if value != usual]
        for value in values if len(values) < MOST_VALUES else ():
            both = np.unique(twin[at][(position == value) & (twin[at] >= 0)])
            if len(both):
                arm = np.where(position == usual, 0, np.where(position == value, 1, -1))
                yield _Pair(at, np.isin(twin[at], both).astype(np.int64), arm)


def _unseen(sums: Floats, came: Floats, share: float) -> float | None:
    """Return the largest effect, root mean square over sessions in ln(ms), that may have stayed unseen; None if one was
    seen, or too little was. sums (SUMS, 2, groups), came (groups,) sessions."""
    _, w, ww, wr, wwr, wwrr = sums
    # of one load alone, one; of none as well
    each = np.divide(ww, w**2, out=np.ones(w.shape), where=w > 0)
    enough = (each * LEAST_LOADS <= 1.0).all(axis=0)
    if came[enough].sum() < COVERED_SHARE * came.sum() or not enough.any():
        return None
    w, ww, wr, wwr, wwrr, each = (column[:, enough] for column in (w, ww, wr, wwr, wwrr, each))
    mean = wr / w
    spread = (wwrr - 2.0 * mean * wwr + mean**2 * ww) / w**2 / (1.0 - each)
    variance = np.maximum(spread.sum(axis=0), 0.0)
    freedom = np.maximum((1.0 / each).sum(axis=0) - 2.0, 1.0)
    by = came[enough] / came[enough].sum()
    square = float((by * ((mean[1] - mean[0]) ** 2 - variance)).sum())
    # A squared normal deviate less its variance, which is itself found from these loads; and more where there is an
    # effect, by its own square.
    null = float((by**2 * 2.0 * variance**2 * (1.0 + 1.0 / freedom)).sum())
    more = 4.0 * float((by**2 * variance).sum())
    if square > DEAD_SIGMAS * null**0.5:
        return None
    z = -NormalDist().inv_cdf(share)
    middle = square + z**2 * more / 2.0
    root = max(z**2 * null + middle**2 - square**2, 0.0) ** 0.5
    return float(max(middle + root, 0.0) ** 0.5)
