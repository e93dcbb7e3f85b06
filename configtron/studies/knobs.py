# SPDX-License-Identifier: MIT
"""The study `knobs`: the loss of configurations without a knob. CT Figure 9."""

from __future__ import annotations

from configtron.learner.importance import knob_importance
from configtron.studies.sim.world import chance
from configtron.studies.simulated.points import RESAMPLING, Point, SessionsStudy
from configtron.studies.simulated.tensor_source import TensorSource


def knobs(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Each knob held at its default, all else chosen best. Sessions play no part."""
    del sessions
    found = []
    for knob in knob_importance(source.tensor("spread", seed), chance(seed, RESAMPLING)):
        found += [
            Point(knob.name, "median excess", knob.median, own=(knob.median_low, knob.median_high)),
            Point(knob.name, "p95 excess", knob.p95, own=(knob.p95_low, knob.p95_high)),
        ]
    return found


STUDY = SessionsStudy(
    "knobs",
    "What is lost without a knob",
    "CT Fig. 9",
    "Congestion control > initial window > HTTP version; the others matter in the tail only",
    knobs,
    "Excess of the best configuration with the knob at its default over the best of all, over networks and sites. "
    "The formula's strengths decide the order among the first; it is a property of this tensor. "
    "slow_start_after_idle and low_latency are dead and not in the grid (`configtron/model/grid.py`). A measured "
    "tensor is one world: its intervals are a bootstrap's over networks.",
    tensor_alone=True,
    figures={
        ("tcp_congestion_control", "median excess"): "largest", ("initcwnd", "median excess"): "second",
        ("http_version", "median excess"): "third", ("pacing", "median excess"): "none",
        ("tcp_autocorking", "median excess"): "none",
    },
    duration="seconds",
)  # fmt: skip
