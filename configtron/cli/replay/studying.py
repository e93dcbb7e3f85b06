# SPDX-License-Identifier: MIT
"""Studies of the paper's evaluation, one part a world; told as a table, CSV, JSON Lines, and one page with plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from configtron.cli.output import LEARNING, say, write_rows
from configtron.learner.sim.world import ANALYTIC
from configtron.model.errors import BadInput
from configtron.model.records import rounded
from configtron.service.replay.origin import Say, check_unchanged, hashed, tensor_of_file
from configtron.service.replay.session_job import Job, PartContext, StopRequested
from configtron.studies.simulated import STUDIES
from configtron.studies.simulated.ground import Ground
from configtron.studies.simulated.points import Point, Summary, summed

if TYPE_CHECKING:
    from configtron.model.records import Json

KIND = "study"
EVERY = "all"
STUDY_COLUMNS = ("study", "row", "column", "x", "value", "low", "high", "worlds", "paper")
LISTED = ("study", "paper", "about", "claim")


def write_list(form: str, output_file: str) -> None:
    """The studies there are."""
    rows: list[dict[str, Json]] = [
        {
            "kind": "study",
            "study": one.name,
            "paper": one.paper,
            "about": one.title,
            "claim": one.claim,
            "differs": one.differs,
        }
        for one in STUDIES.values()
    ]
    write_rows(form, output_file, LISTED, rows, LEARNING)


def job(names: tuple[str, ...], given: dict[str, Any]) -> Job:
    """The job of these studies: for each a world of every label and seed. Errors: `BadInput`."""
    chosen = list(STUDIES) if EVERY in names else list(dict.fromkeys(names))
    if strange := [name for name in chosen if name not in STUDIES]:
        raise BadInput(f"no study is called {strange[0]!r}; there is: {', '.join((*STUDIES, EVERY))}")
    seeds = range(given["seed"], given["seed"] + given["seeds"])
    files = hashed([given["tensor"]])
    under = ground(given["tensor"], files, say)
    parts = [
        (name, label, seed)
        for name in chosen
        for label in under.labels(STUDIES[name].labels)
        for seed in (seeds[:1] if STUDIES[name].tensor_alone and under.brought is not None else seeds)
    ]
    how = {"sessions": given["count"], "seeds": list(seeds), "tensor": given["tensor"], "files": dict(files)}
    return Job(KIND, {"parts": parts, **how}, len(parts))


def ground(tensor: str, files: tuple[tuple[str, str], ...], say: Say) -> Ground:
    """Return the tensors that studies stand on. Errors: `BadInput` for a file that cannot be read, or has changed."""
    check_unchanged(files)
    return Ground(tensor) if tensor in ANALYTIC else Ground(brought=tensor_of_file(tensor, say))


def part(job: Job, position: int, state: str, context: PartContext) -> list[tuple[Any, ...]]:
    """Return the points of one world of one study; begun anew if it was interrupted. Errors: `StopRequested`."""
    del state
    if context.stopping():
        raise StopRequested("")
    name, label, seed = job.config["parts"][position]
    study = STUDIES[name]
    context.say(f"study {name}{f' {label}' if label else ''}, seed {seed}: part {position + 1} of {job.parts}")
    under = ground(job.config["tensor"], tuple(job.config["files"].items()), context.say)
    sessions = min(job.config["sessions"] or study.sessions, study.sessions)
    return [tuple(point) for point in study.points(label, seed, sessions, under)]


def tell(job: Job, found: list[Any], form: str, output_file: str, html: str | None) -> None:
    """All studies' numbers; curves are in JSON Lines, in CSV and on the page, not in the table."""
    whole = _summaries(job, found)
    rows = [_row(name, one) for name, every in whole.items() for one in every if form != "table" or one.x is None]
    write_rows(form, output_file, STUDY_COLUMNS, rows, LEARNING)
    if html:
        from configtron.report.files import opened
        from configtron.studies.output.worlds_page import page

        with opened(html) as out:
            out.write(page([(STUDIES[name], every) for name, every in whole.items()], _told(job), _brought(job)))


def _summaries(job: Job, found: list[Any]) -> dict[str, list[Summary]]:
    worlds: dict[str, list[list[Point]]] = {}
    for (name, _, _), points in zip(job.config["parts"], found, strict=True):
        worlds.setdefault(name, []).append([Point(*point) for point in points])
    return {name: summed(STUDIES[name], every) for name, every in worlds.items()}


def _row(name: str, one: Summary) -> dict[str, Json]:
    numbers = (one.measured.value, one.measured.low, one.measured.high)
    value, low, high = map(rounded, numbers)
    return {
        "kind": "number" if one.x is None else "curve", "study": name, "row": one.row, "column": one.column,
        "x": rounded(one.x), "value": value, "low": low, "high": high, "worlds": one.worlds, "paper": one.paper,
    }  # fmt: skip


def _brought(job: Job) -> bool:
    return bool(job.config["files"])


def _told(job: Job) -> str:
    seeds = ", ".join(map(str, job.config["seeds"]))
    count = job.config["sessions"]
    sessions = f"{count} sessions a world, or fewer where a study has fewer" if count else "sessions as each study says"
    tensor = job.config["tensor"]
    return f"Tensor: {tensor}; seeds {seeds}; {sessions}."
