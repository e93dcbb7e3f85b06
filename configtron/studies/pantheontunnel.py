# SPDX-License-Identifier: MIT
"""The study `pantheontunnel`: whether a tunnel that measures flows changes them, and what its log and the wire's show.

Question   Pantheon measures every flow inside a tunnel of its own. Are the figures those of the flow without it?
Method     Each scheme runs without the tunnel and inside it, over two of Pantheon's paths, with the same seeds. Inside,
           packets are logged at the tunnel's ends and on the wire. The two samples of throughputs, and of delays, are
           compared by Kolmogorov's and Smirnov's test, as Pantheon compares them. The wire's log is read once more with
           a client's clock that is ahead; the estimate of that is taken off (`flows/clocks.py`).
Reads as   p by path, scheme and figure. Beside them two judges of the judge: the runs without a tunnel against
           themselves, by halves, and against themselves with a tenth taken off, which it must find.
Fails as   a part that fails is named in `missing`.
Differs    from Pantheon, which compared over the internet, 50 runs of three schemes; the tunnel here is ours.
Source     Pantheon (Yan and others 2018), section 3.2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from configtron.lab.testbed.families import named
from configtron.lab.testbed.tunnel import OVERHEAD_BYTES
from configtron.studies.flows.flows import Flow, Trial
from configtron.studies.flows.spread import kolmogorov
from configtron.studies.flows.tunnelled import Tunnelled, orders_of, tunnelled_of
from configtron.studies.guests import parts
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Evaluated, Fact, Table
from configtron.studies.pantheon import seed_of
from configtron.studies.registry.kinds import Arguments, ClaimsStudy

GUEST = "configtron.studies.flows.tunnelled"
# Pantheon's bound: below it, two samples would be called different.
DIFFERENT = 0.2
# By which the client's clock is made to be ahead: more than any delay of these paths without a queue.
AHEAD_NS = 137_000_000
# What the judge must find: a tenth less.
PLANTED = 0.9
# An estimate off by more than this would move a delay by more than a packet's time on the link.
CLOCK_MS = 1.0


@dataclass(frozen=True)
class TunnelPlan:
    """What is run: every scheme over every path, `runs` times without a tunnel and inside."""

    paths: tuple[str, ...] = ("pantheon:2", "pantheon:16")
    schemes: tuple[str, ...] = ("cubic", "vegas")
    runs: int = 12
    duration_s: float = 6.0

    def parts(self, seed: int) -> list[parts.Part]:
        """A boot a path and scheme."""
        return [
            parts.Part(_name(path, scheme), GUEST, orders_of(self._trials(path, scheme, seed), AHEAD_NS))
            for path in self.paths
            for scheme in self.schemes
        ]

    def _trials(self, path: str, scheme: str, seed: int) -> list[Trial]:
        return [
            Trial(named(path), (Flow(scheme),), self.duration_s, seed_of(seed, path, run)) for run in range(self.runs)
        ]


SMOKE = TunnelPlan(("pantheon:16",), ("cubic",), 4, 3.0)


def _name(path: str, scheme: str) -> str:
    return f"{path.replace(':', '-')}-{scheme}"


def run(arguments: Arguments) -> Evaluated:
    """The study. Errors: `Missing`."""
    plan = SMOKE if arguments.smoke else TunnelPlan()
    done = parts.performed(arguments, plan.parts(arguments.seed))
    found = {one.part.name: tunnelled_of(one.text) for one in done if not one.why}
    return evaluated(plan, found, {one.part.name: one.why for one in done if one.why}, arguments.seed)


def evaluated(
    plan: TunnelPlan, found: Mapping[str, Sequence[Tunnelled]], missing: Mapping[str, str], seed: int
) -> Evaluated:
    """Return the table and the facts. Pure."""
    runs = [one for each in found.values() for one in each]
    return Evaluated(
        "pantheontunnel",
        "A tunnel that measures, beside the flows without it",
        "Pantheon (Yan and others, USENIX ATC 2018), section 3.2",
        f"{len(plan.schemes)} schemes over {len(plan.paths)} paths, {plan.runs} runs of {plan.duration_s:g} s without "
        "a tunnel and as many inside, in virtual time",
        [_table(found)],
        [],
        [_same(found), *_judges(found), _logs(runs), _clocks(runs)],
        f"Emulated paths; the tunnel adds {OVERHEAD_BYTES} bytes a packet, Pantheon's 28 and a number.",
        (("seed", str(seed)), ("runs", str(plan.runs)), ("paths", " ".join(plan.paths))),
        "; ".join(f"{name}: {why}" for name, why in missing.items()),
    )


def samples(each: Sequence[Tunnelled]) -> dict[str, tuple[list[float], list[float]]]:
    """Return what is compared: without the tunnel, inside; throughputs with the tunnel's own bytes."""
    return {
        "Mbit/s": ([one.plain_mbit for one in each], [one.outer_mbit for one in each]),
        "ms": ([one.plain_ms for one in each], [one.inner_ms for one in each]),
    }


def _table(found: Mapping[str, Sequence[Tunnelled]]) -> Table:
    rows: list[list[Cell]] = [
        [name, figure, fmean(plain), fmean(inside), kolmogorov(plain, inside)[1], len(each)]
        for name, each in found.items()
        for figure, (plain, inside) in samples(each).items()
    ]
    columns = ("path and scheme", "figure", "without", "inside", "p", "runs")
    return Table("tunnel", "Without the tunnel and inside", columns, rows, "Means; throughput inside is of the wire.")


def _ps(found: Mapping[str, Sequence[Tunnelled]]) -> dict[str, float]:
    return {
        f"{name} {figure}": kolmogorov(*pair)[1]
        for name, each in found.items()
        for figure, pair in samples(each).items()
    }  # fmt: skip


def _same(found: Mapping[str, Sequence[Tunnelled]]) -> Fact:
    claim, paper = "a tunnel changes neither throughput nor delay", f"Pantheon: no difference at p < {DIFFERENT}"
    ps = _ps(found)
    if not ps:
        return Fact(claim, paper, "-", UNKNOWN, "no run has figures")
    other = [f"{name} (p = {p:.3f})" for name, p in ps.items() if p < DIFFERENT]
    verdict = HOLDS if not other else PARTLY if len(other) < len(ps) else ABSENT
    words = (
        f"of {len(ps)} comparisons {DIFFERENT * len(ps):.1f} would differ by chance; {', '.join(other) or 'none'} do"
    )
    return Fact(claim, paper, f"least p {min(ps.values()):.3f}, {len(other)} below {DIFFERENT}", verdict, words)


def _judges(found: Mapping[str, Sequence[Tunnelled]]) -> list[Fact]:
    """The judge on what is known to be equal, and on what is known to differ."""
    plains = [plain for each in found.values() for plain, _ in samples(each).values()]
    if not plains:
        return []
    halves = [kolmogorov(plain[::2], plain[1::2])[1] for plain in plains]
    planted = [kolmogorov(plain, [PLANTED * value for value in plain])[1] for plain in plains]
    false, missed = sum(p < DIFFERENT for p in halves), sum(p >= DIFFERENT for p in planted)
    expected = DIFFERENT * len(halves)
    itself = HOLDS if false <= max(1, 2 * expected) else ABSENT
    by = "the runs without a tunnel against themselves, made smaller"
    return [
        Fact("runs do not differ from themselves", "-", f"{false} of {len(halves)} halves differ", itself,
             f"{expected:.1f} would by chance"),
        Fact(f"a figure {1 - PLANTED:.0%} smaller is found", "-", f"{missed} of {len(planted)} missed",
             ABSENT if missed else HOLDS, by),
    ]  # fmt: skip


def _logs(runs: Sequence[Tunnelled]) -> Fact:
    claim = "the tunnel's log has the wire's delays"
    if not runs:
        return Fact(claim, "-", "-", UNKNOWN, "no run has figures")
    off = max(abs(one.inner_ms - one.outer_ms) for one in runs)
    more = fmean(one.outer_mbit / one.inner_mbit for one in runs)
    words = f"the wire carries {100 * (more - 1):.2f} % more: the tunnel's {OVERHEAD_BYTES} bytes a packet"
    return Fact(claim, "-", f"off by {off:.3f} ms at most", HOLDS if off < CLOCK_MS else ABSENT, words)


def _clocks(runs: Sequence[Tunnelled]) -> Fact:
    claim = "the difference of two clocks is found and taken off"
    if not runs:
        return Fact(claim, "-", "-", UNKNOWN, "no run has figures")
    off = max(abs(one.estimate_ns - AHEAD_NS) / 1e6 for one in runs)
    before = max(abs(one.apart_ms - one.outer_ms) for one in runs)
    after = max(abs(one.repaired_ms - one.outer_ms) for one in runs)
    words = f"a clock {AHEAD_NS / 1e6:g} ms ahead moves delays by {before:.3f} ms; after the repair by {after:.3f} ms"
    return Fact(claim, "-", f"off by {off:.3f} ms at most", HOLDS if off < CLOCK_MS else ABSENT, words)


STUDY = ClaimsStudy(
    "pantheontunnel",
    "Pantheon 2018, section 3.2",
    "what a measuring tunnel does to flows; its log beside the wire's, two clocks",
    "minutes",
    run,
)
