# SPDX-License-Identifier: MIT
"""The study `classes`: how many network classes, and whether they evolve, on the paper's ensemble. CT section 4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.classes import Classes, of_tensor
from configtron.learner.initial_classes import ALIKE_LN, divergence_of
from configtron.learner.repeated import Repeats, repeats
from configtron.studies.sim.loop import loads
from configtron.studies.sim.metrics import distance
from configtron.studies.sim.noise import Noise
from configtron.studies.sim.world import CLASS, CLASSES, World, chance, classes_of, world
from configtron.studies.simulated.points import Point, SessionsStudy, last_half, lived, quantiles
from configtron.studies.simulated.tensor_source import TensorSource

# Where the generator of the loads begins that noise is measured on; and sessions that are: as `learn run`'s first.
LOADS, FIRST = 23, 10_000
# Classes that a world which is left to evolve begins with: too few for any tensor.
FEW = 5


@dataclass(frozen=True, slots=True, eq=False)
class ClassesVariant:
    """One way to have classes. made: those to begin with; evolving: whether they are split."""

    made: Classes
    evolving: bool


def variants(here: World, sigma_ln: float) -> dict[str, ClassesVariant]:
    """The ways that are compared. sigma_ln: bound of the one-sigma rule."""
    twenty = classes_of(here.tensor, CLASSES, here.seed)
    ruled = of_tensor(here.tensor, chance(here.seed, CLASS), sigma_ln=sigma_ln)
    few = classes_of(here.tensor, FEW, here.seed)
    return {
        f"k = {CLASSES}": ClassesVariant(twenty, False),
        "one-sigma k": ClassesVariant(ruled, False),
        f"k = {CLASSES}, evolving": ClassesVariant(twenty, True),
        f"k = {FEW}": ClassesVariant(few, False),
        f"k = {FEW}, evolving": ClassesVariant(few, True),
    }


def measured_noise(here: World) -> Repeats:
    """The noise of single loads, by the first sessions' repeats under Default."""
    sessions = here.sessions
    rows = slice(0, min(FIRST, len(sessions)))
    seen, default = sessions.seen[rows], np.full(rows.stop, here.tensor.grid.default)
    ms = loads(sessions, here.tensor, default, rows)
    log_ms = np.log(ms * Noise().factors(rows.stop, chance(here.seed, LOADS)))
    return repeats(seen.prefix, seen.site, default, log_ms)


def classing(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """The ensemble on the same sessions under each way to have classes."""
    here, found = world(source.tensor("spread", seed), sessions, seed), list[Point]()
    bound = divergence_of(measured_noise(here))
    for row, way in variants(here, ALIKE_LN).items():
        made = here.policy("configtron", classes=way.made, divergence=bound if way.evolving else None)
        replay = lived(here, [made])
        median, p95 = quantiles(distance(replay, last_half(replay)))
        found += [
            Point(row, "classes at the end", float(len(made.class_ids_))),
            Point(row, "splits", float(classed(made).splits_)),
            Point(row, "median", median),
            Point(row, "p95", p95),
        ]
    return found


STUDY = SessionsStudy(
    "classes",
    "How many classes, and classes that evolve",
    "CT section 4",
    "k by one standard deviation of page load times; classes evolve with their members",
    classing,
    "The paper's ensemble; distance from the best in the last half. `one-sigma k`: the smallest that leaves members of "
    "a class 0.25 apart in ln(ms) under Default, over the tensor's medians, which have no noise. Evolving: a class is "
    "split where single loads spread by more than that and the measured noise of loads together, and where members "
    "part by their networks; or where two halves of it want different configurations. What is shipped begins with the "
    "rule's k and splits nothing unless asked (`learn run --evolve`); other studies have k = 20. The paper gives no "
    "unit to its deviation and no rule to its evolving.",
    sessions=40_000,
    figures={
        ("one-sigma k", "classes at the end"): "PLT within one standard deviation of the mean",
        (f"k = {CLASSES}, evolving", "splits"): "evolve",
    },
    duration="10 minutes",
)
