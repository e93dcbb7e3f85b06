# SPDX-License-Identifier: MIT
"""Replay policies on simulated sessions, one part a policy: run in steps, its state stored now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from configtron.db.outcomes import BATCH, Outcomes
from configtron.learner import ENGINES, GRID, PREFERRED, row_of, untaken
from configtron.learner.damage import BOUND, DamageBound, bound_of, damage_bound
from configtron.learner.imported import is_imported
from configtron.learner.logged import Logged
from configtron.model.bounds import check_choice, check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.records import Json, canonical, rounded
from configtron.model.wording import count_of
from configtron.service.learning.importable import importable
from configtron.service.progress import Cancelled, Event, Progress, StepProgress, never, unheard
from configtron.studies.sim.loop import Replay
from configtron.studies.sim.metrics import Measured, ReplayMetrics, measure
from configtron.studies.sim.origin import NONE, Origin, hashed, made, origin_of
from configtron.studies.sim.phases import JobPhases
from configtron.studies.sim.session_job import Job, JobResult, PartContext, StopRequested, run_job
from configtron.studies.sim.world import POPS, World, pops_of

KIND = "simulate"
# Sessions of the first row of a report.
FIRST = 1000
# Most sessions between two checks of the clock and of cancellation.
STEP = 20_000
# The distortion (`configtron/studies/sim/distortions.py`) of a warm start.
THINS_WARM = "missing-cells"
# What numbers of `SessionOptions` may be: at least, at most, and whether they are whole.
RANGES = {
    "count": (0, inf, True), "seed": (0, inf, True), "classes": (1, inf, True), "batch": (1, STEP, True),
    "interval_s": (0.001, inf, False), "delay_s": (0, inf, False), "per_s": (0.001, inf, False),
    "rtt_ms": (0.1, inf, False), "loss": (0, 1, False), "budget": (0, 1, False),
}  # fmt: skip


class ReplayPace(NamedTuple):
    """How often a replay checks for cancellation and keeps its state.

    step        sessions between two checks, at most
    first_step  sessions before the first check
    look_s      seconds: the step is halved where it took longer, and doubled where it did not
    keep_s      seconds between two kept states, at least: a state of many sessions is megabytes
    price       and so many times as long as keeping the last one took, so that it costs a twentieth at most
    clock       seconds, from any beginning
    """

    step: int = STEP
    first_step: int = 1000
    look_s: float = 0.25
    keep_s: float = 15.0
    price: float = 20.0
    clock: Callable[[], float] = time.monotonic


PACE = ReplayPace()


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of a replay of sessions.

    policies    names of `learner.POLICIES`, or package.module:Class; empty: the preferred one
    source      networks of sessions: a shape's name, or a file
    tensor      page load times: a file, or an analytic tensor's name
    worlds      files of worlds instead of `tensor`; each is a row
    warm        an emulated tensor to start from: a file, mis-specified, or none
    count       sessions; 0: as many as a world's file has
    interval_s  seconds of the sessions' clock between two updates
    delay_s     from a page load's end until it can be learned from
    per_s       drawn sessions a second
    pops        global: one manager; local: one for each of five PoPs
    batch       decisions at once; the result is the same bits whatever it is
    damage      bound on bytes that neighbours lose for each byte of a page; "": the default where it was measured
    keep_log    keep outcomes in the database
    """

    policies: tuple[str, ...] = ()
    engine: str = GRID
    source: str = "spread"
    tensor: str = "analytic"
    worlds: tuple[str, ...] = ()
    warm: str = NONE
    count: int = 60_000
    seed: int = 1
    classes: int = 20
    interval_s: float = 120.0
    delay_s: float = 5.0
    per_s: float = 10.0
    pops: str = "global"
    batch: int = STEP
    rtt_ms: float = 80.0
    loss: float = 0.0
    distort: tuple[str, ...] = ()
    damage: str = ""
    budget: float = 0.01
    keep_log: bool = False

    def __post_init__(self) -> None:
        """Check texts and ranges, as `replay sessions` does. Errors: `BadInput`."""
        check_texts(self)
        for name, (least, most, whole) in RANGES.items():
            check_number(name, getattr(self, name), least, most, whole=whole)
        check_choice("pops", self.pops, ("global", "local"))


def replay_sessions(
    options: SessionOptions, db: Path, *, progress: Progress = unheard, cancelled: Cancelled = never
) -> JobResult:
    """Replay policies on sessions. The result has a list of rows for each part (a world and a policy). A cancelled
    replay is resumed by `resume_sessions`. Errors: `BadInput`."""
    return run_job(db, job_of(options, progress), "", {KIND: part}, progress, cancelled)


def resume_sessions(
    db: Path, number: str = "last", *, progress: Progress = unheard, cancelled: Cancelled = never
) -> JobResult:
    """Resume a replay of sessions that was cancelled. Errors: `BadInput`."""
    return run_job(db, None, number, {KIND: part}, progress, cancelled)


def job_of(options: SessionOptions, progress: Progress = unheard) -> Job:
    """Return the job of these options, once its worlds and policies can be made. Errors: `BadInput`."""
    policies = list(options.policies) or [PREFERRED]
    importable(policies)
    for name in policies:
        row_of(name)
    if THINS_WARM in options.distort and options.warm == NONE:
        raise BadInput(f"--distort {THINS_WARM} thins the warm start, and there is none: name one with --warm")
    for what, given, unsaid in (("warm", options.warm, NONE), ("engine", options.engine, GRID)):
        if given != unsaid and (why := untaken(policies, what)):
            raise BadInput(why)
    if options.engine not in ENGINES:
        raise BadInput(f"no engine is called {options.engine!r}; there is: {', '.join(ENGINES)}")
    origins = origins_of(options)
    # Everything wrong with it is reported now; how many sessions there are makes no difference to that.
    for origin in origins:
        small = made(replace(origin, sessions=1), lambda text: progress(Event(0, 0, text)))
        # So is what an extra or a class of one's own lacks.
        for name in policies:
            if is_imported(name) or options.engine != GRID:
                small.policy(name, engine=options.engine)
        _bound(options.damage, small)
    names = ("engine", "interval_s", "delay_s", "pops", "batch", "keep_log", "damage", "budget")
    how = {key: getattr(options, key) for key in names}
    config = {"origins": [origin.form() for origin in origins], "policies": policies, **how}
    return Job(KIND, config, len(origins) * len(policies))


def origins_of(options: SessionOptions) -> list[Origin]:
    """Return the world of these options, or each world's file that they name."""
    found = []
    for world in options.worlds or ("",):
        names = (options.source, options.tensor, options.warm)
        numbers: dict[str, Any] = {
            key: getattr(options, key) for key in ("seed", "classes", "per_s", "rtt_ms", "loss", "distort")
        }
        found.append(Origin(*names, options.count, **numbers, world=world, files=hashed((*names, world))))
    return found


def part(job: Job, position: int, state: str, context: PartContext, pace: ReplayPace = PACE) -> list[dict[str, Any]]:
    """Return the rows of one policy's pass over the sessions. Errors: `StopRequested`."""
    # Replays that were begun before worlds had files have one origin.
    origins, policies = job.config.get("origins") or [job.config["origin"]], job.config["policies"]
    origin, name = origin_of(origins[position // len(policies)]), policies[position % len(policies)]
    phases = JobPhases(f"replay {name}", context.say)
    phases("making the world")
    here = made(origin, context.say)
    phases("making the policy")
    replay = _replay(job, here, name)
    if state:
        replay.restore(state)
    phases("playing sessions")
    begun = replay.at_
    _run(replay, name, context, pace)
    if job.config["keep_log"]:
        phases("keeping outcomes")
        _log(replay, context, {"replay": job.number, "policy": name, **origin.form()})
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


def _run(replay: Replay, name: str, context: PartContext, pace: ReplayPace) -> None:
    total, clock = len(replay.sessions), pace.clock
    kept, wait = clock(), pace.keep_s
    _report(replay, name, context)
    step = min(pace.step, pace.first_step)
    while replay.at_ < total:
        looked = clock()
        replay.run(replay.at_ + step)
        step = max(step // 2, 1) if clock() - looked > pace.look_s else min(2 * step, pace.step)
        if replay.at_ < total:
            _report(replay, name, context)
        if context.stopping() and replay.at_ < total:
            raise StopRequested(replay.save())
        began = clock()
        if began - kept >= wait and replay.at_ < total:
            context.keep(replay.save())
            kept = clock()
            wait = max(pace.keep_s, pace.price * (kept - began))


def _report(replay: Replay, name: str, context: PartContext) -> None:
    context.progress(StepProgress(replay.at_, len(replay.sessions), f"replay {name}", "sessions"))


def _found(replay: Replay, name: str) -> Iterator[dict[str, Any]]:
    total = replay.at_
    spans = {f"first {FIRST}": slice(0, FIRST), "all": slice(0, total), "last half": slice(total // 2, total)}
    for span, rows in spans.items():
        if span == "all" or total >= 2 * FIRST:
            found = {**_form(measure(replay, rows)), **_damage(replay, rows)}
            yield {"policy": name, "span": span, "updates": replay.updates_, **found}


def _damage(replay: Replay, rows: slice) -> dict[str, Json]:
    """Mean bytes that neighbours lost for each byte of a page, over sessions of which that was measured; or nothing."""
    if replay.tensor.damage is None:
        return {}
    here = (replay.sessions.condition[rows], replay.decisions_.configuration[rows], replay.sessions.seen.site[rows])
    lost = replay.tensor.damage[here].astype(np.float64)
    known = ~np.isnan(lost)
    return {"damage": rounded(float(lost[known].mean())) if known.any() else None}


def _form(found: ReplayMetrics) -> dict[str, Any]:
    numbers = {key: _measured(getattr(found, key)) for key in ("median", "p95", "excess_ms", "worse", "gain")}
    return {"sessions": found.sessions, **numbers, "arms": {arm: rounded(share) for arm, share in found.arms}}


def _measured(one: Measured) -> dict[str, Json]:
    numbers = (rounded(number) if isfinite(number) else None for number in astuple(one))
    return dict(zip(("value", "low", "high"), numbers, strict=True))


def _log(replay: Replay, context: PartContext, about: dict[str, Json]) -> None:
    """Store outcomes as a manager would. What a killed replay left of this log is dropped first."""
    policy = replay.managers[0]
    at_ns = (replay.sessions.at_s * 1e9).astype(np.int64)
    number, decisions = np.zeros(len(at_ns), dtype=np.int64), replay.decisions_
    if len(replay.managers) > 1:
        # Each manager names classes for itself; together the names would mean nothing.
        decisions = replace(decisions, network=number - 1)
    with Outcomes(context.db) as store:
        store.drop_logs(canonical(about))
        log = store.begin_log("sim", canonical(about))
        names = policy.grid.profiles, policy.class_ids_
        whole = Logged(number, replay.sessions.seen, decisions, replay.plt_ms_, at_ns, *names)
        for at in range(0, len(whole), BATCH):
            store.add(log, whole[at : at + BATCH])
    context.say(f"log {log}: {count_of(len(whole), 'outcome')}")
