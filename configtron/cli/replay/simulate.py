# SPDX-License-Identifier: MIT
"""Policies on simulated sessions, one part a policy: run in steps, kept now and then, told as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from configtron.cli.learn.options import rounded, say, write
from configtron.cli.learn.pace import Pace, Phases
from configtron.cli.replay.origin import NONE, Origin, hashed, made, origin_of
from configtron.cli.replay.parts import Job, Stop
from configtron.cli.settings import settings
from configtron.learner import ENGINES, GRID, PREFERRED, row_of, untaken
from configtron.learner.damage import BOUND, DamageBound, bound_of, damage_bound
from configtron.learner.imported import is_imported
from configtron.learner.sim.loop import Replay
from configtron.learner.sim.metrics import Fared, Measured, fared
from configtron.learner.sim.world import POPS, World, pops_of
from configtron.model.errors import BadInput
from configtron.service.learning.importable import importable

if TYPE_CHECKING:
    from configtron.model.records import Json

KIND = "simulate"
# Sessions of the first row of a report; and the share that the last row is of.
FIRST, LAST_SHARE = 1000, 0.5
# Sessions between two looks at the clock and at signals, at most and to begin with; fewer where a policy is so slow
# that they take longer than this.
STEP, FIRST_STEP, LOOK_S = 20_000, 1000, 0.25
# A state of many sessions is megabytes: it is kept no sooner than this after the last one, and than `PRICE` times as
# long as keeping it took, so that it costs a twentieth at most.
KEEP_S, PRICE = 15.0, 20.0
SIMULATION_COLUMNS = ("policy", "span", "sessions", "median", "p95", "excess_ms", "worse", "gain")


def job(given: dict[str, Any]) -> Job:
    """The job of these options. Errors: `BadInput`."""
    policies = list(given["policies"]) or [PREFERRED]
    importable(policies)
    for name in policies:
        row_of(name)
    for what, unsaid in (("warm", NONE), ("engine", GRID)):
        if given[what] != unsaid and (why := untaken(policies, what)):
            raise BadInput(why)
    if given["engine"] not in ENGINES:
        raise BadInput(f"no engine is called {given['engine']!r}; there is: {', '.join(ENGINES)}")
    origins = origins_of(given)
    # Whatever is wrong with it is said now; how many sessions there are makes no difference to that.
    for origin in origins:
        small = made(replace(origin, sessions=1))
        # What an extra or a class of one's own lacks is said now, too.
        for name in policies:
            if is_imported(name) or given["engine"] != GRID:
                small.policy(name, engine=given["engine"])
        _bound(given["damage"], small)
    names = ("engine", "interval_s", "delay_s", "pops", "batch", "keep_log", "damage", "budget")
    how = {key: given[key] for key in names}
    config = {"origins": [origin.form() for origin in origins], "policies": policies, **how}
    return Job(KIND, config, len(origins) * len(policies))


def origins_of(given: dict[str, Any]) -> list[Origin]:
    """The world of these options, or each world's file that they name."""
    found = []
    for world in given["worlds"] or ("",):
        names = (given["source"], given["tensor"], given["warm"])
        numbers = {key: given[key] for key in ("seed", "classes", "per_s", "rtt_ms", "loss", "distort")}
        files = hashed((*names, world))
        found.append(Origin(*names, given["count"], **numbers, world=world, files=files))
    return found


def part(
    job: Job, position: int, state: str, keep: Callable[[str], None], stopping: Callable[[], bool]
) -> list[dict[str, Any]]:
    """One policy's pass over the sessions."""
    # Replays that were begun before worlds had files have one origin.
    origins, policies = job.config.get("origins") or [job.config["origin"]], job.config["policies"]
    origin, name = origin_of(origins[position // len(policies)]), policies[position % len(policies)]
    phases = Phases(f"replay {name}")
    phases("making the world")
    here = made(origin)
    phases("making the policy")
    replay = _replay(job, here, name)
    if state:
        replay.restore(state)
    phases("playing sessions")
    begun = replay.at_
    _run(replay, name, keep, stopping)
    if job.config["keep_log"]:
        phases("keeping outcomes")
        _log(replay, {"replay": job.number, "policy": name, **origin.form()})
    phases("judging")
    about = {"world": origin.world} if origin.world else {}
    found = [{**about, **row} for row in _found(replay, name)]
    phases.done(replay.at_ - begun, "sessions")
    return found


def _replay(job: Job, here: World, name: str) -> Replay:
    pops = POPS if job.config["pops"] == "local" else 1
    importable([name])
    engine = job.config.get("engine", GRID)
    made: dict[str, Any] = {"engine": engine, "damage": _bound(job.config.get("damage", ""), here)}
    if "budget" in job.config:
        # A replay that an older version began has none.
        made["budget"] = job.config["budget"]
    managers = [here.policy(name, manager, **made) for manager in range(pops)]
    how: dict[str, Any] = {key: job.config[key] for key in ("interval_s", "delay_s", "batch")}
    how |= {"pop": pops_of(here.sessions, pops), "noise": here.spread, "reports": here.reports}
    return Replay(here.sessions, here.tensor, managers, here.noise(), **how)


def _bound(text: str, here: World) -> DamageBound | None:
    """The bound on damage that is meant; None where the tensor knows none and none is asked for. Errors: `BadInput`."""
    bound = bound_of(text) if text else BOUND
    if bound is None or (not text and here.tensor.damage is None):
        return None
    return damage_bound(here.tensor, here.tensor.grid, bound)


def _run(replay: Replay, name: str, keep: Callable[[str], None], stopping: Callable[[], bool]) -> None:
    total = len(replay.sessions)
    pace, kept, wait = Pace(f"replay {name}", "sessions", total, replay.at_), time.monotonic(), KEEP_S
    step = min(STEP, FIRST_STEP)
    while replay.at_ < total:
        looked = time.monotonic()
        replay.run(replay.at_ + step)
        step = max(step // 2, 1) if time.monotonic() - looked > LOOK_S else min(2 * step, STEP)
        if replay.at_ < total:
            pace(replay.at_)
        if stopping() and replay.at_ < total:
            raise Stop(replay.save())
        began = time.monotonic()
        if began - kept >= wait and replay.at_ < total:
            keep(replay.save())
            kept = time.monotonic()
            wait = max(KEEP_S, PRICE * (kept - began))


def _found(replay: Replay, name: str) -> Iterator[dict[str, Any]]:
    total = replay.at_
    spans = {f"first {FIRST}": slice(0, FIRST), "all": slice(0, total), "last half": slice(total // 2, total)}
    for span, rows in spans.items():
        if span == "all" or total >= 2 * FIRST:
            found = {**_form(fared(replay, rows)), **_damage(replay, rows)}
            yield {"policy": name, "span": span, "updates": replay.updates_, **found}


def _damage(replay: Replay, rows: slice) -> dict[str, Json]:
    """Mean bytes that neighbours lost for each byte of a page, over sessions of which that was measured; or nothing."""
    if replay.tensor.damage is None:
        return {}
    here = (replay.sessions.condition[rows], replay.decisions_.configuration[rows], replay.sessions.seen.site[rows])
    lost = replay.tensor.damage[here].astype(np.float64)
    told = ~np.isnan(lost)
    return {"damage": rounded(float(lost[told].mean())) if told.any() else None}


def _form(found: Fared) -> dict[str, Any]:
    numbers = {key: _measured(getattr(found, key)) for key in ("median", "p95", "excess_ms", "worse", "gain")}
    return {"sessions": found.sessions, **numbers, "arms": {arm: rounded(share) for arm, share in found.arms}}


def _measured(one: Measured) -> dict[str, Json]:
    numbers = (rounded(number) if isfinite(number) else None for number in astuple(one))
    return dict(zip(("value", "low", "high"), numbers, strict=True))


def tell(found: list[Any], form: str, output_file: str) -> None:
    """The table: a row a policy and span; JSON Lines have intervals as objects."""
    rows = [row for part in found for row in part]
    if form == "jsonl":
        write(form, output_file, SIMULATION_COLUMNS, [{"kind": "replay", **row} for row in rows])
        return
    columns = ("world", *SIMULATION_COLUMNS) if any("world" in row for row in rows) else SIMULATION_COLUMNS
    columns = (*columns, "damage") if any("damage" in row for row in rows) else columns
    write(form, output_file, columns, [_plain(row) for row in rows])


def _plain(row: dict[str, Any]) -> dict[str, Json]:
    return {key: _text(value) if isinstance(value, dict) and "low" in value else value for key, value in row.items()}


def _text(one: dict[str, Any]) -> str:
    if one["low"] is None:
        return f"{one['value']:.4g}"
    return f"{one['value']:.4g} [{one['low']:.4g}, {one['high']:.4g}]"


def _log(replay: Replay, about: dict[str, Json]) -> None:
    """Outcomes, as a manager would have kept them. What a kill left of this log before goes first."""
    from configtron.db.outcomes import BATCH, Outcomes
    from configtron.learner.logged import Logged
    from configtron.model.records import canonical

    policy = replay.managers[0]
    at_ns = (replay.sessions.at_s * 1e9).astype(np.int64)
    number, decisions = np.zeros(len(at_ns), dtype=np.int64), replay.decisions_
    if len(replay.managers) > 1:
        # Each manager names classes for itself; together the names would mean nothing.
        decisions = replace(decisions, network=number - 1)
    with Outcomes(settings().db) as store:
        store.drop_logs(canonical(about))
        log = store.begin_log("sim", canonical(about))
        names = policy.grid.profiles, policy.class_ids_
        whole = Logged(number, replay.sessions.seen, decisions, replay.plt_ms_, at_ns, *names)
        for at in range(0, len(whole), BATCH):
            store.add(log, whole[at : at + BATCH])
    say(f"log {log}: {len(whole)} outcomes")
