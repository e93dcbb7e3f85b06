# SPDX-License-Identifier: MIT
"""The measured contents of a closed loop's report, as rows for the page and for tests."""

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
    """A prefix and its mix of profiles in the latest map that its loads had. arms: (profile, share of clients), largest
    first; why: which rule chose them; loads: those that count."""

    prefix: str
    class_name: str
    arms: tuple[tuple[str, float], ...]
    why: str
    loads: int


@dataclass(frozen=True, slots=True)
class ShareSpan:
    """Clients (units) by profile in an interval of time; "" is Default."""

    label: str
    units: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class DriftLine:
    """A prefix whose network changed. since: when; seen: when it was detected; outcomes: after how many."""

    prefix: str
    since: str
    seen: str
    outcomes: int


@dataclass(frozen=True, slots=True)
class MapDecision:
    """A published map, why, and the command that rolls back to it; "": its document is deleted."""

    place: str
    made_at: str
    why: str
    prefixes: int
    rollback: str


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent's state. holds: its map; refused: entries of that map that it did not apply; rejected, reason: the last
    map that it refused as a whole, and why; waiting, lost: rows in its spool, lost rows; skew_s: of its clock."""

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
    """Which rows the figures are based on. rows: stored; counted: loads in the figures; aside: reason -> rows not in
    them; lost: rows that agents' spools dropped; ratio: sample ratio check."""

    rows: int
    counted: int
    aside: Mapping[str, int]
    lost: int
    ratio: RatioCheck


@dataclass(frozen=True, slots=True)
class ReportInputs:
    """All inputs of a report. source: the database; first_at, last_at: of its loads, "" where there are none;
    prefixes_more: prefixes that the table leaves out; rollout, switchback: None where there is none;
    plan, sees: the roll-out's plan, and the effects that a canary with this plan can detect; staged: maps reach clients
    by stages; loads_an_hour: the present rate of loads that count, 0 where they are too few to say."""

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
    staged: bool = False
    loads_an_hour: float = 0.0
