# SPDX-License-Identifier: MIT
"""The study `calibration`: emulators for paths that the search knows by their flows only, in guests.

Question   How close does a calibrated emulator come to its path, in flows that the search has not seen?
Method     Each path is run twice `runs` times with each scheme: the search sees the first half, the error is over
           the second. In rounds, all paths at once, each search proposes a few emulators and gets the schemes' results
           over them, one run each. Random search gets as many, in the same space. The emulators that the searches
           choose run again with other seeds, as often as the path, and so does the best suggestion of the measurements.
Stop when  the budget is spent.
Reads as   `calibrated.evaluated`: the error of each path, beside the error between the two halves of the path's own
           runs.
Fails as   an emulator with a failed guest or flow counts in the budget, and no search sees it; a failed path is absent.
Differs    from Pantheon: flows of `seconds` instead of 30, four of the kernel's schemes instead of a dozen, and
           paths of this testbed (`paths.py`).
Source     Pantheon (Yan and others 2018), section 5.2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from configtron.lab.testbed.conditions import Condition
from configtron.model.samples import digest
from configtron.studies.emulation import calibration_result as calibrated
from configtron.studies.emulation.calibration_result import Calibrated, CalibrationPlan
from configtron.studies.emulation.emulators import Emulator, starts_of
from configtron.studies.emulation.paths import EmulatedPath, foreign, hidden
from configtron.studies.emulation.replication import Figures, Seen, mean_of, replication_error
from configtron.studies.emulation.search import Chance, Search, Tried
from configtron.studies.flows import flows
from configtron.studies.flows.flows import Flow, Ran, Trial, TrialOutcome
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Arguments, ClaimsStudy, PartsProgress

FULL = CalibrationPlan(("bbr", "cubic", "reno", "vegas"), runs=4, seconds=8.0, budget=24, batch=6, hidden=5)
SMOKE = CalibrationPlan(("bbr", "cubic", "vegas"), runs=2, seconds=4.0, budget=18, batch=6, hidden=1)
# What runs flows: `flows.run`.
Runner = Callable[[Arguments, Mapping[str, Sequence[Trial]]], Ran]
# A path of the smoke run is slow, and so quick to run.
SMOKE_MBIT = 1.0
# Paths in a boot, which costs as much as some twenty flows over a slow link. A number, so that the bits are the same
# however many guests run at once.
TOGETHER = 5
# Bits of a trial's seed: what netem's generator takes.
SEED_BITS = 48


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing` without root or programs."""
    plan = SMOKE if arguments.smoke else FULL
    paths = (
        hidden(1, arguments.seed, SMOKE_MBIT) if arguments.smoke else [*hidden(plan.hidden, arguments.seed), *foreign()]
    )
    return calibrate(arguments, plan, paths, flows.run)


def calibrate(
    arguments: Arguments,
    plan: CalibrationPlan,
    paths: Sequence[EmulatedPath],
    perform: Runner,
    together: int = TOGETHER,
) -> Evaluated:
    """The study of these paths, whose flows `perform` runs, `together` paths in a boot. Errors: those of `perform`."""
    found, missing = _Calibration(arguments, plan, paths, perform, together).run()
    return calibrated.evaluated(found, plan, arguments.seed, missing)


def seed_of(*words: object) -> int:
    """A trial's seed."""
    return int(digest(*map(str, words))[: SEED_BITS // 4], 16)


@dataclass
class _Work:
    """One path: what is known of it, and who searches."""

    path: EmulatedPath
    seen: Seen
    held: Seen
    search: Search
    chance: Chance


class _Calibration:
    def __init__(
        self,
        arguments: Arguments,
        plan: CalibrationPlan,
        paths: Sequence[EmulatedPath],
        perform: Runner,
        together: int,
    ) -> None:
        self._arguments, self._plan, self._paths, self._perform = arguments, plan, paths, perform
        self._together = together
        self._missing: list[str] = []
        self._rounds = -(-plan.budget // plan.batch)
        # the paths' own runs, the rounds, what chance asks for, what was taken
        self._done, self._parts = 0, -(-len(paths) // together) * (3 + self._rounds)

    def run(self) -> tuple[list[Calibrated], str]:
        """All paths, and what is missing in words."""
        works = list(self._begun())
        for number in range(self._rounds):
            left = self._plan.budget - number * self._plan.batch
            self._round(number, works, min(left, self._plan.batch))
        return list(self._ended(works)), "; ".join(self._missing)

    def _flows(self, stage: str, asked: Mapping[str, list[Trial]]) -> dict[str, list[TrialOutcome]]:
        """Run these, by path, a few paths in a boot; what failed is noted and absent."""
        names = list(asked)
        each = self._together
        boots = {f"{stage}-{at // each + 1}": names[at : at + each] for at in range(0, len(names), each)}
        arguments = replace(self._arguments, progress=lambda step: self._report(step.done, step.now))
        ran = self._perform(
            arguments, {boot: [t for name in some for t in asked[name]] for boot, some in boots.items()}
        )
        self._done += len(boots)
        self._missing += [f"{boot} ({', '.join(boots[boot])}): {why}" for boot, why in ran.missing.items()]
        found = dict[str, list[TrialOutcome]]()
        for boot, some in boots.items():
            outcomes = iter(ran.outcomes.get(boot, ()))
            found |= {name: [next(outcomes) for _ in asked[name]] for name in some if boot not in ran.missing}
        return found

    def _report(self, done: int, now: str) -> None:
        self._arguments.progress(PartsProgress(self._done + done, self._parts, now))

    def _trials(self, condition: Condition, rivals: tuple[Flow, ...], seed: int) -> list[Trial]:
        """One run: a trial a scheme."""
        seconds = self._plan.seconds
        return [Trial(condition, (Flow(scheme), *rivals), seconds, seed) for scheme in self._plan.schemes]

    def _begun(self) -> Iterator[_Work]:
        """The paths' own runs."""
        asked = {
            path.name: [
                trial
                for run in range(2 * self._plan.runs)
                for trial in self._trials(
                    path.condition(run), path.rivals, seed_of(self._arguments.seed, path.name, run)
                )
            ]
            for path in self._paths
        }
        outcomes = self._flows("paths", asked)
        for path in self._paths:
            runs = self._runs(outcomes.get(path.name, []))
            if len(runs) < 2 * self._plan.runs:
                self._missing.append(f"{path.name}: {2 * self._plan.runs - len(runs)} of its runs failed")
                continue
            seen, held = mean_of(runs[: self._plan.runs]), mean_of(runs[self._plan.runs :])
            seed = seed_of(self._arguments.seed, path.name, "search")
            yield _Work(path, seen, held, Search(seen, seed=seed), Chance(seen, seed))

    def _runs(self, outcomes: Sequence[TrialOutcome]) -> list[Seen]:
        """Trials as runs; those that failed are left out."""
        count = len(self._plan.schemes)
        found = (self._seen(outcomes[at : at + count]) for at in range(0, len(outcomes), count))
        return [one for one in found if one]

    def _seen(self, outcomes: Sequence[TrialOutcome]) -> Seen:
        """One run's figures; empty where a flow failed."""
        if any(one.reason or one.flows[0].reason for one in outcomes):
            return {}
        pairs = zip(self._plan.schemes, outcomes, strict=True)
        return {scheme: Figures(one.flows[0].mbit, one.flows[0].late_ms) for scheme, one in pairs}

    def _round(self, number: int, works: Sequence[_Work], count: int) -> None:
        """Each search's next batch; chance's all at once, with the first."""
        self._try(f"round-{number + 1}", {work.path.name: (work.search, work.search.ask(count)) for work in works})
        if not number:
            asked = {work.path.name: (work.chance, work.chance.ask(self._plan.budget)) for work in works}
            self._try("chance", asked)

    def _try(self, stage: str, asked: Mapping[str, tuple[Search | Chance, list[Emulator]]]) -> None:
        """Run what each search asks for, by path, and report the results to it."""
        trials = {
            name: [trial for at, one in enumerate(emulators) for trial in self._over(one, name, stage, at)]
            for name, (_, emulators) in asked.items()
        }
        outcomes, schemes = self._flows(stage, trials), len(self._plan.schemes)
        for name, (search, emulators) in asked.items():
            parts = [outcomes.get(name, [])[at * schemes : (at + 1) * schemes] for at in range(len(emulators))]
            seen = [self._seen(part) if part else {} for part in parts]
            search.observe(Tried(emulator, one) for emulator, one in zip(emulators, seen, strict=True) if one)

    def _over(self, emulator: Emulator, *words: object) -> list[Trial]:
        return self._trials(emulator.condition(), (), seed_of(self._arguments.seed, *words))

    def _ended(self, works: Sequence[_Work]) -> Iterator[Calibrated]:
        """What each path's searches take, run anew."""
        ready = [work for work in works if work.search.tried and work.chance.tried]
        taken = {work.path.name: self._taken(work) for work in ready}
        runs = self._plan.runs
        asked = {
            name: [
                trial
                for role, one in enumerate(emulators)
                for run in range(runs)
                for trial in self._over(one, name, "taken", role, run)
            ]
            for name, emulators in taken.items()
        }
        outcomes = self._flows("taken", asked)
        for work in ready:
            found = self._runs(outcomes.get(work.path.name, []))
            if len(found) < 3 * runs:
                self._missing.append(f"{work.path.name}: a run of what was taken failed")
                continue
            means = [mean_of(found[at : at + runs]) for at in range(0, 3 * runs, runs)]
            tried = work.search.tried, work.chance.tried
            yield Calibrated(work.path, work.seen, work.held, taken[work.path.name], tuple(means), tried)

    def _taken(self, work: _Work) -> tuple[Emulator, Emulator, Emulator]:
        """By the search, by chance, and the best that the measurements suggested."""
        starts = set(starts_of(work.seen))
        suggested = [one for one in work.search.tried if one.emulator in starts] or work.search.tried
        start = min(suggested, key=lambda one: replication_error(work.seen, one.seen))
        return work.search.best(), work.chance.best(), start.emulator


STUDY = ClaimsStudy(
    "calibration",
    "Pantheon 2018, section 5.2",
    "parameters of an emulator, found by Bayesian optimisation",
    "an hour",
    run,
)
