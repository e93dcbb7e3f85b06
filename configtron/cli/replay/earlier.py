# SPDX-License-Identifier: MIT
"""Earlier spellings of `replay study`: `tune evaluate` and `replay sessions --study`. Hidden, with the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.replay.study_flags import evaluate_options
from configtron.model.errors import DONE

if TYPE_CHECKING:
    from configtron.studies.sim.session_job import Job, JobResult, PartContext

LIST = "list"
# The kind of a job of studies, as `configtron/studies/registry/sessions_run.py`.
KIND = "study"


def _moved(was: str, names: tuple[str, ...]) -> None:
    say(f"`configtron {was}` is now `configtron replay study {' '.join(names)}`")


@click.command(hidden=True, short_help="The earlier spelling of `replay study`.")
@evaluate_options
def evaluate(names: tuple[str, ...], **given: Any) -> int:
    """Run studies as `configtron replay study` does, whose earlier spelling this is."""
    from configtron.studies.registry import earlier_names

    chosen = earlier_names.evaluated(names)
    _moved("tune evaluate", chosen)
    from configtron.cli.replay.study_report import claims_study

    return claims_study(chosen, given)


def sessions_study(names: tuple[str, ...], given: dict[str, Any]) -> int:
    """Run or list studies of simulated sessions by `replay sessions --study`; return the exit code.
    Errors: `BadInput`."""
    from configtron.studies.registry import earlier_names

    if LIST in names:
        _moved("replay sessions --study list", ("--list",))
        rows = earlier_names.listed()
        write_rows(given["form"], given["output_file"], earlier_names.EARLIER_LIST_COLUMNS, rows, LEARNING)
        return DONE
    chosen = earlier_names.simulated(names)
    _moved("replay sessions --study", chosen)
    from configtron.cli.replay import study_report

    return study_report.sessions_study(chosen, given)


def part(job: Job, position: int, state: str, context: PartContext) -> Any:
    """Perform a part of a job of studies that `replay sessions --resume` names. Errors: `StopRequested`."""
    from configtron.studies.registry import sessions_run

    return sessions_run.part(job, position, state, context)


def write_numbers(done: JobResult, given: dict[str, Any]) -> None:
    """Write the numbers of a job of studies."""
    from configtron.studies.output import written

    written.write_numbers(done, given["form"], given["output_file"], given["html"])
