# SPDX-License-Identifier: MIT
"""Earlier spellings of `replay study`: `tune evaluate` and `replay sessions --study`. Hidden, with the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.replay.study_flags import evaluate_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.replay.session_job import Job, JobResult, PartContext

ALL, LIST = "all", "list"
# The kind of a job of studies, as `studies/registry/sessions_run.py`.
KIND = "study"
# The names under which `tune evaluate` knew its studies -> theirs.
EVALUATED = {
    "hotcloud": "hotcloud", "pantheon": "pantheon", "calibration": "calibration", "fairness": "fairness",
    "lessons": "lessons", "realism": "heterogeneity",
}  # fmt: skip
# The studies of `replay sessions --study all`, in its order.
SIMULATED = (
    "gains", "convergence", "arms", "managers", "updates", "features", "knobs", "starts", "explored", "trees", "drift",
    "classes", "realism",
)  # fmt: skip
OF_LIST = ("study", "paper", "about", "claim")


def _moved(was: str, names: tuple[str, ...]) -> None:
    say(f"`configtron {was}` is now `configtron replay study {' '.join(names)}`")


@click.command(hidden=True, short_help="The earlier spelling of `replay study`.")
@evaluate_options
def evaluate(names: tuple[str, ...], **given: Any) -> int:
    """Run studies as `configtron replay study` does, whose earlier spelling this is."""
    if not names:
        raise BadInput(f"--study is wanted: {', '.join(EVALUATED)}, or {ALL}")
    if strange := [name for name in names if name not in (*EVALUATED, ALL)]:
        raise BadInput(f"no study is called {strange[0]!r}; there is: {', '.join(EVALUATED)}, or {ALL}")
    chosen = tuple(EVALUATED.values() if ALL in names else dict.fromkeys(EVALUATED[name] for name in names))
    _moved("tune evaluate", chosen)
    from configtron.cli.replay.study_report import claims_study

    return claims_study(chosen, given)


def sessions_study(names: tuple[str, ...], given: dict[str, Any], form: str, output_file: str, html: str | None) -> int:
    """Run studies of simulated sessions by `replay sessions --study`; return the exit code. Errors: `BadInput`."""
    chosen = SIMULATED if ALL in names else tuple(dict.fromkeys(names))
    if strange := [name for name in chosen if name not in SIMULATED]:
        raise BadInput(f"no study is called {strange[0]!r}; there is: {', '.join((*SIMULATED, ALL))}")
    _moved("replay sessions --study", chosen)
    from configtron.cli.replay.study_report import sessions_study as run

    return run(chosen, {**given, "form": form, "output_file": output_file, "html": html})


def write_list(form: str, output_file: str) -> int:
    """List the studies of simulated sessions as `replay sessions --study list` did; return the exit code."""
    from configtron.studies.registry.catalogue import sessions_study_of

    _moved("replay sessions --study list", ("--list",))
    found = [sessions_study_of(name) for name in SIMULATED]
    rows: list[dict[str, Json]] = [
        {"kind": "study", "study": one.name, "paper": one.paper, "about": one.title, "claim": one.claim,
         "differs": one.differs}
        for one in found
    ]  # fmt: skip
    write_rows(form, output_file, OF_LIST, rows, LEARNING)
    return DONE


def part(job: Job, position: int, state: str, context: PartContext) -> Any:
    """Perform a part of a job of studies that `replay sessions --resume` names. Errors: `StopRequested`."""
    from configtron.studies.registry import sessions_run

    return sessions_run.part(job, position, state, context)


def write_numbers(done: JobResult, form: str, output_file: str, html: str | None) -> None:
    """Write the numbers of a job of studies."""
    from configtron.cli.replay.study_report import write_numbers as write

    write(done, form, output_file, html)
