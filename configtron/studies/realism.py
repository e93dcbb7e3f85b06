# SPDX-License-Identifier: MIT
"""The study `realism`: the remaining gain, and its price, on conditions with characteristics and neighbours.

`learn measure` measures the tensor, and --tensor names it. The study judges three sets of configurations side by side:
all; those that need no measurement of harm (`damage.unmeasured`); those within the bound on damage in each condition,
with bbr where it harms no neighbour.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from configtron.learner.columns import Codes, Floats, conditions_of
from configtron.learner.damage import BOUND, damage_bound, high_of, unmeasured
from configtron.learner.driver_support import Mask
from configtron.learner.table_policy import TablePolicy
from configtron.model.tensor import Tensor
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.sessions import USUAL
from configtron.studies.sim.world import CLASSES, chance, classes_of, seeing, world
from configtron.studies.simulated.points import Point, SessionsStudy, last_half, lived
from configtron.studies.simulated.tensor_source import TensorSource
from configtron.studies.tensors.regrets import Regrets, excess, held_out, perfect, scores, static

SESSIONS = 20_000
# Where the generators of what is drawn here begin.
SHOWING, SPLITTING = 51, 52
# A configuration that is this much slower than the best, or less, fits.
FITS = 0.05
# Knobs whose settings the papers' conclusions are about -> the setting.
SETTINGS = {
    "bbr is best": ("tcp_congestion_control", "bbr"),
    "six connections are best": ("http_version", "http/1.1"),
    "fq is best": ("pacing", "fq"),
    "a window above 10 is best": ("initcwnd", None),
}
USUAL_WINDOW = 10
# An option of conditions that says how much they vary by chance, and nothing of the kind of network.
SPREAD = "spread"
ALL, UNMEASURED, BOUNDED = "all", "no harm assumed", "bounded"


def part(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Everything on one tensor; seeds are of sessions, chance and what is shown."""
    tensor = source.tensor("spread", seed)
    sets, score = _sets(tensor), scores(tensor.median_ms.astype(np.float64))
    found = []
    for name, allowed in sets.items():
        found += _conditions(tensor, name, excess(score, allowed), seed)
        found += _held_out(tensor, name, allowed, seed)
        found += _conclusions(tensor, name, score, allowed)
    # Where nothing that may be served in one condition may be served in all, one configuration has no finite regret.
    return found + _families(tensor, sets, score) + _learners(tensor, sessions, seed)


def _sets(tensor: Tensor) -> dict[str, Mask]:
    """(conditions, configurations) what may be served, by set."""
    shape = (len(tensor.names), len(tensor.grid))
    free = np.array([unmeasured(dict(profile.settings)) for profile in tensor.grid.profiles])
    free[tensor.grid.default] = True
    found = {ALL: np.ones(shape, dtype=np.bool_), UNMEASURED: np.tile(free, (shape[0], 1))}
    if tensor.damage is not None:
        bound = damage_bound(tensor, tensor.grid, BOUND)
        found[BOUNDED] = np.stack([bound.within(row) for row in np.eye(shape[0], dtype=np.bool_)])
    return found


def _regret(row: str, one: Regrets) -> list[Point]:
    named = {"mean regret": one.mean, "p95 regret": one.quantile(0.95), "largest regret": one.quantile(1.0)}
    return [*(Point(row, column, y) for column, y in named.items()), Point(row, "within 5 %", one.within(FITS))]


def _conditions(tensor: Tensor, name: str, regret: Floats, seed: int) -> list[Point]:
    """Default, the static configuration, and perfect learners on few features, all, and all but one."""
    default = np.where(np.isinf(regret), np.nan, regret)[:, tensor.grid.default]
    served = Regrets(np.nan_to_num(default), tensor.share)
    found = _regret(f"{name}: default", served) if not np.isnan(default).any() else []
    found += _regret(f"{name}: static", static(regret, tensor.share))
    for words, known in _known(tensor).items():
        rng = chance(seed, SHOWING)
        how = {"off_ln": USUAL.off_ln, "path_off_ln": USUAL.path_off_ln}
        found += _regret(f"{name}: perfect learner, {words}", perfect(tensor, regret, known, rng, **how))
    return found


def _known(tensor: Tensor) -> dict[str, tuple[str, ...]]:
    """In words -> which characteristics are seen."""
    every = tuple(tensor.characteristics)
    if not every:
        return {"old features": ()}
    without = {f"without {one}": tuple(name for name in every if name != one) for one in every}
    return {"old features": (), "all features": every, **without}


def _held_out(tensor: Tensor, name: str, allowed: Mask, seed: int) -> list[Point]:
    """Gain over the static configuration, choice and judgement on other loads."""
    classes, found = classes_of(tensor, CLASSES, seed), []
    few = seeing(tensor, ())
    of_few = classes_of(few, CLASSES, seed).of(conditions_of(few))
    groups = {"per class, old features": of_few, "per class": classes.of(conditions_of(tensor)),
              "per condition": np.arange(len(tensor.names))}  # fmt: skip
    for words, group in groups.items():
        gains = held_out(tensor, allowed, group, chance(seed, SPLITTING))
        if len(gains):
            low, high = np.percentile(gains, (5, 95))
            row = f"{name}: {words}, held-out loads"
            found.append(Point(row, "gain over static", float(gains.mean()), own=(float(low), float(high))))
            found += [Point(row, "gain, 5th of splits", float(low)), Point(row, "gain, 95th of splits", float(high))]
    return found


def _conclusions(tensor: Tensor, name: str, score: Floats, allowed: Mask) -> list[Point]:
    """What the papers conclude, as shares of conditions, and what is lost where a knob stays at its default."""
    best = np.where(allowed, score, np.inf).argmin(axis=1)
    found = []
    for words, (knob, value) in SETTINGS.items():
        settings = [dict(profile.settings).get(knob) for profile in tensor.grid.profiles]
        if any(one is not None for one in settings):
            has = np.array([_is(one, value) for one in settings])
            found.append(Point(f"{name}: {words}", "share of conditions", float(tensor.share[has[best]].sum())))
    for knob_ in tensor.grid.knobs:
        usual = tensor.grid.column(knob_.name) == tensor.grid.column(knob_.name)[tensor.grid.default]
        kept = excess(score, allowed)[:, usual].min(axis=1)
        lost = np.where(np.isinf(kept), np.nan, kept)
        here = ~np.isnan(lost)
        if here.any():
            mean = float((lost[here] * tensor.share[here]).sum() / tensor.share[here].sum())
            found.append(Point(f"{name}: {knob_.name} stays at its default", "mean regret", mean))
    return found


def _is(setting: object, value: object) -> bool:
    if value is not None:
        return setting == value
    return isinstance(setting, int | float) and setting > USUAL_WINDOW


def family_of(name: str) -> str:
    """What kind of network a condition's name says: "link:10/40/1,neighbours=4,spread=6" is "link neighbours"."""
    kind, _, rest = name.partition(":")
    options = [one.partition("=")[0] for one in rest.split(",")[1:]]
    return " ".join([kind.split(" ")[0], *(one for one in options if one != SPREAD)])


def _families(tensor: Tensor, sets: dict[str, Mask], score: Floats) -> list[Point]:
    """The static configuration's regret, and the gap between one and six connections, by family of conditions."""
    family = np.array([family_of(name) for name in tensor.names])
    h1 = np.array([dict(one.settings).get("http_version") == "http/1.1" for one in tensor.grid.profiles])
    found = []
    for name, allowed in sets.items():
        regret = excess(score, allowed)
        one = static(regret, tensor.share)
        mine = np.where(allowed, score, np.inf)
        for which in dict.fromkeys(family):
            here = family == which
            share = tensor.share[here] / max(tensor.share[here].sum(), 1e-12)
            row = f"{name}: conditions {which}"
            found.append(Point(row, "mean regret", float((one.by_condition[here] * share).sum())))
            if h1.any() and not h1.all():
                gap = mine[here][:, ~h1].min(axis=1) / mine[here][:, h1].min(axis=1) - 1.0
                if np.isfinite(gap).all():
                    found.append(Point(row, "h2 over six connections", float((gap * share).sum())))
    return found


def _learners(tensor: Tensor, sessions: int, seed: int) -> list[Point]:
    """thompson with few features, all, and all but one; without a bound and, where damage is known, within it."""
    found = []
    known = _known(tensor)
    bounds = [False] if tensor.damage is None else [False, True]
    for within in bounds:
        for words, features in known.items():
            if within and words.startswith("without"):
                continue
            replay = _lived(tensor, features, sessions, seed, within)
            found += _fared(f"thompson, {words}{', bounded' if within else ''}", replay)
    return found


def _lived(tensor: Tensor, features: tuple[str, ...], sessions: int, seed: int, within: bool) -> Replay:
    """thompson on sessions of the whole tensor, shown those characteristics alone."""
    here = replace(world(seeing(tensor, features), sessions, seed), tensor=tensor)
    policy: TablePolicy = here.policy("thompson", truth=None)
    if within:
        policy.keep_within(damage_bound(seeing(tensor, features), tensor.grid, BOUND))
    return lived(here, [policy])


def _fared(row: str, replay: Replay) -> list[Point]:
    """Regret in the last half, against the best of all and of what is within the bound; and what it did to others."""
    rows = last_half(replay)
    tensor, condition = replay.tensor, replay.sessions.condition[rows]
    site, configuration = replay.sessions.seen.site[rows], replay.decisions_.configuration[rows]
    ms = tensor.median_ms[condition, configuration, site].astype(np.float64)
    found = []
    for name, allowed in _sets(tensor).items():
        best = np.where(allowed[:, :, None], tensor.median_ms, np.inf).min(axis=1)[condition, site]
        far = ms / best - 1.0
        found += [
            Point(row, f"mean over the best, {name}", float(far.mean())),
            Point(row, f"p95, {name}", float(np.percentile(far, 95))),
        ]
    return found + _damage(row, tensor, condition, configuration, site)


def _damage(row: str, tensor: Tensor, condition: Codes, configuration: Codes, site: Codes) -> list[Point]:
    if tensor.damage is None:
        return []
    lost = tensor.damage[condition, configuration, site].astype(np.float64)
    known_damage = ~np.isnan(lost)
    if not known_damage.any():
        return []
    high = high_of(tensor)[condition, configuration]
    return [
        Point(row, "damage, mean", float(lost[known_damage].mean())),
        Point(row, "sessions above the bound", float((high[known_damage] > BOUND).mean())),
    ]


STUDY = SessionsStudy(
    "realism",
    "What is left to learn on realistic conditions, and at what price",
    "HC, CT (heterogeneity); Pantheon",
    "Networks differ so much that one configuration does not fit: HC's best fits 37.5 % of conditions",
    part,
    "Needs a measured tensor (--tensor) with characteristics and, for the rows `bounded`, damage; without them their "
    "rows are missing. Regret: over the best that may be served in that condition, geometric mean over sites. Perfect "
    "learner: knows the tensor, sees features a little off; no learner does better on them. `held-out loads`: chosen "
    f"on half of the loads, judged on the others. Bound on damage: {BOUND:g} bytes lost by neighbours for each byte "
    "of the page; `no harm assumed`: cubic, reno, vegas, no unpaced window above 30; a row is missing where no one "
    "configuration is within the bound everywhere. thompson starts cold; its regret is of the last half of the "
    "sessions.",
    sessions=SESSIONS,
    duration="5 minutes",
)
