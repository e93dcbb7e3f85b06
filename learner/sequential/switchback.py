# SPDX-License-Identifier: MIT
"""Switch-back: whole points of presence without tuning for blocks of time, so that no client competes with itself.

Question   Clients that share a bottleneck interfere: what one gains another may lose, held-back clients included. What
           is the effect of tuning all of them?
Method     Time is cut into blocks, and blocks into days of `blocks_a_day`; in each day of each point of presence a
           keyed hash draws which blocks are dark, that is Default for all. Loads near the beginning of a block are left
           out, since connections and queues of the block before last into it. Per day the mean of ln(ms) of the blocks
           that were tuned less that of those that were dark; days of one point of presence and of several are averaged.
           Blocks are what was drawn, so the spread is that between days, by Student's t.
Stop when  all days are averaged.
Reads as   a difference in ln(ms), tuned less dark, with an interval; beside it stands the one by clients.
Fails as   `few-days`: fewer than `LEAST_DAYS` days with both kinds of block. What a dark block does to the next one
           beyond the margin is not seen.
Differs    ConfigTron holds no time back.
Source     Bojinov, Simchi-Levi and Zhao 2023 (switchback experiments); Student 1908; Bottou et al. 2013 (interference).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Floats
from configtron.model.student import student

# Days, of any point of presence, that an interval needs.
LEAST_DAYS = 5
# Loads of either kind that a day needs.
LEAST_LOADS = 10


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """block_s: length of a block; blocks_a_day: how many are drawn among; dark: how many of them are dark; margin_s: of
    a block's beginning that does not count."""

    block_s: int = 3600
    blocks_a_day: int = 24
    dark: int = 1
    margin_s: float = 60.0


@dataclass(frozen=True, slots=True)
class SwitchbackEffect:
    """estimate: tuned less dark, ln(ms); low, high: its 95 % interval; days, loads: that it rests on."""

    estimate: float
    low: float
    high: float
    days: int
    loads: int
    reason: str = ""


def dark(plan: SwitchPlan, key: bytes, pop: str, at_s: float) -> bool:
    """Return whether a point of presence gives all clients Default at a wall-clock second."""
    block = int(at_s // plan.block_s)
    day, within = divmod(block, plan.blocks_a_day)
    ranked = sorted(range(plan.blocks_a_day), key=lambda one: _hash(key, pop, day, one))
    return within in ranked[: plan.dark]


def _hash(key: bytes, pop: str, day: int, block: int) -> bytes:
    return blake2b(f"{pop}/{day}/{block}".encode(), key=key, digest_size=8).digest()


def switchback(plan: SwitchPlan, key: bytes, pops: tuple[str, ...], pop: Codes, at_s: Floats,
               ln_ms: Floats) -> SwitchbackEffect:  # fmt: skip
    """Return the effect by blocks of n loads: pop (n,) codes of `pops`; at_s (n,) when each began; ln_ms (n,)."""
    block = (at_s // plan.block_s).astype(np.int64)
    counted = np.isfinite(ln_ms) & (at_s - block * plan.block_s >= plan.margin_s)
    pop, block, ln_ms = pop[counted], block[counted], ln_ms[counted]
    day = block // plan.blocks_a_day
    pairs, at = np.unique(np.stack((pop, block)), axis=1, return_inverse=True)
    darkness = np.array([dark(plan, key, pops[int(p)], float(b) * plan.block_s) for p, b in pairs.T], dtype=np.bool_)
    is_dark = darkness[at.reshape(-1)] if len(pop) else np.zeros(0, dtype=np.bool_)
    found = _days(np.stack((pop, day)), is_dark, ln_ms)
    if len(found) < LEAST_DAYS:
        return SwitchbackEffect(np.nan, -np.inf, np.inf, len(found), len(ln_ms), "few-days")
    mean, error = float(found.mean()), float(found.std(ddof=1)) / np.sqrt(len(found))
    reach = student(len(found) - 1) * error
    return SwitchbackEffect(mean, mean - reach, mean + reach, len(found), len(ln_ms))


def _days(day: Codes, is_dark: npt.NDArray[np.bool_], ln_ms: Floats) -> Floats:
    """Return each day's difference, of days with enough loads of both kinds."""
    codes = np.unique(day, axis=1, return_inverse=True)[1].reshape(-1)
    kinds = [
        (np.bincount(codes[kind], minlength=codes.max(initial=-1) + 1),
         np.bincount(codes[kind], weights=ln_ms[kind], minlength=codes.max(initial=-1) + 1))
        for kind in (is_dark, ~is_dark)
    ]  # fmt: skip
    (dark_n, dark_sum), (lit_n, lit_sum) = kinds
    enough = (dark_n >= LEAST_LOADS) & (lit_n >= LEAST_LOADS)
    found: Floats = lit_sum[enough] / lit_n[enough] - dark_sum[enough] / dark_n[enough]
    return found
