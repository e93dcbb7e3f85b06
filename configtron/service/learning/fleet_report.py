# SPDX-License-Identifier: MIT
"""`learn report`: what a fleet's map gains over its holdback, who gets what and why, and what may be wrong."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from configtron import __version__
from configtron.db.fleet import MapRow, manager_store
from configtron.db.fleet_facts import agent_states
from configtron.learner.outcome_arms import FleetLoads, fleet_loads, intervals, ratio_of
from configtron.learner.rollout import Rollout, RolloutPlan, sees
from configtron.learner.sequential.switchback import SwitchbackEffect, switchback
from configtron.learner.state import decode
from configtron.learner.traffic import Traffic
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.fleet import OutcomeRow
from configtron.report.fleet_inputs import (
    AgentLine,
    DataQuality,
    DriftLine,
    MapDecision,
    PlaceEffects,
    PrefixLine,
    ReportInputs,
    ShareSpan,
)
from configtron.report.page.to_go import loads_an_hour
from configtron.service.fleet.stages import DARK, ROLLOUT, is_staged, switch_plan
from configtron.service.learning.importable import check_classes

# Rows that a report reads at most, the latest ones: some 300 MB. Those that drift is looked for in: some seconds.
MOST_ROWS, DRIFT_ROWS = 200_000, 20_000
# Rows of tables; places that have effects of their own; stretches of time that shares are shown for.
MOST_PREFIXES, MOST_DRIFT, MOST_DECISIONS, MOST_PLACES, SPANS = 100, 50, 50, 8, 12
# The shortest span, which its name distinguishes from others: of a time of day, of a day.
MINUTE_NS, DAY_NS = 60 * 10**9, 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """db: the manager's database; rows: the latest that are read."""

    db: Path
    rows: int = MOST_ROWS

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("rows", self.rows, 1, MOST_ROWS, whole=True)


def report(options: ReportOptions, now: datetime | None = None) -> ReportInputs:
    """Return the contents of a report. now: its date. Errors: `BadInput` without a database; `Missing`."""
    with manager_store(options.db, read_only=True) as store:
        check_classes()
        total, rows = store.latest_rows(options.rows)
        maps, facts, lost = store.maps(), store.facts(), sum(one.lost for one in store.streams())
        revoked = {one.name: bool(one.revoked_at) for one in store.enrolled()}
    return inputs_of(rows, maps, facts, revoked, total=total, lost=lost, now=now or datetime.now(UTC),
                     database=options.db)  # fmt: skip


def inputs_of(
    rows: Sequence[OutcomeRow], maps: Sequence[MapRow], facts: dict[str, str], revoked: dict[str, bool], *,
    total: int, lost: int, now: datetime, database: Path,
) -> ReportInputs:  # fmt: skip
    """Return a report's contents from what a manager's database has. revoked: enrolled agents, and whether they are."""
    source = database.name
    found = fleet_loads(rows)
    ends = (found.at_ns.min(), found.at_ns.max()) if len(found.at_ns) else ()
    first, last = (_when(_date(int(end))) for end in ends) if ends else ("", "")
    quality = DataQuality(total, len(found.loads), found.aside, lost, ratio_of(rows))
    prefixes, more = _prefixes(rows, {(one.term, one.version): one.why for one in maps})
    effects, rollout = _effects(found), _rollout(facts)
    plan = rollout.plan if rollout else RolloutPlan()
    known = [one.found for one in effects[0].goals if not one.found.reason] if effects else []
    notes = [f"Only the latest {len(rows)} of {total} rows are read."] if len(rows) < total else []
    return ReportInputs(
        version=__version__, source=source, made_at=_when(now), first_at=first, last_at=last,
        effects=effects, quality=quality, prefixes=prefixes, prefixes_more=more, shares=_shares(rows),
        drift=_drift(rows[-DRIFT_ROWS:]), decisions=tuple(_decision(one, database) for one in maps[-MOST_DECISIONS:]),
        agents=_agents(facts, revoked, source), rollout=rollout, switchback=_switchback(facts, found),
        notes=tuple(notes), plan=plan,
        sees=tuple(sees(plan, one) for one in known), staged=is_staged(facts),
        loads_an_hour=loads_an_hour(found.at_ns, int(now.timestamp() * 1e9)),
    )  # fmt: skip


def _date(at_ns: float) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


def _when(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")


def _effects(found: FleetLoads) -> tuple[PlaceEffects, ...]:
    """Effects of all clients, then of the agents and classes with most loads."""
    if not len(found.loads):
        return ()
    effects = [PlaceEffects("all", "", intervals(found.loads))]
    for kind, codes, names, part in (
        ("agent", found.agent, found.agents, found.of_agent), ("class", found.class_, found.classes, found.of_class),
    ):  # fmt: skip
        often = np.bincount(codes, minlength=len(names))
        for code in np.argsort(-often, kind="stable")[:MOST_PLACES] if len(names) > 1 else ():
            effects.append(PlaceEffects(kind, names[int(code)], intervals(part(int(code)))))
    return tuple(effects)


def _prefixes(rows: Sequence[OutcomeRow], whys: dict[tuple[int, int], str]) -> tuple[tuple[PrefixLine, ...], int]:
    """Prefixes with most loads, by the latest map that each had, and how many more there are."""
    loads: Counter[str] = Counter()
    latest: dict[str, tuple[tuple[int, int], str]] = {}
    mixes: dict[tuple[tuple[int, int], str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        place = (row.term, row.map_version)
        loads[row.prefix] += 1
        if row.prefix not in latest or place >= latest[row.prefix][0]:
            latest[row.prefix] = (place, row.class_name)
        if row.propensity is not None and row.class_name:
            mixes[place, row.class_name]["" if row.held else row.profile] = row.propensity
    ranked = sorted(loads, key=lambda prefix: (-loads[prefix], prefix))
    lines = [_line(prefix, latest[prefix], mixes, whys, loads[prefix]) for prefix in ranked[:MOST_PREFIXES]]
    return tuple(lines), max(0, len(ranked) - MOST_PREFIXES)


def _line(
    prefix: str, latest: tuple[tuple[int, int], str], mixes: dict[tuple[tuple[int, int], str], dict[str, float]],
    whys: dict[tuple[int, int], str], loads: int,
) -> PrefixLine:  # fmt: skip
    place, class_name = latest
    arms = tuple(sorted(mixes.get(latest, {}).items(), key=lambda pair: (-pair[1], pair[0])))
    named = f"map {place[0]}.{place[1]}"
    why = f"{named}: {whys[place]}" if place in whys else f"{named}, not published here"
    return PrefixLine(prefix, class_name, arms, why if class_name else f"{named}: in no class, Default", loads)


def _shares(rows: Sequence[OutcomeRow]) -> tuple[ShareSpan, ...]:
    """Return clients by profile, each counted once an epoch: where it was first seen in it."""
    first = {row.unit: row for row in sorted(rows, key=lambda row: row.at_ns, reverse=True)}
    if not first:
        return ()
    begun, last = (end(row.at_ns for row in first.values()) for end in (min, max))
    by_day = last - begun >= DAY_NS
    long = max((last - begun) / SPANS, DAY_NS if by_day else MINUTE_NS)
    seen: list[Counter[str]] = [Counter() for _ in range(SPANS)]
    for row in first.values():
        seen[min(int((row.at_ns - begun) / long), SPANS - 1)]["" if row.arm is None else row.profile] += 1
    form = "%d.%m" if by_day else "%H:%M"
    return tuple(ShareSpan(_date(begun + n * long).strftime(form), dict(sorted(span.items())))
                 for n, span in enumerate(seen) if span)  # fmt: skip


def _drift(rows: Sequence[OutcomeRow]) -> tuple[DriftLine, ...]:
    traffic = Traffic()
    for row in rows:
        traffic.take(row)
    changed = [(one.change, prefix) for prefix, one in traffic.prefixes_.items() if one.change is not None]
    changed.sort(key=lambda pair: (-pair[0].seen_ns, pair[1]))
    return tuple(DriftLine(prefix, _when(_date(change.since_ns)), _when(_date(change.seen_ns)), change.outcomes)
                 for change, prefix in changed[:MOST_DRIFT])  # fmt: skip


def _decision(one: MapRow, database: Path) -> MapDecision:
    place = f"{one.term}.{one.version}"
    words = ("configtron", "--db", str(database.absolute()), "learn", "manager", "rollback", place)
    command = shlex.join(words) if one.whole else ""
    return MapDecision(place, _when(datetime.fromisoformat(one.made_at)), one.why, one.prefixes, command)


def _agents(facts: dict[str, str], revoked: dict[str, bool], source: str) -> tuple[AgentLine, ...]:
    states = agent_states(facts, source)
    return tuple(_agent(name, states.get(name, {}), revoked.get(name, False)) for name in sorted({*states, *revoked}))


def _agent(name: str, state: Mapping[str, object], revoked: bool) -> AgentLine:
    def number(key: str) -> float:
        value = state.get(key, 0)
        return float(value) if isinstance(value, int | float) else 0.0

    heard = _when(_date(int(number("heard_s")) * 1e9)) if number("heard_s") else ""
    held = str(state.get("held", ""))
    return AgentLine(
        name, "" if held == "0.0" else held, heard, str(state.get("driver", "")), int(number("refused")),
        str(state.get("rejected", "")), str(state.get("reason", "")), int(number("waiting")), int(number("dropped")),
        number("skew_s"), revoked,
    )  # fmt: skip


def _rollout(facts: dict[str, str]) -> Rollout | None:
    """Errors: `BadInput` for a state that another version saved."""
    if not (text := facts.get(ROLLOUT, "")):
        return None
    found = decode(text).get("rollout")
    if not isinstance(found, Rollout):
        raise BadInput(f"the database's fact {ROLLOUT!r} is no roll-out")
    return found


def _switchback(facts: dict[str, str], found: FleetLoads) -> SwitchbackEffect | None:
    """Return the effect by dark hours; None where there are none."""
    if not (text := facts.get(DARK, "")):
        return None
    plan, key = switch_plan(text)
    pop = np.zeros(len(found.at_ns), dtype=np.int64)
    return switchback(plan, key, ("",), pop, found.at_ns / 1e9, found.loads.ln_ms)
