# SPDX-License-Identifier: MIT
"""The study `fairness`: five default cubic flows and one of a tested configuration, over shallow buffers.

Question   Does a tuned server take more, or less, than its share from untuned servers?
Method     Six flows over 3G, 4G, cable and DSL for 60 s. Five are of another server, cubic with the kernel's defaults,
           and start within the first second; the drivers of the tune verb set the tested server: congestion control,
           initial window and pacing, 48 configurations. Throughput counts from the tenth second on. There are several
           runs, whose seeds draw the start times.
Reads as   Jain's index of the six throughputs, a mean over the runs, for each configuration and link: a case; the
           number of cases above 0.95; the tested flow's throughput as a multiple of an equal share.
Fails as   A configuration that does not read back as asked has its reason in place of an index.
Differs    CT does not say how shallow its buffers are, how long its flows run, nor which configurations it counts.
           Here a buffer is all or half of the link's bandwidth times delay, in bytes: 60 and 30 kB (3G), 191 and 96 kB
           (4G), 17 and 9 kB (cable), 9 and 5 kB (DSL), where the testbed's usual modem has at least 46 kB. With less
           than the half, loss-based schemes leave the link idle; with less than three packets there is no window at
           all. The study leaves out HTTP's version, which does not concern one flow, and the knobs without effect.
Source     CT section 6 and Figure 7; Jain, Chiu, Hawe 1984
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from configtron.lab.internet.links import splitmix64
from configtron.lab.testbed.families import named
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.samples import digest
from configtron.studies.flows import flows, shares
from configtron.studies.flows.flows import Flow, Trial, TrialOutcome
from configtron.studies.flows.shares import Case
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Arguments, ClaimsStudy

# The four of CT's figure; a buffer of all and of half of the path's bandwidth times delay.
LINKS = tuple(f"access:{name}/{divisor}" for name, divisor in product(("3g", "4g", "cable", "dsl"), (1, 2)))
TESTED = ("tcp_congestion_control", "initcwnd", "pacing")
RIVALS, RIVAL_SCHEME = 5, "cubic"
# Rivals start within a second, as users who come at their own time; the tested flow joins them then.
SPREAD_S = 1.0
# Two hundred round trips of the longest path; the first ten seconds are slow start and its losses.
DURATION_S, COUNTED_FROM_S = 60.0, 10.0
# An index of chaotic flows varies; three runs give it an interval.
RUNS = 3
SEED_DIGITS = 12


@dataclass(frozen=True)
class FairnessPlan:
    """What is run: every configuration on every link, `runs` times. Keys of `values` are knobs of Table 1."""

    links: tuple[str, ...]
    values: Mapping[str, tuple[Value, ...]]
    runs: int = RUNS
    duration_s: float = DURATION_S
    counted_from_s: float = COUNTED_FROM_S

    def configurations(self, scheme: Value) -> list[Profile]:
        """Those with one congestion control, in the order of the table."""
        rest = [knob for knob in TESTED[1:]]
        found = []
        for row in product(*(self.values[knob] for knob in rest)):
            name = "/".join(map(str, (scheme, *row)))
            found.append(Profile(name, tuple(sorted(zip(TESTED, (scheme, *row), strict=True)))))
        return found

    def trials(self, link: str, scheme: Value, seed: int) -> list[Trial]:
        """Runs of each configuration with one congestion control."""
        return [
            self._trial(link, configuration, int(digest(str(seed), link, str(run))[:SEED_DIGITS], 16))
            for configuration, run in product(self.configurations(scheme), range(self.runs))
        ]

    def _trial(self, link: str, configuration: Profile, seed: int) -> Trial:
        starts = [splitmix64(seed + number) % 1000 / 1000 * SPREAD_S for number in range(RIVALS)]
        rivals = tuple(Flow(RIVAL_SCHEME, at, rival=True) for at in starts)
        flows = (Flow(start_s=SPREAD_S), *rivals)
        return Trial(named(link), flows, self.duration_s, seed, self.counted_from_s, configuration)

    def parts(self, seed: int) -> dict[str, list[Trial]]:
        """Boots by name: one a link and congestion control."""
        keys = product(self.links, self.values[TESTED[0]])
        return {part_name(link, scheme): self.trials(link, scheme, seed) for link, scheme in keys}


FULL = FairnessPlan(LINKS, {name: KNOBS[name].values for name in TESTED})
SMOKE = FairnessPlan(
    ("access:cable/1", "access:dsl/2"),
    {"tcp_congestion_control": ("cubic", "bbr"), "initcwnd": (10,), "pacing": ("pfifo_fast",)},
    2, 12.0, 4.0,
)  # fmt: skip


def part_name(link: str, scheme: Value) -> str:
    """A word for one boot."""
    return f"{link.replace(':', '-').replace('/', '-')}-{scheme}"


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing`."""
    plan = SMOKE if arguments.smoke else FULL
    ran = flows.run(arguments, plan.parts(arguments.seed))
    return evaluated(plan, ran.outcomes, ran.missing, arguments.seed)


def cases(plan: FairnessPlan, outcomes: Mapping[str, Sequence[TrialOutcome]]) -> list[Case]:
    """What was found by link and configuration."""
    found = []
    for link, scheme in product(plan.links, plan.values[TESTED[0]]):
        trials = outcomes.get(part_name(link, scheme))
        if trials is None:
            continue
        for at, configuration in enumerate(plan.configurations(scheme)):
            runs = tuple(trials[at * plan.runs : (at + 1) * plan.runs])
            settings = dict(configuration.settings)
            found.append(Case(link, tuple(settings[knob] for knob in TESTED), runs))
    return found


def evaluated(
    plan: FairnessPlan, outcomes: Mapping[str, Sequence[TrialOutcome]], missing: Mapping[str, str], seed: int
) -> Evaluated:
    """Return tables, plots and facts of the outcomes. Pure."""
    found = cases(plan, outcomes)
    return Evaluated(
        "fairness",
        "A tuned flow among five that are not, over shallow buffers",
        "CT section 6, Figure 7",
        f"{RIVALS} {RIVAL_SCHEME} flows of one server and one flow of a tested server for {plan.duration_s:g} s, "
        f"counted from {plan.counted_from_s:g} s on; buffers of all and of half of bandwidth times delay; "
        f"{plan.runs} runs",
        shares.tables(found),
        shares.plots(found),
        shares.facts(found),
        "CT gives neither the depth of its buffers nor its configurations. The initial window acts on a flow's first "
        "seconds, which are not counted. What six equal cubic flows get of each other stands beside, as a fact.",
        (("seed", str(seed)), ("runs", str(plan.runs)), ("links", " ".join(plan.links)),
         ("seconds", f"{plan.duration_s:g}")),
        "; ".join(f"{name}: {why}" for name, why in missing.items()),
    )  # fmt: skip


STUDY = ClaimsStudy(
    "fairness",
    "ConfigTron, section 6, Figure 7",
    "five cubic flows and one tested flow over shallow buffers: Jain's index",
    "hours",
    run,
)
