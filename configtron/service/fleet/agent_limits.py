# SPDX-License-Identifier: MIT
"""Why a fleet may not use a profile: the bounds and the guard of each agent's operator, and its driver's reach.

A bound of one operator holds for all agents, as does a driver's reach, but for `OPTIONAL_KNOBS`: a profile with one of
them is used as soon as one driver has it, and agents without have the untouched stack in its place (`drawing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from configtron.fleet.messages import AgentHello, SpanForm
from configtron.model.fleet import OPTIONAL_KNOBS
from configtron.model.nouns import Profile
from configtron.model.records import Json
from configtron.model.tuning_json import value_text
from configtron.tune.guard import Bound, Limits, why_not


class AgentLimits(NamedTuple):
    """limits: the operator's, and whether unfair profiles are allowed; reaches: setting -> values that the driver
    takes, empty where that is not known."""

    limits: Limits
    reaches: Mapping[str, Bound]


def limits_of_hello(hello: AgentHello) -> AgentLimits:
    """Return the limits that an agent reported."""
    return limits_of_form(limits_form(hello))


def limits_of_form(form: Mapping[str, Any]) -> AgentLimits:
    """Return the limits of an agent's stored state, or of `limits_form`."""
    bounds, reaches = ({row[0]: Bound(row[1], row[2], tuple(row[3])) for row in form.get(kind, [])}
                       for kind in ("bounds", "reaches"))  # fmt: skip
    return AgentLimits(Limits(bounds, allow_unfair=bool(form.get("unfair", True))), reaches)


def limits_form(hello: AgentHello) -> dict[str, Json]:
    """Return an agent's limits as JSON, as its stored state has them."""
    return {"unfair": hello.allow_unfair, "bounds": _rows(hello.bounds), "reaches": _rows(hello.reaches)}


def _rows(forms: Sequence[SpanForm]) -> list[Json]:
    return [[each.knob, each.least, each.most, list(each.values)] for each in forms]


def barred_by(agents: Mapping[str, AgentLimits], profile: Profile, learned: bool = False) -> str:
    """Return why a profile may not be used: the first agent whose operator, guard or driver refuses it; "": none does,
    or only some drivers lack an optional setting of it.

    learned  a learner chooses it, not a person
    """
    lacking = []
    for name, (limits, reaches) in sorted(agents.items()):
        if why := next(why_not(profile, limits, learned=learned), ""):
            return f"agent {name}: {why}"
        if why := _out_of_reach(profile, reaches):
            lacking.append(f"agent {name}: {why}")
    able = is_optional(profile) and len(lacking) < len(agents)
    return lacking[0] if lacking and not able else ""


def is_optional(profile: Profile) -> bool:
    """Return whether agents whose driver lacks a profile have the untouched stack in its place."""
    return any(knob in OPTIONAL_KNOBS for knob, _ in profile.settings)


def _out_of_reach(profile: Profile, reaches: Mapping[str, Bound]) -> str:
    """Return which setting the agent's driver does not take; "" where its reach is not known."""
    for knob, value in profile.settings if reaches else ():
        if knob not in reaches or not reaches[knob].holds(value):
            return f"profile {profile.name}: {knob}={value_text(value)} is out of reach of its driver"
    return ""
