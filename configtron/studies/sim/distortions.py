# SPDX-License-Identifier: MIT
"""Distorted worlds: false outcomes and features, as wrappers of any simulated world.

Question   Does a policy still serve its clients well when a share of the reports to it is false?
Method     A distortion takes a world and returns one with other sessions (features, prefixes), another warm start, or
           other reports (`Reports`): by session, the load time that the policy is given in place of the true one.
           Policies are judged by the true loads of clients; bots and crawlers are not judged.
Stop when  every session has its report.
Reads as   a `World`; several distortions combine in the order given.
Fails as   `BadInput` for an unknown name.
Differs    from CT, whose sessions report true loads of known networks.
Source     Huber 1964 (contamination); the shares are round numbers, and nothing was chosen by a policy's results.

All reports are drawn beforehand, from a generator of their own, so results do not depend on --batch or --resume.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from configtron.learner.columns import Codes, Floats
from configtron.model.errors import BadInput
from configtron.studies.sim.reports import Reports, as_happened
from configtron.studies.sim.sessions import Sessions, drifted
from configtron.studies.sim.world import World, chance

# Share of outcomes that bots and broken clocks report; and of sessions that one crawler makes.
BAD_SHARE = 0.1
# A bot's report: an instant, or a page that it left open (a thousand times the load).
INSTANT_MS, LEFT_OPEN = 1.0, 1000.0
# A crawler fetches one file: mean and standard deviation of its ln(ms), under every configuration.
CRAWLER_LN, CRAWLER_SPREAD_LN = np.log(150.0), 0.3
# A broken clock is off by up to this factor either way, evenly in logarithms.
CLOCK_FACTOR = 1000.0
# Share of loads in a heavy tail, and its Pareto exponent: 1 has no mean.
TAIL_SHARE, TAIL_ALPHA = 0.3, 1.0
# The day's level: factor exp(+-DAY_LN) at peak and trough, and days in a replay, however long.
DAY_LN, DAYS = 0.7, 3.0
# Share of prefixes that move to another network, and when, as a share of the replay; their features stay the old ones.
MOVED_SHARE, MOVED_AT = 0.5, 0.25
# Errors of features: standard deviation in ln; share of prefixes that are shown another prefix's.
WRONG_LN, SHUFFLED_SHARE = 0.6, 0.6
# Share of sessions of which each feature is unknown; of the warm start's cells that were never measured.
UNKNOWN_SHARE, UNMEASURED_SHARE = 0.3, 0.6
# The features that are distorted; and the crawler's prefix.
FEATURES, CRAWLER = ("bandwidth_kbps", "rtt_ms", "loss"), "198.51.100.0/24"
# Where a distortion's chance begins: after the parts of a world.
DISTORTION = 100

Distort = Callable[[World, np.random.Generator], World]


@dataclass(frozen=True, slots=True)
class Distortion:
    """A distortion; help: one line for the user."""

    name: str
    distort: Distort
    help: str


def _reported(world: World, more: Reports) -> World:
    """Return the world with further reports on top of those it has."""
    return replace(world, reports=(world.reports or as_happened(len(world.sessions))).then(more))


def _bots(world: World, rng: np.random.Generator) -> World:
    n = len(world.sessions)
    bot, instant = rng.random(n) < BAD_SHARE, rng.random(n) < 0.5
    fixed_ms = np.where(bot & instant, INSTANT_MS, np.nan)
    return _reported(world, Reports(fixed_ms, np.where(bot & ~instant, LEFT_OPEN, 1.0), ~bot))


def _crawler(world: World, rng: np.random.Generator) -> World:
    """Return the world with one more prefix, on the network of one of the prefixes, in place of a tenth of all
    sessions."""
    sessions, n = world.sessions, len(world.sessions)
    seen, its = sessions.seen, rng.random(n) < BAD_SHARE
    host = int(rng.integers(n))
    prefix = np.where(its, len(seen.prefixes), seen.prefix)
    numbers = (np.where(its, getattr(seen, name)[host], getattr(seen, name)) for name in FEATURES)
    there = _shown(replace(sessions, seen=replace(seen, prefix=prefix, prefixes=(*seen.prefixes, CRAWLER))), *numbers)
    condition = np.where(its, sessions.condition[host], sessions.condition)
    after = np.where(its, sessions.condition[host], sessions.after)
    fixed_ms = np.where(its, np.exp(CRAWLER_LN + CRAWLER_SPREAD_LN * rng.standard_normal(n)), np.nan)
    there = replace(there, condition=condition, after=after)
    return _reported(replace(world, sessions=there), Reports(fixed_ms, np.ones(n), ~its))


def _clocks(world: World, rng: np.random.Generator) -> World:
    n = len(world.sessions)
    off = np.exp(np.log(CLOCK_FACTOR) * rng.uniform(-1.0, 1.0, n))
    broken = rng.random(n) < BAD_SHARE
    return _reported(world, replace(as_happened(n), factor=np.where(broken, off, 1.0)))


def _tails(world: World, rng: np.random.Generator) -> World:
    n = len(world.sessions)
    tail = (1.0 - rng.random(n)) ** (-1.0 / TAIL_ALPHA)
    return _reported(world, replace(as_happened(n), factor=np.where(rng.random(n) < TAIL_SHARE, tail, 1.0)))


def _diurnal(world: World, rng: np.random.Generator) -> World:
    at_s = world.sessions.at_s
    phase = 2.0 * np.pi * (DAYS * (at_s - at_s[0]) / max(float(at_s[-1] - at_s[0]), 1.0) + rng.random())
    return _reported(world, replace(as_happened(len(at_s)), factor=np.exp(DAY_LN * np.sin(phase))))


def _stale(world: World, rng: np.random.Generator) -> World:
    sessions, never_s = world.sessions, float(world.sessions.at_s[-1]) + 1.0
    at_s = float(sessions.at_s[int(MOVED_AT * len(sessions))])
    moved = drifted(sessions, world.tensor, rng, at_s=at_s, noticed_s=never_s, share=MOVED_SHARE)
    return replace(world, sessions=moved)


def _shown(sessions: Sessions, *numbers: Floats) -> Sessions:
    """Return the same sessions, of which a policy is shown other features, in the order of FEATURES."""
    kbps, rtt_ms, loss = numbers
    return replace(sessions, seen=replace(sessions.seen, bandwidth_kbps=kbps, rtt_ms=rtt_ms, loss=loss))


def _wrong(world: World, rng: np.random.Generator) -> World:
    """Return the world in which each prefix's features are off by factors of its own, the same in all its sessions."""
    seen = world.sessions.seen
    off = np.exp(WRONG_LN * rng.standard_normal((3, len(seen.prefixes))))[:, seen.prefix]
    numbers = (seen.bandwidth_kbps * off[0], seen.rtt_ms * off[1], np.minimum(seen.loss * off[2], 1.0))
    return replace(world, sessions=_shown(world.sessions, *numbers))


def _shuffled(world: World, rng: np.random.Generator) -> World:
    """Prefixes are shown the features that another prefix has first."""
    seen = world.sessions.seen
    prefixes, first = np.unique(seen.prefix, return_index=True)
    other = np.arange(len(seen.prefixes))
    other[prefixes] = rng.permutation(prefixes)
    source: Codes = np.zeros(len(seen.prefixes), dtype=np.int64)
    source[prefixes] = first
    whose = source[other[seen.prefix]]
    strange = (rng.random(len(seen.prefixes)) < SHUFFLED_SHARE)[seen.prefix]
    columns = (getattr(seen, name) for name in FEATURES)
    numbers = (np.where(strange, column[whose], column) for column in columns)
    return replace(world, sessions=_shown(world.sessions, *numbers))


def _unknown(world: World, rng: np.random.Generator) -> World:
    seen = world.sessions.seen
    absent = rng.random((3, len(seen))) < UNKNOWN_SHARE
    columns = (getattr(seen, name) for name in FEATURES)
    numbers = (np.where(gone, np.nan, column) for gone, column in zip(absent, columns, strict=True))
    return replace(world, sessions=_shown(world.sessions, *numbers))


def _unmeasured(world: World, rng: np.random.Generator) -> World:
    """Cells of the warm start; a world without one stays as it is."""
    if world.warm is None:
        return world
    absent = rng.random(world.warm.median_ms.shape) < UNMEASURED_SHARE
    median_ms = np.where(absent, np.float32(np.nan), world.warm.median_ms)
    return replace(world, warm=replace(world.warm, median_ms=median_ms, repeats_ms=None))


DISTORTIONS = {
    row.name: row
    for row in (
        Distortion("bots", _bots, "a tenth of outcomes are reported by bots: 1 ms, or a thousand times the load"),
        Distortion("crawler", _crawler, "a tenth of sessions are one prefix's, whose loads no configuration changes"),
        Distortion("clocks", _clocks, "a tenth of outcomes are off by up to 1000 times, either way"),
        Distortion("tails", _tails, "three loads in ten meet a Pareto tail of exponent 1"),
        Distortion("diurnal", _diurnal, "all loads rise and fall by a factor of two, three cycles a replay"),
        Distortion(
            "stale", _stale, "half of the prefixes move to other networks, and their features stay the old ones"
        ),
        Distortion("wrong", _wrong, "each prefix's features have an error of 0.6 in ln"),
        Distortion("shuffled", _shuffled, "60 % of the prefixes are shown another prefix's features"),
        Distortion("unknown-features", _unknown, "each feature is unknown in 30 % of sessions"),
        Distortion("missing-cells", _unmeasured, "60 % of the warm start's cells were never measured"),
    )
}


def distorted(world: World, names: Iterable[str]) -> World:
    """Return the world under these distortions, in their order. Errors: `BadInput` for an unknown name."""
    for at, name in enumerate(names):
        if name not in DISTORTIONS:
            raise BadInput(f"no distortion is called {name!r}; there is: {', '.join(DISTORTIONS)}")
        if len(world.sessions):
            world = DISTORTIONS[name].distort(world, chance(world.seed, DISTORTION + list(DISTORTIONS).index(name), at))
    return world
