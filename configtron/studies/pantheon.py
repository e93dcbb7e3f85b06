# SPDX-License-Identifier: MIT
"""The study `pantheon`: every congestion control, the kernel's and user space's, with unlimited data, over 18 paths.

Question   Is one congestion control best on every path, and how much does a scheme's rank depend on the path?
Method     One flow a scheme and path for 30 s; and three of the same scheme, started 10 s apart, counted in the last
           10 s, when all three send. On the paths above 50 Mbit/s a fifth of these times: 6 s and 2 s, which are sixty
           round trips or more and as many packets as 30 s at 12 Mbit/s. Each trial runs with several seeds, which draw
           the losses, the send times of the Poisson link and the start within a kernel's tick. The guest logs every
           packet at both ends (`flows.py`).
Reads as   Throughput, 95th-percentile one-way delay, loss and power by scheme and path: scatters with ellipses of one
           standard deviation of the runs, tables with 95 % intervals, heat maps. Facts count winners.
Fails as   A part that fails is named in `missing`; a flow that fails has its reason in the table.
Differs    from Pantheon: shorter flows on fast paths; all of Linux's schemes, and of the user-space ones those of
           `lab/schemes`, which are written anew; no tunnel, flows on one clock; with three flows it counts the
           whole time. Its ATC paper has no table of these emulators: the study compares with its statements in words,
           and with CT section 6 for page loads.
Source     CT section 2.2; Pantheon (Yan and others 2018), sections 3 and 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from configtron.lab.testbed.families import named
from configtron.model.samples import digest
from configtron.studies.archive import site
from configtron.studies.archive.manifest import chosen
from configtron.studies.flows import flows, ranking
from configtron.studies.flows.flows import SCHEMES, Flow, Trial, TrialOutcome
from configtron.studies.flows.ranking import Entry
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Archive, Arguments, ClaimsStudy

PATHS = tuple(f"pantheon:{number}" for number in range(1, 19))
# Flows of one trial and how far apart they start, as Pantheon's experiments have them.
COUNTS, APART_S, DURATION_S = (1, 3), 10.0, 30.0
# Faster paths have a fifth of these times: every packet costs the machine the same.
FAST_KBIT, FAST_SHARE = 50_000.0, 0.2
# Enough to show a spread: each run of 30 s holds thousands of packets on which chance acts.
RUNS = 3
# Twelve digits of a digest.
SEED_DIGITS = 12


@dataclass(frozen=True)
class PantheonPlan:
    """What is run: every scheme over every path, `runs` times, for each of `counts` flows."""

    paths: tuple[str, ...] = PATHS
    schemes: tuple[str, ...] = SCHEMES
    counts: tuple[int, ...] = COUNTS
    runs: int = RUNS
    duration_s: float = DURATION_S
    apart_s: float = APART_S

    def trials(self, path: str, count: int, seed: int) -> list[Trial]:
        """One run: a trial a scheme, all with the same seed."""
        condition = named(path)
        share = FAST_SHARE if condition.down.rate_kbit > FAST_KBIT else 1.0
        starts = [number * self.apart_s * share for number in range(count)]
        return [
            Trial(condition, tuple(Flow(scheme, at) for at in starts), self.duration_s * share, seed, starts[-1])
            for scheme in self.schemes
        ]

    def parts(self, seed: int) -> dict[str, list[Trial]]:
        """Boots by name: one a path, number of flows and run; the first of them show how long the others take."""
        keys = product(range(self.runs), self.counts, self.paths)
        return {
            part_name(path, count, run): self.trials(path, count, seed_of(seed, path, run)) for run, count, path in keys
        }


SMOKE = PantheonPlan(("pantheon:2", "pantheon:7", "pantheon:16"), ("cubic", "vegas", "bbr"), COUNTS, 2, 4.0, 1.0)


def part_name(path: str, count: int, run: int) -> str:
    """A word for one boot."""
    return f"{path.replace(':', '-').replace('/', '-')}-flows{count}-run{run}"


def seed_of(seed: int, path: str, run: int) -> int:
    """A run's seed: the same for all schemes, so that they meet the same chance."""
    return int(digest(str(seed), path, str(run))[:SEED_DIGITS], 16)


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing`."""
    plan = _plan(arguments)
    ran = flows.run(arguments, chosen(plan.parts(arguments.seed), arguments.only))
    return evaluated(plan, ran.outcomes, ran.missing, arguments.seed)


def _plan(arguments: Arguments) -> PantheonPlan:
    return SMOKE if arguments.smoke else PantheonPlan()


def _estimate(arguments: Arguments) -> str:
    return site.estimate(arguments, _plan(arguments).parts(arguments.seed))


def _write_site(arguments: Arguments, folder: Path, name: str) -> int:
    return site.write(arguments, folder, name, _plan(arguments).parts(arguments.seed))


def entries(plan: PantheonPlan, outcomes: Mapping[str, Sequence[TrialOutcome]]) -> list[Entry]:
    """What was found by path, scheme and number of flows; runs in order, without those that are missing."""
    found = []
    for path, count, (at, scheme) in product(plan.paths, plan.counts, enumerate(plan.schemes)):
        mine = [outcomes.get(part_name(path, count, number), ()) for number in range(plan.runs)]
        # a part that is missing has no runs
        found.append(Entry(path, scheme, count, tuple(part[at] for part in mine if at < len(part))))
    return found


def evaluated(
    plan: PantheonPlan, outcomes: Mapping[str, Sequence[TrialOutcome]], missing: Mapping[str, str], seed: int
) -> Evaluated:
    """Return tables, plots and facts of the outcomes. Pure."""
    found = [entry for entry in entries(plan, outcomes) if entry.runs]
    return Evaluated(
        "pantheon",
        "Congestion controls over Pantheon's emulated paths",
        "Pantheon (Yan and others, USENIX ATC 2018), sections 3 and 5",
        f"{len(plan.schemes)} schemes over {len(plan.paths)} paths, {plan.duration_s:g} s each, one flow "
        f"and three started {plan.apart_s:g} s apart (a fifth of that above {FAST_KBIT / 1000:g} Mbit/s), "
        f"{plan.runs} runs; every packet logged at both ends, in virtual "
        "time",
        ranking.tables(found),
        ranking.plots(found),
        ranking.facts(found),
        "User-space schemes are written anew from their papers; no tunnel, one clock; three flows are counted only "
        "while all are there. The policers (pantheon:7 to 12) are queues of one packet, which lose whatever is sent at "
        "once: what TCP makes of them is TCP's doing; datagrams sent evenly get through.",
        (("seed", str(seed)), ("runs", str(plan.runs)), ("paths", " ".join(plan.paths)),
         ("schemes", " ".join(plan.schemes)), ("seconds", f"{plan.duration_s:g}")),
        "; ".join(f"{name}: {why}" for name, why in missing.items()),
    )  # fmt: skip


STUDY = ClaimsStudy(
    "pantheon",
    "Pantheon 2018, sections 3 and 5",
    "every congestion control over emulated paths: throughput, delay, loss",
    "hours",
    run,
    archive=Archive(_estimate, _write_site),
)
