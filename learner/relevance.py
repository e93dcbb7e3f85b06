# SPDX-License-Identifier: MIT
"""Which further features decide page load times: axes that network classes live over, beside the first three.

Question   Do clients that differ in this characteristic (queueing delay, window, ...) or category (network, country,
           device, browser) load differently fast, or want other configurations, beyond the effects of bandwidth, round
           trip and loss, and beyond chance?
Method     ln(ms) less the means of site and configuration, and a regression on bandwidth, round trip and loss up to
           second order. The residual is summed by client: its mean (level), and its products with the knobs' values
           (scores of the client's own knob effects). A characteristic enters by its logarithm and square, a category by
           the means of its values with enough members. The statistic is the variance of levels and scores, each scaled
           by its own spread, that the feature explains; its null distribution comes from `DEALS` permutations of the
           feature over clients, so that a client of many outcomes counts once. Bonferroni: all tested features
           together pass by chance in 5 %.
           A category becomes up to two axes: the level of its values, and their preference among configurations
           (first direction of the scores), each value shrunk to 0 by its uncertainty (Morris 1983).
Stop when  every feature that is known of enough clients was tested.
Reads as   `Relevance`: axes as `nearest.point` takes them, and the p-value of each tested feature.
Fails as   no axis where no feature is known, or none passes: classes live over the first three.
Differs    from CT, which names its features (bandwidth, latency, loss, AS, region, device, site), not how they enter.
Source     Morris 1983 (empirical Bayes); Fisher 1935 and Freedman and Lane 1983 (permutation tests with covariates);
           Micci-Barreca 2001 (categories by the outcomes observed under them).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.split_test import values_of
from configtron.model.characteristics import BY_NAME, NAMES
from configtron.model.grid import Grid
from configtron.model.nouns import Axis

Flags = npt.NDArray[np.bool_]

# Permutations of a feature over clients: 1 / 2000 is a tenth of 5 % / 13, the level at thirteen features.
DEALS = 2000
# Probability that any irrelevant feature passes, all tests together.
CHANCE = 0.05
# Clients with a known value that a feature needs to be tested, and that one value of a category needs.
LEAST_CLIENTS, LEAST_OF_VALUE = 40, 8
# Permutations that are dealt at a time: bounds memory at some ten megabytes.
AT_ONCE = 50
# Clients in a test, evenly spread over the log: enough for a p-value, and memory is bounded.
MOST_CLIENTS = 4000
# Permutations that explain more after which a test stops early: it will not pass (Besag and Clifford 1991).
BEATEN = 40
# Values of a category that have a coordinate: the most frequent.
MOST_VALUES = 50
# A category whose values differ by less than this, in deviations of clients, is no axis.
LEAST_EFFECT = 0.05


@dataclass(frozen=True, slots=True)
class Asked:
    """A tested feature. chance: its p-value; clients: of how many it is known; entered: whether it became an axis."""

    name: str
    chance: float
    clients: int
    entered: bool


@dataclass(frozen=True, slots=True)
class Relevance:
    """axes: for `Classes`; asked: the tested features, known of enough clients."""

    axes: tuple[Axis, ...] = ()
    asked: tuple[Asked, ...] = ()


def relevance(
    contexts: Contexts, configuration: Codes, log_ms: Floats, grid: Grid, rng: np.random.Generator
) -> Relevance:
    """Test each feature on n loads; configuration: (n,) rows of the grid; log_ms: (n,) ln(ms)."""
    known = np.flatnonzero(~np.isnan(contexts.points()).any(axis=1))
    named = [name for name in (*BY_NAME, *NAMES) if _is_known(contexts, name)]
    if not named or len(known) < LEAST_CLIENTS:
        return Relevance()
    here = contexts[known]
    client, scores = _scores(here, configuration[known], log_ms[known], grid)
    columns = {name: _of_client(here, name, client) for name in named}
    if len(scores) > MOST_CLIENTS:
        some = np.unique(np.linspace(0, len(scores) - 1, MOST_CLIENTS).astype(np.int64))
        scores, columns = scores[some], {name: column[some] for name, column in columns.items()}
    designs = {name: found for name, column in columns.items() if (found := _design(name, column)) is not None}
    chances = {name: _p_value(*design, scores, rng) for name, design in designs.items()}
    passed = [name for name, chance in chances.items() if chance * len(chances) <= CHANCE]
    axes = tuple(axis for name in passed for axis in _axes(name, here, columns[name], scores))
    entered = {name for name, _ in axes}
    asked = tuple(Asked(name, chance, int(designs[name][1].sum()), name in entered) for name, chance in chances.items())
    return Relevance(axes, asked)


def _is_known(contexts: Contexts, name: str) -> bool:
    if name in BY_NAME:
        return not bool(np.isnan(contexts.number(name)).all())
    return bool((contexts.named(name)[0] >= 0).any())


def _scores(contexts: Contexts, configuration: Codes, log_ms: Floats, grid: Grid) -> tuple[Codes, Floats]:
    """Return (n,) client of each load, and (clients, 1 + values) statistics of the residual of ln(ms): its mean, and
    the sums of its products with the knobs' values, each column with mean 0 and standard deviation 1 over clients."""
    prefix = contexts.prefix if len(contexts.prefix) else np.full(len(log_ms), -1)
    # An outcome of no prefix is a client of its own.
    alone = len(contexts.prefixes) + np.arange(len(prefix))
    client = np.unique(np.where(prefix < 0, alone, prefix), return_inverse=True)[1].reshape(-1)
    site = np.where(contexts.site < 0, len(contexts.sites), contexts.site)
    values = values_of(grid)[configuration]
    tried = values[:, values.std(axis=0) > 0]
    rest = log_ms - log_ms.mean()
    for _ in range(3):
        rest = rest - _means(site, rest)
        rest = rest - _means(configuration, rest)
    points = contexts.points()
    z = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-9)
    base = np.column_stack((np.ones(len(z)), z, z**2, z[:, :1] * z[:, 1:], z[:, 1] * z[:, 2]))
    rest = rest - base @ np.linalg.lstsq(base, rest, rcond=None)[0]
    apart = tried - np.stack([_means(client, column) for column in tried.T], axis=1) if tried.size else tried
    own = rest - _means(client, rest)
    count = np.bincount(client).astype(np.float64)
    level = np.bincount(client, weights=rest) / count
    sums = [np.bincount(client, weights=own * column) / np.sqrt(count) for column in apart.T]
    found = np.column_stack((level, *sums))
    found = found - found.mean(axis=0)
    deviation = found.std(axis=0)
    scaled: Floats = found[:, deviation > 1e-9] / deviation[deviation > 1e-9]
    return client, scaled


def _means(group: Codes, values: Floats) -> Floats:
    found: Floats = (np.bincount(group, weights=values) / np.maximum(np.bincount(group), 1))[group]
    return found


def _of_client(contexts: Contexts, name: str, client: Codes) -> Floats:
    """Return (clients,) a characteristic's median ln, or a category's code as it occurs first; NaN where it is
    unknown."""
    if name in BY_NAME:
        value = contexts.axis((name, ()))
    else:
        codes = contexts.named(name)[0]
        value = np.where(codes >= 0, codes, np.nan)
    found = np.full(int(client.max()) + 1, np.nan)
    order = np.argsort(client, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(client[order])) + 1):
        mine = value[rows][~np.isnan(value[rows])]
        if len(mine):
            found[client[rows[0]]] = np.median(mine) if name in BY_NAME else mine[0]
    return found


def _design(name: str, column: Floats) -> tuple[Floats, Flags] | None:
    """Return (known clients, m) orthonormal columns of a feature, without the mean; and (clients,) of whom it is known.
    None where too few are, or all are alike."""
    known = ~np.isnan(column)
    if name in BY_NAME:
        value = column[known]
        if len(value) < LEAST_CLIENTS or np.ptp(value) < 1e-9:
            return None
        z = (value - value.mean()) / value.std()
        plain = np.column_stack((z, z**2))
    else:
        code, count = np.unique(column[known].astype(np.int64), return_counts=True)
        often = _frequent(code, count)
        if len(often) < 1 or len(code) < 2:
            return None
        known = np.isin(column, often) if len(often) > 1 else known
        plain = (column[known][:, None] == often[None, :]).astype(np.float64)
    plain = plain - plain.mean(axis=0)
    left, size, _ = np.linalg.svd(plain, full_matrices=False)
    basis = left[:, size > 1e-6 * max(float(size.max(initial=0.0)), 1e-12)]
    return (basis, known) if basis.shape[1] and known.sum() >= LEAST_CLIENTS else None


def _p_value(basis: Floats, known: Flags, scores: Floats, rng: np.random.Generator) -> float:
    """p-value: share of permutations, the identity among them, that explain as much of the scores as the feature."""
    here = scores[known]
    here = here - here.mean(axis=0)
    real, above, done = float(((basis.T @ here) ** 2).sum()), 0, 0
    while done < DEALS and above < BEATEN:
        dealt = np.stack([rng.permutation(len(here)) for _ in range(AT_ONCE)])
        explained = basis.T @ here[dealt]
        above += int(((explained**2).sum(axis=(1, 2)) >= real).sum())
        done += AT_ONCE
    return (1 + above) / (1 + done)


def _axes(name: str, contexts: Contexts, column: Floats, scores: Floats) -> list[Axis]:
    """Return a characteristic's one axis; a category's level and preference, where its values differ in them."""
    if name in BY_NAME:
        return [(name, ())]
    words = contexts.named(name)[1]
    known = ~np.isnan(column)
    value, which, count = np.unique(column[known].astype(np.int64), return_inverse=True, return_counts=True)
    axes: list[Axis] = []
    for part in (scores[known][:, :1], _leading(scores[known][:, 1:], which.reshape(-1), count)):
        effect = _shrunken(part[:, 0], which.reshape(-1), count) if part.size else np.zeros(len(value))
        often = np.isin(value, _frequent(value, count))
        if often.any() and np.abs(effect[often]).max() >= LEAST_EFFECT:
            axes.append((name, tuple((words[at], float(x)) for at, x in zip(value[often], effect[often], strict=True))))
    return axes


def _frequent(code: Codes, count: Codes) -> Codes:
    """Return values of a category that have a coordinate."""
    enough = code[count >= LEAST_OF_VALUE]
    order = np.argsort(-count[count >= LEAST_OF_VALUE], kind="stable")
    found: Codes = np.sort(enough[order[:MOST_VALUES]])
    return found


def _leading(scores: Floats, which: Codes, count: Codes) -> Floats:
    """Return (clients, 1) scores along the direction in which the values of a category differ most."""
    if not scores.size:
        return scores
    means = np.stack([np.bincount(which, weights=column) / count for column in scores.T], axis=1)
    direction = np.linalg.svd(means * np.sqrt(count)[:, None], full_matrices=False)[2][0]
    along: Floats = (scores @ direction)[:, None]
    return along


def _shrunken(values: Floats, which: Codes, count: Codes) -> Floats:
    """Return (values,) means of groups, each shrunk to 0 by its uncertainty (empirical Bayes)."""
    mean = np.bincount(which, weights=values) / count
    within = float(((values - mean[which]) ** 2).sum() / max(len(values) - len(count), 1))
    between = max(float(np.average(mean**2 - within / count, weights=count)), 0.0)
    found: Floats = mean * between / np.maximum(between + within / count, 1e-12)
    return found
