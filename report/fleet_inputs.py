# SPDX-License-Identifier: MIT
"""The contents of a closed loop's report: what was measured of it, as rows that a page and a test can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configtron.learner.outcome_arms import GoalInterval, RatioCheck
from configtron.learner.rollout import Rollout, RolloutPlan
from configtron.learner.sequential.sensitivity import Sensitivity
from configtron.learner.sequential.switchback import SwitchbackEffect


@dataclass(frozen=True, slots=True)
class PlaceEffects:
    """Differences from held-back clients. kind: all, agent or class; name: "" for all."""

    kind: str
    name: str
    goals: tuple[GoalInterval, ...]


@dataclass(frozen=True, slots=True)
class PrefixLine:
    """A prefix by the latest map that its loads had. arms: (profile, share of clients), largest first; why: who chose,
    and by what; loads: that count."""

    prefix: str
    class_name: str
    arms: tuple[tuple[str, float], ...]
    why: str
    loads: int


@dataclass(frozen=True, slots=True)
class ShareSpan:
    """Clients (units) by profile in a stretch of time; "" is Default."""

    label: str
    units: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DriftLine:
    """A prefix whose network changed: when, when that was seen, and after how many outcomes."""

    prefix: str
    since: str
    seen: str
    outcomes: int


@dataclass(frozen=True, slots=True)
class MapDecision:
    """A map that was published, why, and the command that puts it back; "": it is not kept whole any more."""

    place: str
    made_at: str
    why: str
    prefixes: int
    rollback: str


@dataclass(frozen=True, slots=True)
class AgentLine:
    """What an agent holds. refused: entries of that map that it left out; rejected: the last map that it refused whole,
    and why; waiting, lost: rows in its spool, and rows that are lost; skew_s: of its clock."""

    name: str
    holds: str
    heard_at: str
    driver: str = ""
    refused: int = 0
    rejected: str = ""
    reason: str = ""
    waiting: int = 0
    lost: int = 0
    skew_s: float = 0.0
    revoked: bool = False


@dataclass(frozen=True, slots=True)
class DataQuality:
    """rows: stored; counted: loads that figures are of; aside: reason -> rows in none; lost: rows that agents' spools
    dropped; ratio: of the sample; read: rows that were read for the report."""

    rows: int
    counted: int
    aside: Mapping[str, int]
    lost: int
    ratio: RatioCheck


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """What a report shows. source: the database; first_at, last_at: of its loads, "" where there are none;
    prefixes_more: prefixes that the table leaves out; rollout, switchback: None where there is none;
    plan, sees: what a roll-out is judged by, and what a canary by it can see."""

    version: str
    source: str
    made_at: str
    first_at: str
    last_at: str
    effects: tuple[PlaceEffects, ...]
    quality: DataQuality
    prefixes: tuple[PrefixLine, ...] = ()
    prefixes_more: int = 0
    shares: tuple[ShareSpan, ...] = ()
    drift: tuple[DriftLine, ...] = ()
    decisions: tuple[MapDecision, ...] = ()
    agents: tuple[AgentLine, ...] = ()
    rollout: Rollout | None = None
    switchback: SwitchbackEffect | None = None
    notes: tuple[str, ...] = ()
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    sees: tuple[Sensitivity, ...] = ()
