# SPDX-License-Identifier: MIT
"""Roll-out of a map's version: shadow, canary, a quarter, all; and the way back, as a state machine without a clock.

Question   May more clients get this version, or must all go back to the one before?
Method     A version is first judged on what was logged without it (off-policy value). Then a canary gets it, 5 % of the
           clients that are not held back; the difference from held-back clients is read at each look, goal by goal
           (median, p95, failures). Gate: group-sequential upper bounds, that the harm is below the goal's margin;
           all goals must have passed, each at its own full error (to pass wrongly, one of them must). Alarm: one-sided
           confidence sequences, their error shared among goals, stages and places; one whose lower bound of harm is
           above zero puts the version before back in force, by the next map, so within a lease. Each stage is judged by
           its own loads: shares differ between stages, and with them times of day.
           A broken sample ratio, or more than 1 % of entries refused by agents, suspends gate and claims; the
           refusals trip, too, since what is in force is then not what is judged. The holdback stays for ever, and at
           full share the same sequences claim what the version gained.
Stop when  returned (the version before is in force) or rejected (it never left the shadow). `all` has no end.
Reads as   a stage, the share of clients, and a row of evidence for each change of stage and each claim.
Fails as   stays in its stage until the planned clients are reached; then returns, with the goals that had not passed.
Differs    ConfigTron puts a map in force at once, for all clients.
Source     Berger 1982 (intersection-union tests); Lan and DeMets 1983; Waudby-Smith et al. 2024; NetEdit (SIGCOMM 2024)
           and Uber's staged roll-outs for the stages.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf, isfinite

from configtron.learner.sequential.always_valid import width
from configtron.learner.sequential.differences import GOALS, ArmDifference
from configtron.learner.sequential.group_sequential import bounds
from configtron.learner.sequential.sample_ratio import ERROR as RATIO_ERROR
from configtron.learner.sequential.sensitivity import Sensitivity, equal_gate, sensitivity, unit_error
from configtron.learner.state import keep
from configtron.model.errors import BadInput

# Stages in which clients get the version, and which of those that are not held back do.
SHARES = {"canary": 0.05, "quarter": 0.25, "all": 1.0}
NEXT = {"shadow": "canary", "canary": "quarter", "quarter": "all"}
# Stages that nothing leaves. returned: the version before is in force again; rejected: no client ever got this one.
ENDED = frozenset({"returned", "rejected"})
# How an alarm's error is shared among the stages; the first one is where harm is met.
STAGE_ERRORS = {"canary": 0.4, "quarter": 0.3, "all": 0.3}
# Refused entries of a map, as a share, above which agents do not hold what is judged.
MOST_REFUSED = 0.01

# Why a stage changed, or a claim was made.
WHY = {
    "begun": "shadow: judged on logged loads, no client gets it",
    "shadow-passed": "the off-policy value's upper bound of harm is below the margin",
    "shadow-harm": "the off-policy value's lower bound of harm is above the margin",
    "unseen": "no logged load can show its value: the canary's alarm judges it",
    "gate": "every goal's upper bound of harm is below its margin",
    "alarm": "a goal's lower bound of harm is above zero",
    "refused": "agents refused more than 1 % of the map's entries",
    "not-passed": "the planned clients are reached, and some goal's harm may still be above its margin",
    "recalled": "an operator recalled it",
    "better": "claim: the interval of the difference from the control group is below zero",
}


@keep
@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """What a roll-out is judged by.

    margins      goal -> the most harm that a gate may pass, ln(ms) or share of loads
    clients      units (client and epoch) in either arm, by which a stage has passed or is over
    gate_looks   looks that a gate spends its error over
    gate_error   one-sided, of each goal; alarm_error: of all alarms of the roll-out; claim_error: of all claims
    shadow_ln    the most harm, ln(ms), by which the off-policy value may not be excluded to exceed
    places       points of presence or continents that have an alarm of their own
    lease_s      within which agents hold what the state orders
    """

    margins: tuple[tuple[str, float], ...] = (("median", 0.05), ("p95", 0.10), ("failures", 0.005))
    clients: int = 10_000
    gate_looks: int = 10
    gate_error: float = 0.05
    alarm_error: float = 0.025
    claim_error: float = 0.025
    shadow_ln: float = 0.05
    places: tuple[str, ...] = ()
    lease_s: float = 3.0

    def __post_init__(self) -> None:
        """Errors: `BadInput` for margins of other goals than are compared, or that are not above zero."""
        if {name for name, _ in self.margins} != {goal.name for goal in GOALS}:
            raise BadInput(f"margins: one for each of {', '.join(goal.name for goal in GOALS)}")
        if min(margin for _, margin in self.margins) <= 0.0 or self.clients <= 0 or not 0 < self.gate_looks <= 100:
            raise BadInput("margins and clients must be above zero, looks between 1 and 100")

    def goal_alarm_error(self, stage: str, place: str) -> float:
        """Return the one-sided error of one goal's alarm: half goes to all clients together, half to places."""
        part = self.alarm_error * STAGE_ERRORS[stage] / len(GOALS)
        if not self.places:
            return part
        return part / 2.0 if not place else part / 2.0 / len(self.places)


@keep
@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One change or claim. number: from 1, within the roll-out; stage: after it; numbers: what it rests on."""

    number: int
    at_ns: int
    stage: str
    why: str
    goal: str = ""
    place: str = ""
    numbers: tuple[tuple[str, float], ...] = ()


@keep
@dataclass(frozen=True, slots=True)
class Rollout:
    """A version on its way.

    version, previous  (term, version) of the maps
    seen_ns            of the latest event; older ones are events that were delivered twice
    gates              goal -> shares of the planned clients at the looks that it was judged at in this stage
    passed             goals that have passed the gate of this stage
    suspended          why nothing is claimed: "", "sample-ratio" or "refused"
    """

    version: tuple[int, int]
    previous: tuple[int, int]
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    stage: str = "draft"
    seen_ns: int = 0
    gates: tuple[tuple[str, tuple[float, ...]], ...] = ()
    passed: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()
    suspended: str = ""
    evidence: tuple[EvidenceRow, ...] = ()

    @property
    def share(self) -> float:
        """Return the share of clients, of those that are not held back, that get the version."""
        return SHARES.get(self.stage, 0.0)

    @property
    def in_force(self) -> tuple[int, int]:
        """Return the version that clients outside of the share have: the one before, until all have this one."""
        return self.version if self.stage == "all" else self.previous

    @property
    def due_ns(self) -> int:
        """Return by when, ns since 1970, agents have what this state orders: a lease after its latest change."""
        changed = self.evidence[-1].at_ns if self.evidence else self.seen_ns
        return changed + round(self.plan.lease_s * 1e9)


@dataclass(frozen=True, slots=True)
class RolloutBegun:
    """The draft is complete."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class ShadowJudged:
    """The off-policy value of the version less that of the one before, ln(ms); infinite ends: `reason` says why."""

    at_ns: int
    low_ln: float
    high_ln: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ShadowUnseen:
    """No log shows the version's value, however long the shadow lasts: the smallest share of clients has to."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class StageLook:
    """One reading of the stage's own loads.

    differences  (place, difference from held-back clients); "" for all clients
    ratio        p-value of the sample ratio, the smallest of this stage so far
    refused, entries  of the map, by all agents that answered
    """

    at_ns: int
    stage: str
    differences: tuple[tuple[str, ArmDifference], ...]
    ratio: float = 1.0
    refused: int = 0
    entries: int = 0


@dataclass(frozen=True, slots=True)
class RolloutRecalled:
    """An operator wants the version before."""

    at_ns: int


RolloutEvent = RolloutBegun | ShadowJudged | ShadowUnseen | StageLook | RolloutRecalled


def advance(rollout: Rollout, event: RolloutEvent) -> Rollout:
    """Return the state after an event; one that is older than what was seen, or of another stage, changes nothing."""
    if event.at_ns <= rollout.seen_ns or rollout.stage in ENDED:
        return rollout
    if isinstance(event, StageLook):
        return rollout if event.stage != rollout.stage or not rollout.share else _looked(rollout, event)
    if isinstance(event, RolloutRecalled):
        stage = "returned" if rollout.share else "rejected"
        return _to(rollout, event.at_ns, stage, "recalled")
    if isinstance(event, RolloutBegun):
        return _to(rollout, event.at_ns, "shadow", "begun") if rollout.stage == "draft" else rollout
    if rollout.stage != "shadow":
        return rollout
    if isinstance(event, ShadowUnseen):
        return _to(rollout, event.at_ns, "canary", "unseen")
    return _judged(rollout, event)


def _judged(rollout: Rollout, event: ShadowJudged) -> Rollout:
    numbers = (("low_ln", event.low_ln), ("high_ln", event.high_ln))
    if not event.reason and event.high_ln < rollout.plan.shadow_ln:
        return _to(rollout, event.at_ns, "canary", "shadow-passed", numbers=numbers)
    if not event.reason and event.low_ln > rollout.plan.shadow_ln:
        return _to(rollout, event.at_ns, "rejected", "shadow-harm", numbers=numbers)
    return replace(rollout, seen_ns=event.at_ns)


def _to(
    rollout: Rollout, at_ns: int, stage: str, why: str, goal: str = "", place: str = "",
    numbers: tuple[tuple[str, float], ...] = (),
) -> Rollout:  # fmt: skip
    """Enter a stage, or note a claim in the one that is; a new stage begins without looks."""
    row = EvidenceRow(len(rollout.evidence) + 1, at_ns, stage, why, goal, place, numbers)
    found = replace(rollout, seen_ns=at_ns, evidence=(*rollout.evidence, row))
    if stage == rollout.stage:
        return found
    return replace(found, stage=stage, gates=(), passed=(), suspended="")


def _looked(rollout: Rollout, look: StageLook) -> Rollout:
    refusals = look.refused / look.entries if look.entries else 0.0
    if refusals > MOST_REFUSED:
        asked = (("refused", float(look.refused)), ("entries", float(look.entries)))
        return _to(rollout, look.at_ns, "returned", "refused", numbers=asked)
    for place, one in look.differences:
        if (low := alarm_low(rollout.plan, rollout.stage, place, one)) > 0.0:
            numbers = (*numbers_of(one), ("low", low))
            return _to(rollout, look.at_ns, "returned", "alarm", one.goal.name, place, numbers)
    suspended = "sample-ratio" if look.ratio < RATIO_ERROR else ""
    rollout = replace(rollout, seen_ns=look.at_ns, suspended=suspended)
    if suspended:
        return rollout
    everywhere = tuple(one for place, one in look.differences if not place)
    return _claimed(rollout, look, everywhere) if rollout.stage == "all" else _gated(rollout, look, everywhere)


def alarm_low(plan: RolloutPlan, stage: str, place: str, one: ArmDifference) -> float:
    """Return the lower bound of a goal's harm, in its unit, that holds at all looks; minus infinity where none does."""
    if one.reason or (place and place not in plan.places):
        return -inf
    error = plan.goal_alarm_error(stage, place)
    return one.estimate - width(one.error**2, one.effective_units, error, plan.clients / 4.0, one_sided=True)


def claim_interval(plan: RolloutPlan, one: ArmDifference) -> tuple[float, float]:
    """Return the interval of a difference at full share, that holds at all looks and for all goals together."""
    if one.reason:
        return -inf, inf
    reach = width(one.error**2, one.effective_units, plan.claim_error / len(GOALS), plan.clients / 2.0)
    return one.estimate - reach, one.estimate + reach


def _claimed(rollout: Rollout, look: StageLook, differences: tuple[ArmDifference, ...]) -> Rollout:
    for one in differences:
        low, high = claim_interval(rollout.plan, one)
        if high < 0.0 and not one.doubt and one.goal.name not in rollout.claimed:
            numbers = (*numbers_of(one), ("low", low), ("high", high))
            rollout = _to(rollout, look.at_ns, rollout.stage, "better", one.goal.name, numbers=numbers)
            rollout = replace(rollout, claimed=(*rollout.claimed, one.goal.name))
    return rollout


def _gated(rollout: Rollout, look: StageLook, differences: tuple[ArmDifference, ...]) -> Rollout:
    plan, margins, gates = rollout.plan, dict(rollout.plan.margins), dict(rollout.gates)
    passed = set(rollout.passed)
    over = False
    for one in differences:
        # a clock of half the planned clients is reached when either arm has all of them
        share, before = min(1.0, one.effective_units / (plan.clients / 2.0)), gates.get(one.goal.name, ())
        over = over or share >= 1.0
        due = share >= 1.0 or share >= (before[-1] if before else 0.0) + 1.0 / plan.gate_looks
        if one.goal.name in passed or one.reason or not due or (before and before[-1] >= 1.0):
            continue
        gates[one.goal.name] = (*before, share)
        if gate_high(plan, gates[one.goal.name], one) < margins[one.goal.name]:
            passed.add(one.goal.name)
    rollout = replace(rollout, gates=tuple(sorted(gates.items())), passed=tuple(sorted(passed)))
    numbers = tuple(pair for one in differences for pair in numbers_of(one, f"{one.goal.name} "))
    if len(passed) == len(margins):
        return _to(rollout, look.at_ns, NEXT[rollout.stage], "gate", numbers=numbers)
    if over:
        missing = ",".join(sorted(set(margins) - passed))
        return _to(rollout, look.at_ns, "returned", "not-passed", missing, numbers=numbers)
    return rollout


def gate_high(plan: RolloutPlan, shares: tuple[float, ...], one: ArmDifference) -> float:
    """Return the upper bound of a goal's harm at the latest of its gate's looks; infinite where none is known."""
    bound = _bounds(shares, plan.gate_error)[-1]
    return one.estimate + bound * one.error if isfinite(bound) else inf


@lru_cache(maxsize=256)
def _bounds(shares: tuple[float, ...], error: float) -> tuple[float, ...]:
    return bounds(shares, error)


def sees(plan: RolloutPlan, known: ArmDifference) -> Sensitivity:
    """Return what a canary can see of a goal: the least margin that its gate passes an equal version by, and the least
    harm that its alarm finds, each with a probability of 80 %, by a former difference of any two arms."""
    gate, alarm = equal_gate(plan.gate_looks, plan.gate_error), plan.goal_alarm_error("canary", "")
    return sensitivity(known.goal.name, unit_error(known), float(plan.clients), gate, alarm)


def numbers_of(one: ArmDifference, prefix: str = "") -> tuple[tuple[str, float], ...]:
    """Return what a row of evidence keeps of a difference."""
    return (
        (f"{prefix}estimate", one.estimate), (f"{prefix}error", one.error),
        (f"{prefix}control", one.level[0]), (f"{prefix}treated", one.level[1]),
        (f"{prefix}control loads", float(one.loads[0])), (f"{prefix}treated loads", float(one.loads[1])),
    )  # fmt: skip
