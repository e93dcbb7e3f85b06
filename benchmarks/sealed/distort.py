# SPDX-License-Identifier: MIT
"""Distortions of sessions and outcomes as they occur in service, one at a time, the same for all policies.

bots      whole prefixes with 10 % of the sessions: scripts that load nothing (a few ms), or take eight times as long
clocks    10 % of the outcomes report any time between a millisecond and three hours
tails     15 % of the loads have a Pareto tail of exponent 1.1, whose mean cannot be estimated
diurnal   at the busy hour every load takes up to 2.2 times as long; two days in all
stale     half of the prefixes move to other networks after a third of the sessions; their features stay the old ones
wrong     bandwidth and round trip as policies see them have an error of 0.6 in ln
missing   15 % of the cells were refused where they were measured: they load as under Default
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from configtron.model.tensor import Tensor
from configtron.studies.sim.sessions import Arrivals, Sessions, drawn, drifted

Array = npt.NDArray[Any]
Rng = np.random.Generator
PLAIN = "plain"
DISTORTIONS = ("bots", "clocks", "tails", "diurnal", "stale", "wrong", "missing")
ARRIVALS = Arrivals(change_share=0.04, off_ln=0.1)
WRONG_LN = 0.6


def chance(rng: Rng, n: int) -> Array:
    """(n,) noise factors of a plain world's loads: a Student's t body in ln, and a Pareto tail."""
    body = np.exp(0.11 * rng.standard_t(5.0, n).clip(-8.0, 8.0))
    return np.where(rng.random(n) < 0.03, body * (1.0 + rng.pareto(1.9, n)), body)


def world(kind: str, tensor: Tensor, n: int, rng: Rng) -> tuple[Tensor, Sessions, Array, Array]:
    """(tensor, sessions, scale, instead) under a distortion, or PLAIN; scale and instead as in `play.DrawnWorld`."""
    if kind == "missing":
        tensor = _missing(tensor, rng)
    arrivals = replace(ARRIVALS, off_ln=WRONG_LN) if kind == "wrong" else ARRIVALS
    sessions = drawn(tensor, n, rng, arrivals)
    if kind == "stale":
        at_s = float(sessions.at_s[n // 3])
        sessions = drifted(sessions, tensor, rng, at_s=at_s, noticed_s=np.inf, share=0.5, off_ln=ARRIVALS.off_ln)
    scale, instead = chance(rng, n), np.full(n, np.nan)
    if kind == "tails":
        scale = np.where(rng.random(n) < 0.15, scale * (1.0 + rng.pareto(1.1, n)).clip(None, 1e4), scale)
    if kind == "diurnal":
        scale = scale * (1.6 - 0.6 * np.cos(4.0 * np.pi * np.arange(n) / n))
    if kind == "clocks":
        instead = np.where(rng.random(n) < 0.1, 10.0 ** rng.uniform(0.0, 7.0, n), instead)
    if kind == "bots":
        scale, instead = _bots(sessions, scale, instead, rng)
    return tensor, sessions, scale, instead


def _bots(sessions: Sessions, scale: Array, instead: Array, rng: Rng) -> tuple[Array, Array]:
    """Make random prefixes bots until they have a tenth of the sessions."""
    counts = np.bincount(sessions.seen.prefix, minlength=len(sessions.seen.prefixes))
    order = rng.permutation(len(counts))
    upto = int(np.searchsorted(np.cumsum(counts[order]), 0.1 * len(scale)))
    bot = np.isin(sessions.seen.prefix, order[: max(upto, 1)])
    quick = bot & (rng.random(len(scale)) < 0.5)
    scripts_ms = 10.0 ** rng.uniform(0.3, 1.5, len(scale))
    return np.where(bot & ~quick, 8.0 * scale, scale), np.where(quick, scripts_ms, instead)


def _missing(tensor: Tensor, rng: Rng) -> Tensor:
    gone = rng.random(tensor.median_ms.shape) < 0.15
    default = tensor.median_ms[:, [tensor.grid.default]]
    return replace(tensor, median_ms=np.where(gone, default, tensor.median_ms), repeats_ms=None)
