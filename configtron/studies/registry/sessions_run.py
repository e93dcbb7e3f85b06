# SPDX-License-Identifier: MIT
"""Run studies of simulated sessions from Python: a job of worlds, each stored when it is done, so that it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configtron.model.records import Json, rounded
from configtron.service.progress import Cancelled, Progress
from configtron.service.shipped_tensors import shipped_names
from configtron.studies.registry.catalogue import sessions_study_of
from configtron.studies.sim.origin import Say, check_unchanged, hashed, tensor_of_file
from configtron.studies.sim.session_job import Job, JobResult, PartContext, StopRequested, run_job
from configtron.studies.sim.world import ANALYTIC
from configtron.studies.simulated.points import Point, StudyNumbers, Summary, summed
from configtron.studies.simulated.tensor_source import TensorSource

# The kind of these jobs in the database.
KIND = "study"
STUDY_COLUMNS = ("study", "tensor", "row", "column", "x", "value", "low", "high", "worlds", "paper")
# The tensor of a formula, which the paper's figures are set beside.
FORMULA = "analytic"
# The smallest run that shows something: sessions of a world, worlds, tensors.
SMOKE_SESSIONS, SMOKE_SEEDS, SMOKE_TENSORS = 400, 2, (FORMULA,)


def every_tensor() -> tuple[str, ...]:
    """Return the tensors that a study runs on unless others are named: the formula's and all that were measured."""
    return (FORMULA, *shipped_names())


@dataclass(frozen=True)
class SessionsOptions:
    """tensors: `analytic`, `idiosyncratic`, names of shipped tensors, PLT-tensors' files; count: sessions of a world,
    at most the study's own, which it has where None; seeds: worlds that intervals are taken over, from `seed` on."""

    tensors: tuple[str, ...] = field(default_factory=every_tensor)
    count: int | None = None
    seed: int = 1
    seeds: int = 3


def options_of(
    tensor: str | None, count: int | None, seed: int, seeds: int | None, smoke: bool = False, **_: Any
) -> SessionsOptions:
    """Return the options of the smallest run, or of the usual one, where none are named."""
    tensors = (tensor,) if tensor is not None else SMOKE_TENSORS if smoke else every_tensor()
    if smoke:
        count, seeds = count or SMOKE_SESSIONS, seeds or SMOKE_SEEDS
    return SessionsOptions(tensors, count, seed, seeds or SessionsOptions.seeds)


def job_of(names: Sequence[str], options: SessionsOptions, say: Say) -> Job:
    """Return the job of these studies: for each a world of every tensor, label and seed. Errors: `BadInput`."""
    studies = [sessions_study_of(name) for name in dict.fromkeys(names)]
    seeds = range(options.seed, options.seed + options.seeds)
    files = hashed(options.tensors)
    under = {name: tensor_source(name, files, say) for name in options.tensors}
    parts = [
        (study.name, label, seed, name)
        for study in studies
        for name, source in under.items()
        for label in source.labels(study.labels)
        for seed in (seeds[:1] if study.tensor_alone and source.brought is not None else seeds)
    ]
    how = {"sessions": options.count, "seeds": list(seeds), "tensors": list(options.tensors), "files": dict(files)}
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
    name, label, seed, tensor = _parts(job)[position]
    study = sessions_study_of(name)
    where = f"{tensor}{f' {label}' if label else ''}"
    context.say(f"study {name} on {where}, seed {seed}: part {position + 1} of {job.parts}")
    under = tensor_source(tensor, tuple(job.config["files"].items()), context.say)
    sessions = min(job.config["sessions"] or study.sessions, study.sessions)
    return [tuple(point) for point in study.points(label, seed, sessions, under)]


def _parts(job: Job) -> list[tuple[str, str, int, str]]:
    """Return study, label, seed and tensor of each part. Until November 24, 2026, a job had one tensor."""
    only = (job.config["tensor"],) if "tensor" in job.config else ()
    return [(*words, *only) for words in job.config["parts"]]


def summaries(result: JobResult) -> list[StudyNumbers]:
    """Return each study of a job that is done, with its numbers over the worlds of each tensor."""
    worlds: dict[tuple[str, str], list[list[Point]]] = {}
    for (name, _, _, tensor), points in zip(_parts(result.job), result.found, strict=True):
        worlds.setdefault((name, tensor), []).append([Point(*point) for point in points])
    studies = {name: sessions_study_of(name) for name, _ in worlds}
    return [
        StudyNumbers(studies[name], tensor, tensor in ANALYTIC, summed(studies[name], found))
        for (name, tensor), found in worlds.items()
    ]


def rows(found: Sequence[StudyNumbers], *, curves: bool = True) -> list[dict[str, Json]]:
    """Return a row a number; `curves`: those of curves too, which have an x."""
    return [_row(numbers, one) for numbers in found for one in numbers.found if curves or one.x is None]


def _row(numbers: StudyNumbers, one: Summary) -> dict[str, Json]:
    value, low, high = map(rounded, (one.measured.value, one.measured.low, one.measured.high))
    return {
        "kind": "number" if one.x is None else "curve", "study": numbers.study.name, "tensor": numbers.tensor,
        "row": one.row, "column": one.column, "x": rounded(one.x), "value": value, "low": low, "high": high,
        "worlds": one.worlds, "paper": one.paper,
    }  # fmt: skip


def described(job: Job) -> str:
    """Return which worlds a job has, one line."""
    seeds = ", ".join(map(str, job.config["seeds"]))
    count = job.config["sessions"]
    sessions = f"{count} sessions a world, or fewer where a study has fewer" if count else "sessions as each study says"
    tensors = list(dict.fromkeys(tensor for *_, tensor in _parts(job)))
    return f"Tensor{'s' * (len(tensors) > 1)}: {', '.join(tensors)}; seeds {seeds}; {sessions}."
