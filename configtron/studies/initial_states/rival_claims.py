# SPDX-License-Identifier: MIT
"""The claims of the study `alnrivals`, each with a computed verdict, and its tables.

Rules for this file: pure; goals are constants here and nowhere else; a verdict's condition stands beside its claim.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from configtron.fingerprint.diversity import wilson
from configtron.learner.initial.initial_strategies import MOST_INITIAL
from configtron.studies.initial_states.aln_claims import COVERING
from configtron.studies.initial_states.repeated_trials import AGAIN, ClearDifference
from configtron.studies.initial_states.rival_rows import RivalRow
from configtron.studies.initial_states.rival_windows import ARMS, NULL, RULE
from configtron.studies.initial_states.window_quantiles import CENSORED, QuantileRow
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Cell, Fact, Table

# Goals: share harmed at most, speed-up in the band, points of first-flight loss above Null's at most.
MOST_HARMED, LEAST_GAIN, MOST_EARLY = 0.05, 1.22, 0.005
ALONE, BESIDE, BAND = "alone", "beside a cubic flow", "100-200 ms"
REPEATED = "beside a cubic flow, means of several runs"


class RivalResults(NamedTuple):
    """parts: rows by arm of each part of the transfers, `ALONE`, `BESIDE` and `REPEATED` among them; unseen: of
    prefixes never seen; clearly: beside a flow, of the rule and of Null once more."""

    parts: Mapping[str, Sequence[RivalRow]]
    unseen: Sequence[RivalRow]
    quantiles: Sequence[QuantileRow]
    clearly: Mapping[str, ClearDifference]


def rule_of(rows: Sequence[RivalRow], arm: str = RULE) -> RivalRow:
    """Return one arm's row."""
    return next(one for one in rows if one.arm == arm)


def facts(found: RivalResults) -> list[Fact]:
    """Return every claim."""
    parts = [name for name in (ALONE, BESIDE) if found.parts.get(name)]
    # beside a flow harm is judged by means of several runs, where there are any
    judged = [REPEATED if name == BESIDE and found.parts.get(REPEATED) else name for name in parts]
    return [
        *(_harmed(name, found.parts[name]) for name in judged),
        *([_clearly(found.clearly)] if found.clearly else []),
        _gain(found),
        *(_tail(name, found.parts[name]) for name in judged),
        *(_early(name, found.parts[name]) for name in judged),
        _unseen(found),
        *(_ahead(name, found.parts[name]) for name in parts),
        *(_loses(found.parts[name]) for name in parts if name == BESIDE),
        _covers(found),
    ]


def _span(mean: float, low: float, high: float) -> str:
    return f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def _share(mean: float, low: float, high: float) -> str:
    return f"{mean:.1%} [{low:.1%}, {high:.1%}]"


def _harmed(name: str, rows: Sequence[RivalRow]) -> Fact:
    """Holds by the interval's upper end, in part by the share alone."""
    one = rule_of(rows)
    verdict = HOLDS if one.harmed_high <= MOST_HARMED else PARTLY if one.harmed <= MOST_HARMED else ABSENT
    others = ", ".join(f"{row.arm} {row.harmed:.1%}" for row in rows if row.arm not in (RULE, NULL))
    claim, ours = f"transfers made worse by more than 5 %, {name}: at most 5 %", _share(*one[6:9])
    return Fact(claim, "40-47 % worse at all", ours, verdict, f"{one.transfers} transfers. {others}")


def _clearly(found: Mapping[str, ClearDifference]) -> Fact:
    """Holds by the interval's upper end, in part by the share alone."""
    rule, again = (found[arm] for arm in (RULE, AGAIN))
    span = wilson(rule.worse, rule.transfers)
    share = rule.worse / rule.transfers
    verdict = HOLDS if span[1] <= MOST_HARMED else PARTLY if share <= MOST_HARMED else ABSENT
    chance = _share(again.worse / again.transfers, *wilson(again.worse, again.transfers))
    claim = "transfers whose every run beside a cubic flow is over 5 % longer than Null's slowest: at most 5 %"
    return Fact(claim, "-", _share(share, *span), verdict,
                f"{rule.transfers} transfers. {AGAIN} {chance}. The reverse, better in every run: "
                f"{rule.better / rule.transfers:.1%}, {AGAIN} {again.better / again.transfers:.1%}")  # fmt: skip


def _gain(found: RivalResults) -> Fact:
    claim, paper = f"speed-up at round trips of 100 to 200 ms: at least {LEAST_GAIN}", "1.16 to 1.22"
    rows = found.parts.get(BAND, ())
    if not rows:
        return Fact(claim, paper, "no transfer in that band", UNKNOWN)
    one = rule_of(rows)
    verdict = HOLDS if one.low >= LEAST_GAIN else PARTLY if one.mean >= LEAST_GAIN else ABSENT
    others = ", ".join(f"{row.arm} {row.mean:.2f}" for row in rows if row.arm != RULE)
    return Fact(claim, paper, _span(one.mean, one.low, one.high), verdict, f"{one.transfers} transfers. {others}")


def _tail(name: str, rows: Sequence[RivalRow]) -> Fact:
    one = rule_of(rows)
    verdict = HOLDS if one.p95_low >= 1.0 else PARTLY if one.p95 >= 1.0 else ABSENT
    ours = f"{_span(one.p95, one.p95_low, one.p95_high)} times faster"
    return Fact(f"the 95th percentile is not slower, {name}", "-", ours, verdict)


def _early(name: str, rows: Sequence[RivalRow]) -> Fact:
    one = rule_of(rows)
    others = ", ".join(f"{row.arm} {100 * row.early:+.2f}" for row in rows if row.arm not in (RULE, NULL))
    others += f". Of the segments sent in the first flight: {100 * one.early_rate:+.2f}"
    return Fact(f"loss in the first flight, {name}: at most {100 * MOST_EARLY:.1f} points above Null's", "-",
                f"{100 * one.early:+.2f} [{100 * one.early_low:+.2f}, {100 * one.early_high:+.2f}] points",
                HOLDS if one.early_high <= MOST_EARLY else PARTLY if one.early <= MOST_EARLY else ABSENT,
                others)  # fmt: skip


def _unseen(found: RivalResults) -> Fact:
    claim = "prefixes never seen are better than under Null"
    if not found.unseen:
        return Fact(claim, "-", "no such transfer", UNKNOWN)
    one = rule_of(found.unseen)
    verdict = HOLDS if one.low > 1 else PARTLY if one.mean > 1 else ABSENT
    harmed = _share(one.harmed, one.harmed_low, one.harmed_high)
    return Fact(claim, "-", _span(one.mean, one.low, one.high), verdict, f"{one.transfers} transfers; harmed {harmed}")


def _ahead(name: str, rows: Sequence[RivalRow]) -> Fact:
    """Against each rival that harms no more: the larger mean."""
    one = rule_of(rows)
    gentle = [row for row in rows if row.arm != RULE and row.harmed <= one.harmed]
    ahead = [row for row in gentle if row.mean < one.mean]
    verdict = HOLDS if len(ahead) == len(gentle) else PARTLY if len(ahead) > 1 else ABSENT
    others = ", ".join(f"{row.arm} {_span(row.mean, row.low, row.high)}" for row in rows if row.arm != RULE)
    words = f"No more than it harm: {', '.join(row.arm for row in gentle)}. All: {others}"
    return Fact(f"no rival that harms no more gains more, {name}", "-", _span(one.mean, one.low, one.high), verdict,
                words)  # fmt: skip


def _loses(rows: Sequence[RivalRow]) -> Fact:
    """The rule's cost to the other flow against the constant's that has its largest window."""
    one, large = rule_of(rows), rule_of(rows, f"fixed-{MOST_INITIAL}")
    others = ", ".join(f"{row.arm} {row.loses:.1%}" for row in rows if row.arm not in (RULE, NULL))
    return Fact("a competing flow loses less than to a constant of 100", "-",
                _share(one.loses, one.loses_low, one.loses_high), HOLDS if one.loses_high < large.loses_low else
                PARTLY if one.loses < large.loses else ABSENT, f"Of its bytes beside Null. {others}")  # fmt: skip


def _covers(found: RivalResults) -> Fact:
    claim = "80 % intervals of the paths' windows cover"
    rows = [one for one in found.quantiles if one.model == CENSORED]
    if not rows:
        return Fact(claim, "-", "no transfer met its path's limit", UNKNOWN)
    one = rows[0]
    words = "; ".join(f"{row.model} {row.loss:.3f}, {row.covered:.0%}" for row in found.quantiles)
    ours = f"{one.covered:.0%}, never seen {one.unseen_covered:.0%}; pinball loss {one.loss:.3f}, {one.unseen_loss:.3f}"
    return Fact(claim, "-", ours, HOLDS if COVERING[0] <= one.covered <= COVERING[1] else PARTLY
                if one.covered > COVERING[1] else ABSENT, f"Of ln(window): {words}")  # fmt: skip


def tables(found: RivalResults) -> list[Table]:
    """Return every table."""
    rows: list[list[Cell]] = [
        [part, one.arm, one.transfers, *(None if value != value else round(value, 4) for value in one[2:])]
        for part, of in (*found.parts.items(), ("never seen", found.unseen)) for one in of
    ]  # fmt: skip
    columns = ("transfers", "rival", "count", "speed-up", "low", "high", "better", "worse by 5 %", "worse low",
               "worse high", "p95 speed-up", "p95 low", "p95 high", "first-flight loss more", "first-flight low",
               "first-flight high", "... of its segments", "other loses", "other low", "other high")  # fmt: skip
    return [Table("rivals", "Rivals over Null", columns, rows, f"Rivals: {', '.join(ARMS)}.")]
