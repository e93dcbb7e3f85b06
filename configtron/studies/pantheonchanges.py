# SPDX-License-Identifier: MIT
"""The study `pantheonchanges`: what a path, a direction and a moment make of a congestion control's performance.

Question   Pantheon found that a scheme's performance varies by path, by direction and over time. By how much of each?
Method     Six schemes over five paths that change, both ways, at three moments, three runs each
           (`flows/changing.py`); variances of throughput, delay and power are parted (`flows/effects.py`).
Reads as   Shares of variance with intervals, beside those of shuffled labels. A path that never changes and is the same
           both ways is measured too: there, direction and time must have no more than shuffled labels have.
Fails as   A part that fails is named in `missing`, and its runs are without figures; see `flows/effects.py`.
Differs    from Pantheon: paths are emulated, moments of one path lie seconds or a rule apart, not weeks.
Source     Pantheon (Yan and others 2018), section 3 and Figure 1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from configtron.model.congestion import OF_TABLE1
from configtron.studies.archive import site
from configtron.studies.archive.manifest import chosen
from configtron.studies.flows import flows
from configtron.studies.flows.changing import CHANGING, DIRECTIONS, MOMENTS, STEADY, ChangingPath
from configtron.studies.flows.effects import DRAWS, Figures, VarianceShare, balanced, effects
from configtron.studies.flows.flows import FlowOutcome, Trial, TrialOutcome
from configtron.studies.output.results import ABSENT, HOLDS, UNKNOWN, Cell, Evaluated, Fact, Table
from configtron.studies.pantheon import seed_of
from configtron.studies.registry.kinds import Archive, Arguments, ClaimsStudy

# Four of the kernel, two of user space: the study is of paths, and has to end in minutes.
SCHEMES = (*OF_TABLE1, "copa", "vivace")
# Each is the logarithm of a figure, or of a quotient: then factors add up.
MEASURES: Mapping[str, Callable[[FlowOutcome], float]] = {
    "throughput": lambda flow: math.log(flow.mbit) if flow.mbit > 0 else math.nan,
    "delay": lambda flow: math.log(flow.late_ms) if flow.late_ms > 0 else math.nan,
    "power": lambda flow: flow.power,
}
# The three effects that the paper names.
NAMED = ("path", "direction", "time")


@dataclass(frozen=True)
class ChangesPlan:
    """What is run; the last path is the steady one; draws: of intervals and of shuffled labels."""

    paths: tuple[ChangingPath, ...] = (*CHANGING, STEADY)
    schemes: tuple[str, ...] = SCHEMES
    moments: tuple[int, ...] = MOMENTS
    runs: int = 3
    duration_s: float = 10.0
    draws: int = DRAWS

    def parts(self, seed: int) -> dict[str, list[Trial]]:
        """Boots by name: one a path, direction, moment and run; a trial a scheme, all with the same seed."""
        keys = product(range(self.runs), self.moments, DIRECTIONS, self.paths)
        return {
            part_name(path, direction, moment, run): self._trials(path, direction, moment, seed, run)
            for run, moment, direction, path in keys
        }

    def _trials(self, path: ChangingPath, direction: str, moment: int, seed: int, run: int) -> list[Trial]:
        own = seed_of(seed, f"{path.name} {direction} {moment}", run)
        condition = path.condition(direction, moment, run)
        return [
            Trial(condition, path.flows(scheme, direction, moment, run), self.duration_s, own)
            for scheme in self.schemes
        ]


SMOKE = ChangesPlan((CHANGING[1], STEADY), ("cubic", "copa"), (0, 1), 2, 4.0)


def part_name(path: ChangingPath, direction: str, moment: int, run: int) -> str:
    """A word for one boot."""
    return f"{path.name}-{direction}-moment{moment}-run{run}"


def figures_of(
    plan: ChangesPlan, outcomes: Mapping[str, Sequence[TrialOutcome]], measure: Callable[[FlowOutcome], float]
) -> Figures:
    """Return a measure by path, direction, moment, scheme and run; NaN where it is missing."""
    shape = (len(plan.paths), len(DIRECTIONS), len(plan.moments), len(plan.schemes), plan.runs)
    found = np.full(shape, math.nan)
    for at in np.ndindex(*shape):
        path, direction, moment, scheme, run = at
        name = part_name(plan.paths[path], DIRECTIONS[direction], plan.moments[moment], run)
        part = outcomes.get(name, ())
        if scheme < len(part) and part[scheme].flows and not part[scheme].flows[0].reason:
            found[at] = measure(part[scheme].flows[0])
    return found


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing`."""
    plan = _plan(arguments)
    ran = flows.run(arguments, chosen(plan.parts(arguments.seed), arguments.only))
    return evaluated(plan, ran.outcomes, ran.missing, arguments.seed)


def _plan(arguments: Arguments) -> ChangesPlan:
    return SMOKE if arguments.smoke else ChangesPlan()


def _estimate(arguments: Arguments) -> str:
    return site.estimate(arguments, _plan(arguments).parts(arguments.seed))


def _write_site(arguments: Arguments, folder: Path, name: str) -> int:
    return site.write(arguments, folder, name, _plan(arguments).parts(arguments.seed))


def evaluated(
    plan: ChangesPlan, outcomes: Mapping[str, Sequence[TrialOutcome]], missing: Mapping[str, str], seed: int
) -> Evaluated:
    """Return the effects and the facts of the outcomes. Pure."""
    chance = np.random.default_rng(seed)
    whole = {name: figures_of(plan, outcomes, measure) for name, measure in MEASURES.items()}
    complete = {name: balanced(figures[:-1]) for name, figures in whole.items()}
    pooled = {name: effects(one.figures, chance, plan.draws) for name, one in complete.items() if one.schemes}
    each = _by_path(plan, whole["power"], chance)
    facts = _facts(pooled.get("power"), each.get(plan.paths[-1].name))
    left_out = [plan.schemes[n] for n in range(len(plan.schemes)) if n not in complete["power"].schemes]
    words = (
        f"{complete['power'].filled} runs without a figure took the mean of their place's others; schemes left out: "
        f"{', '.join(left_out) or 'none'}."
    )
    return Evaluated(
        "pantheonchanges",
        "Congestion controls over paths that change",
        "Pantheon (Yan and others, USENIX ATC 2018), section 3",
        f"{len(plan.schemes)} schemes over {len(plan.paths) - 1} changing paths and a steady one, both ways, at "
        f"{len(plan.moments)} moments, {plan.runs} runs of {plan.duration_s:g} s, in virtual time",
        [_effects_table(pooled, words), _paths_table(each), _means_table(plan, whole)],
        [],
        facts,
        "Emulated paths; the uplink is measured by exchanging the directions; moments are seconds or loads, not weeks.",
        (("seed", str(seed)), ("schemes", " ".join(plan.schemes)), ("seconds", f"{plan.duration_s:g}"),
         *((path.name, path.words) for path in plan.paths)),
        "; ".join(f"{name}: {why}" for name, why in missing.items()),
    )  # fmt: skip


def _by_path(plan: ChangesPlan, power: Figures, chance: np.random.Generator) -> dict[str, list[VarianceShare]]:
    """The effects within each path alone."""
    parts = [balanced(power[n : n + 1]) for n in range(len(plan.paths))]
    return {
        path.name: effects(part.figures, chance, plan.draws)
        for path, part in zip(plan.paths, parts, strict=True)
        if part.schemes
    }  # fmt: skip


VARIANCE_COLUMNS = ("effect", "share %", "low", "high", "shuffled", "at most")


def _cells(effect: VarianceShare) -> list[Cell]:
    return [effect.name, *(None if math.isnan(value) else round(100 * value, 2) for value in effect[1:])]


def _effects_table(pooled: Mapping[str, Sequence[VarianceShare]], words: str) -> Table:
    rows = [[name, *_cells(effect)] for name, found in pooled.items() for effect in found]
    title = "Shares of variance over the paths that change"
    intervals = "low, high: 95 % over runs; shuffled, at most: mean and 97.5 % of labels without meaning. "
    return Table("effects", title, ("measure", *VARIANCE_COLUMNS), rows, intervals + words)


def _paths_table(each: Mapping[str, Sequence[VarianceShare]]) -> Table:
    rows = [[name, *_cells(effect)] for name, found in each.items() for effect in found if "path" not in effect.name]
    words = "Of power, within each path; the steady one has neither a time nor a direction of its own."
    return Table("paths", "Shares of variance within a path", ("path", *VARIANCE_COLUMNS), rows, words)


def _means_table(plan: ChangesPlan, whole: Mapping[str, Figures]) -> Table:
    rows: list[list[Cell]] = []
    for at, scheme in enumerate(plan.schemes):
        for n, path in enumerate(plan.paths):
            for m, direction in enumerate(DIRECTIONS):
                means = [_mean(whole[name][n, m, :, at]) for name in MEASURES]
                rate, late, power = means
                rows.append([scheme, path.name, direction, _exp(rate), _exp(late), power])
    columns = ("scheme", "path", "direction", "Mbit/s", "delay ms", "power")
    return Table("means", "Means", columns, rows, "Geometric means over moments and runs.")


def _mean(values: Figures) -> float | None:
    return None if np.isnan(values).all() else float(np.nanmean(values))


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _facts(pooled: Sequence[VarianceShare] | None, steady: Sequence[VarianceShare] | None) -> list[Fact]:
    """Each of the paper's three effects, whether the order of schemes changes with it, and the steady path."""
    paper = "Pantheon: in words"
    if pooled is None:
        return [Fact("performance varies by path, direction and time", paper, "-", UNKNOWN, "no run has a figure")]
    found = {effect.name: effect for effect in pooled}
    plain = [_varies(f"performance varies by {name}", paper, found[name]) for name in NAMED]
    orders = [_varies(f"the order of schemes varies by {name}", paper, found[f"scheme by {name}"]) for name in NAMED]
    return [*plain, *orders, _nothing(steady)]


def _percent(effect: VarianceShare) -> str:
    return f"{100 * effect.share:.1f} [{100 * effect.low:.1f}, {100 * effect.high:.1f}] % of the variance of power"


def _varies(claim: str, paper: str, effect: VarianceShare) -> Fact:
    verdict = HOLDS if effect.is_seen else ABSENT
    words = f"shuffled labels have {100 * effect.null:.1f} %, at most {100 * effect.null_high:.1f} % (97.5 %)"
    return Fact(claim, paper, _percent(effect), verdict, words)


def _nothing(steady: Sequence[VarianceShare] | None) -> Fact:
    """The judge's own test: on a path that never changes no effect may be seen."""
    claim = "a path that never changes has neither direction nor time"
    if steady is None:
        return Fact(claim, "-", "-", UNKNOWN, "it has no figures")
    mine = [effect for effect in steady if effect.name in NAMED[1:]]
    ours = ", ".join(f"{effect.name} {100 * effect.share:.1f} %" for effect in mine)
    words = ", ".join(f"{effect.name} at most {100 * effect.null_high:.1f} %" for effect in mine)
    verdict = ABSENT if any(effect.is_seen for effect in mine) else HOLDS
    return Fact(claim, "-", ours, verdict, f"shuffled labels: {words}")


STUDY = ClaimsStudy(
    "pantheonchanges",
    "Pantheon 2018, section 3",
    "how much of performance is the path's, the direction's, the moment's",
    "minutes",
    run,
    archive=Archive(_estimate, _write_site),
)
