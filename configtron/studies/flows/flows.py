# SPDX-License-Identifier: MIT
"""Bulk flows over conditions, as data, and the host's side of them: which flow, when, by which scheme, and what it got.

    trial = Trial(named("pantheon:2"), (Flow("cubic"), Flow("bbr", start_s=10)), duration_s=30, seed=3)
    found = run(arguments, {"mexico": [trial, ...]})      a boot a name, its trials one after another
    found.outcomes["mexico"][0].flows[1].mbit, .late_ms, .loss, .power

Question   What does a congestion control make of a network when it has as much to send as the network takes?
Method     Servers send to the client (`throttle.py`, in the guest); every packet is logged where it leaves its sender
           and where it arrives (`tap.py`), on one clock; `transits.py` makes figures of both logs. A scheme of the
           kernel is set on both ends' sockets before they connect, and read back at the end; one of user space
           (`configtron/lab/schemes`) sends datagrams of the same size (`datagrams.py`).
Reads as   `TrialOutcome`, one a trial in the order asked, with one `FlowOutcome` a flow.
Fails as   a flow has a reason: refused (the kernel has no such scheme), became-NAME (the kernel uses another, as DCTCP
           does without ECN), not-connected, no-packet-arrived. The study reports a part that failed as a whole.
Source     Pantheon (Yan and others 2018)
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from configtron.lab.schemes.table import OF_USER_SPACE
from configtron.lab.testbed.conditions import Condition
from configtron.lab.testbed.transits import FlowMetrics
from configtron.model.congestion import OF_LINUX
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.records import Json, canonical, pairs_form, pairs_of
from configtron.studies.guests import parts
from configtron.studies.registry.kinds import Arguments

# Linux 6.12's congestion controls, which schemes.fragment switches on (reno is always there), and those of user space.
SCHEMES = (*OF_LINUX, *OF_USER_SPACE)
# Beyond this the client's and the servers' buffers fill a guest's memory.
MOST_FLOWS = 32
# Whose `perform` a guest calls; the second one's leaves each trial's packets beside the text.
GUEST, LOGGING_GUEST = "configtron.studies.flows.throttle", "configtron.studies.flows.logged"
REFUSED, NOT_CONNECTED = "refused", "not-connected"


@dataclass(frozen=True, slots=True)
class Flow:
    """scheme: a congestion control; "" takes the configuration's. rival: a competing flow, of an untuned server.

    start_s   after the trial's beginning; a flow lasts to the trial's end
    """

    scheme: str = ""
    start_s: float = 0.0
    rival: bool = False


@dataclass(frozen=True)
class Trial:
    """One experiment: flows over a condition, from its beginning for `duration_s` seconds.

    counted_from_s   figures are of the time from then on, or from a flow's start if that is later
    configuration    of the servers' stack, set by the drivers of the tune verb; None is the kernel's default
    """

    condition: Condition
    flows: tuple[Flow, ...]
    duration_s: float = 30.0
    seed: int = 1
    counted_from_s: float = 0.0
    configuration: Profile | None = None

    def __post_init__(self) -> None:
        if not 0 < len(self.flows) <= MOST_FLOWS:
            raise BadInput(f"a trial has 1 to {MOST_FLOWS} flows, not {len(self.flows)}")
        begins = [max(flow.start_s, self.counted_from_s) for flow in self.flows]
        if not all(0 <= at < self.duration_s < math.inf for at in begins):
            raise BadInput(f"flows start and are counted within the trial's {self.duration_s:g} s: {begins}")
        if self.configuration is None and any(not flow.scheme for flow in self.flows):
            raise BadInput("a flow without a scheme needs a configuration that says which")


@dataclass(frozen=True, slots=True)
class FlowOutcome(FlowMetrics):
    """What a flow got, and the scheme that the kernel used; `reason`: "" or why it is void."""

    scheme: str = field(kw_only=True)


@dataclass(frozen=True)
class TrialOutcome:
    """A trial's outcome: its flows in order; `reason`: why the whole trial is void, when its stack was not as asked."""

    flows: tuple[FlowOutcome, ...]
    reason: str = ""


class Ran(NamedTuple):
    """outcomes: by the name of the request, a `TrialOutcome` a trial; missing: by name, why a boot failed."""

    outcomes: Mapping[str, Sequence[TrialOutcome]]
    missing: Mapping[str, str]


def run(arguments: Arguments, trials: Mapping[str, Sequence[Trial]]) -> Ran:
    """Run each name's trials in a boot of its own; a boot that is complete in `arguments.folder` is not run again.

    Errors: `Missing` for what no boot can do without.
    """
    modules = (LOGGING_GUEST,) if arguments.archive else (GUEST, LOGGING_GUEST)
    wanted = [parts.Part(name, modules[0], orders_of(asked), modules[-1], True) for name, asked in trials.items()]
    done = parts.performed(arguments, wanted)
    outcomes = {one.part.name: outcomes_of(one.text) for one in done if not one.why}
    return Ran(outcomes, {one.part.name: one.why for one in done if one.why})


def orders_of(trials: Sequence[Trial]) -> str:
    """Return trials as one line of JSON, the same for equal trials."""
    return canonical([_trial_form(trial) for trial in trials])


def trials_of(orders: str) -> list[Trial]:
    """Return the trials of such a line. Errors: `BadInput`."""
    try:
        return [_trial(form) for form in json.loads(orders)]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"no trials: {error}") from error


def _trial_form(trial: Trial) -> Json:
    own = trial.configuration
    return {
        "condition": json.loads(trial.condition.to_json()),
        "flows": [asdict(flow) for flow in trial.flows],
        "duration_s": trial.duration_s,
        "seed": trial.seed,
        "counted_from_s": trial.counted_from_s,
        "configuration": None if own is None else [own.name, pairs_form(own.settings)],
    }


def _trial(form: dict[str, object]) -> Trial:
    fields = dict(form)
    own: object = fields.pop("configuration")
    flows: object = fields.pop("flows")
    condition = Condition.from_json(json.dumps(fields.pop("condition")))
    assert isinstance(flows, list)
    configuration = Profile(own[0], pairs_of(own[1])) if isinstance(own, list) else None
    return Trial(condition, tuple(Flow(**flow) for flow in flows), configuration=configuration, **fields)  # type: ignore[arg-type]


def outcomes_text(outcomes: Sequence[TrialOutcome]) -> str:
    """Return a line of JSON a trial; NaN is written as null."""
    forms: list[Json] = [{"reason": one.reason, "flows": [_flow_form(flow) for flow in one.flows]} for one in outcomes]
    return "".join(canonical(form) + "\n" for form in forms)


def outcomes_of(text: str) -> list[TrialOutcome]:
    """Return the outcomes of such lines. Errors: `BadInput`."""
    try:
        rows = [json.loads(line) for line in text.splitlines()]
        return [TrialOutcome(tuple(_flowed(form) for form in row["flows"]), row["reason"]) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise BadInput(f"no figures of flows: {error}") from error


def _flow_form(flow: FlowOutcome) -> Json:
    return asdict(flow) | {"late_ms": None if math.isnan(flow.late_ms) else flow.late_ms}


def _flowed(form: dict[str, float | str | int | None]) -> FlowOutcome:
    late = math.nan if form["late_ms"] is None else form["late_ms"]
    return FlowOutcome(**form | {"late_ms": late})  # type: ignore[arg-type]
