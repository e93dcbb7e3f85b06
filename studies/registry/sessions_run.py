# SPDX-License-Identifier: MIT
"""Run studies of simulated sessions from Python: a job of worlds, each stored when it is done, so that it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configtron.learner.sim.world import ANALYTIC
from configtron.model.records import Json, rounded
from configtron.service.progress import Cancelled, Progress
from configtron.service.replay.origin import Say, check_unchanged, hashed, tensor_of_file
from configtron.service.replay.session_job import Job, JobResult, PartContext, StopRequested, run_job
from configtron.studies.registry.catalogue import sessions_study_of
from configtron.studies.simulated.points import Point, SessionsStudy, Summary, summed
from configtron.studies.simulated.tensor_source import TensorSource

# The kind of these jobs in the database.
KIND = "study"
STUDY_COLUMNS = ("study", "row", "column", "x", "value", "low", "high", "worlds", "paper")
# The smallest run that shows something: sessions of a world, worlds.
SMOKE_SESSIONS, SMOKE_SEEDS = 400, 2


@dataclass(frozen=True)
class SessionsOptions:
    """tensor: `analytic`, `idiosyncratic`, or a PLT-tensor's file; count: sessions of a world, at most the study's own,
    which it has where None; seeds: worlds that intervals are taken over, from `seed` on."""

    tensor: str = "analytic"
    count: int | None = None
    seed: int = 1
    seeds: int = 3


def options_of(
    tensor: str | None, count: int | None, seed: int, seeds: int | None, smoke: bool = False, **_: Any
) -> SessionsOptions:
    """Return the options of the smallest run, or of the usual one, where none are named."""
    if smoke:
        count, seeds = count or SMOKE_SESSIONS, seeds or SMOKE_SEEDS
    default = SessionsOptions()
    return SessionsOptions(tensor or default.tensor, count, seed, seeds or default.seeds)


def job_of(names: Sequence[str], options: SessionsOptions, say: Say) -> Job:
    """Return the job of these studies: for each a world of every label and seed. Errors: `BadInput`."""
    studies = [sessions_study_of(name) for name in dict.fromkeys(names)]
    seeds = range(options.seed, options.seed + options.seeds)
    files = hashed([options.tensor])
    under = tensor_source(options.tensor, files, say)
    parts = [
        (study.name, label, seed)
        for study in studies
        for label in under.labels(study.labels)
        for seed in (seeds[:1] if study.tensor_alone and under.brought is not None else seeds)
    ]
    how = {"sessions": options.count, "seeds": list(seeds), "tensor": options.tensor, "files": dict(files)}
    return Job(KIND, {"parts": parts, **how}, len(parts))


def run(db: Path, job: Job | None, resume: str, progress: Progress, stopping: Cancelled) -> JobResult:
    """Begin a job, or resume the one that `resume` names where `job` is None. Errors: `BadInput`."""
    return run_job(db, job, resume, {KIND: part}, progress, stopping)


def tensor_source(tensor: str, files: tuple[tuple[str, str], ...], say: Say) -> TensorSource:
    """Return the tensors of the worlds. Errors: `BadInput` for a file that cannot be read, or has changed."""
    check_unchanged(files)
    return TensorSource(tensor) if tensor in ANALYTIC else TensorSource(brought=tensor_of_file(tensor, say))


def part(job: Job, position: int, state: str, context: PartContext) -> list[tuple[Any, ...]]:
    """Return the points of one world of one study; begun anew if it was interrupted. Errors: `StopRequested`."""
    del state
    if context.stopping():
        raise StopRequested("")
    name, label, seed = job.config["parts"][position]
    study = sessions_study_of(name)
    context.say(f"study {name}{f' {label}' if label else ''}, seed {seed}: part {position + 1} of {job.parts}")
    under = tensor_source(job.config["tensor"], tuple(job.config["files"].items()), context.say)
    sessions = min(job.config["sessions"] or study.sessions, study.sessions)
    return [tuple(point) for point in study.points(label, seed, sessions, under)]


def summaries(result: JobResult) -> list[tuple[SessionsStudy, list[Summary]]]:
    """Return each study of a job that is done, with its numbers over worlds."""
    worlds: dict[str, list[list[Point]]] = {}
    for (name, _, _), points in zip(result.job.config["parts"], result.found, strict=True):
        worlds.setdefault(name, []).append([Point(*point) for point in points])
    studies = {name: sessions_study_of(name) for name in worlds}
    return [(study, summed(study, worlds[name])) for name, study in studies.items()]


def rows(found: Sequence[tuple[SessionsStudy, Sequence[Summary]]], *, curves: bool = True) -> list[dict[str, Json]]:
    """Return a row a number; `curves`: those of curves too, which have an x."""
    return [_row(study.name, one) for study, every in found for one in every if curves or one.x is None]


def _row(name: str, one: Summary) -> dict[str, Json]:
    numbers = (one.measured.value, one.measured.low, one.measured.high)
    value, low, high = map(rounded, numbers)
    return {
        "kind": "number" if one.x is None else "curve", "study": name, "row": one.row, "column": one.column,
        "x": rounded(one.x), "value": value, "low": low, "high": high, "worlds": one.worlds, "paper": one.paper,
    }  # fmt: skip


def is_brought(job: Job) -> bool:
    """Return whether the job's worlds stand on a tensor's file."""
    return bool(job.config["files"])


def described(job: Job) -> str:
    """Return which worlds a job has, one line."""
    seeds = ", ".join(map(str, job.config["seeds"]))
    count = job.config["sessions"]
    sessions = f"{count} sessions a world, or fewer where a study has fewer" if count else "sessions as each study says"
    tensor = job.config["tensor"]
    return f"Tensor: {tensor}; seeds {seeds}; {sessions}."
