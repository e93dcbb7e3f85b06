# SPDX-License-Identifier: MIT
"""The study `gains`: how much each policy gains on Default, trace by trace. CT Figures 1, 4 and 5."""

from __future__ import annotations

import numpy as np

from configtron.studies.sim.conditions import DEFAULT_MEDIAN_MS
from configtron.studies.sim.metrics import WORSE, default_ms
from configtron.studies.sim.world import world
from configtron.studies.simulated.points import Plot, Point, SessionsStudy, last_half, lived
from configtron.studies.simulated.tensor_source import MEASURED, TensorSource

POLICIES = (
    "static", "reuse", "brute", "brute_nc", "bo", "bo_nc", "cherrypick_nc", "mab_nc", "offline", "configtron",
    "thompson", "cell_optimum", "optimal",
)  # fmt: skip
# What is nothing without an emulator's tensor.
FROM_EMULATORS = ("offline",)
# Of the plots: who loses more than this loses too much to be looked at closely.
LEAST_SHOWN = -0.5
# The tails of page load times, by percentile.
TAILS = {95: "tail", 99: "p99"}
# Where the curve of a distribution is read.
SHARES = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)


def part(trace: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """One trace: every policy on the same sessions; after learning, which is the last half of them."""
    tensor = source.tensor(trace, seed)
    here, found = world(tensor, sessions, seed, warm=source.warm(tensor, trace, seed)), []
    for name in POLICIES if here.warm is not None else [name for name in POLICIES if name not in FROM_EMULATORS]:
        replay = lived(here, [here.policy(name)])
        rows, row = last_half(replay), f"{trace} {name}"
        ms, default = replay.median_ms_[rows], default_ms(replay, rows)
        gain = 1.0 - ms / default
        found += [
            Point(row, "median gain", float(np.median(gain))), Point(row, "median ms", float(np.median(default - ms)))
        ]  # fmt: skip
        for share, word in TAILS.items():
            tail, tail_default = np.percentile(ms, share), np.percentile(default, share)
            found += [
                Point(row, f"{word} gain", float(1.0 - tail / tail_default)),
                Point(row, f"{word} ms", float(tail_default - tail)),
            ]
        found.append(Point(row, "worse than Default by 20 %", float((ms > WORSE * default).mean())))
        found += [Point(row, trace, float(np.percentile(gain, share)), share / 100.0) for share in SHARES]
    return found


STUDY = SessionsStudy(
    "gains",
    "Gain on Default by trace and policy",
    "CT Figs 1, 4 and 5; abstract",
    "ConfigTron gains 10 to 19 % at the median and 36 to 80 % in the tail; the oracle 8 to 18 %",
    part,
    "The traces are distributions whose Default median is the paper's, not its packets, and page load times a "
    "formula's; with --tensor both are what was measured. How much the best can gain is an argument of the formula, "
    "or a property of what was measured: read rows against `optimal` and `cell_optimum` of the same trace, not against "
    "the paper's per cent. Tail: the 95th percentile of page load "
    "times (p99: the 99th), Default's against the policy's. Policies per client (`bo`, `brute`, `reuse`) have one row "
    "a prefix and many sites in it, hence their losses. The offline model and thompson start from a mis-specified "
    "tensor; with --tensor there is none, thompson starts from nothing and offline is left out.",
    tuple(DEFAULT_MEDIAN_MS),
    figures={
        ("pantheon configtron", "median gain"): "0.19", ("pantheon configtron", "median ms"): "500",
        ("mawi configtron", "median gain"): "0.16", ("mawi configtron", "median ms"): "750",
        ("fcc configtron", "median gain"): "0.112", ("fcc configtron", "median ms"): "280",
        ("caida configtron", "median gain"): "0.101", ("caida configtron", "median ms"): "250",
        **{(f"{trace} configtron", "tail gain"): "0.36 to 0.80" for trace in DEFAULT_MEDIAN_MS},
        **{(f"{trace} configtron", "tail ms"): "900 to 1400" for trace in DEFAULT_MEDIAN_MS},
        **{(f"{trace} optimal", "median gain"): "0.08 to 0.18" for trace in DEFAULT_MEDIAN_MS},
    },
    plots=tuple(
        Plot(trace, "share of sessions", f"gain on Default, share, {trace}", least=LEAST_SHOWN)
        for trace in (*DEFAULT_MEDIAN_MS, MEASURED)
    ),
    duration="15 minutes",
)  # fmt: skip
