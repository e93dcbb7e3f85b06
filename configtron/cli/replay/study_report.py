# SPDX-License-Identifier: MIT
"""Studies as the command line shows them: progress on stderr, the answer in the form that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from configtron.cli.output import LEARNING, event_lines, say, write_rows
from configtron.cli.settings import settings
from configtron.linux.signals import stop_signals, terminated
from configtron.model.errors import DONE, INTERRUPTED, BadInput
from configtron.report.files import can_be_written, opened
from configtron.service.replay.session_job import Job, JobResult
from configtron.studies.output import result_lines
from configtron.studies.output.steps import Steps
from configtron.studies.registry import catalogue, claims_run, sessions_run
from configtron.studies.registry.kinds import SESSIONS, PartsProgress

WRITERS = {"jsonl": result_lines.write_jsonl, "csv": result_lines.write_csv, "table": result_lines.write_table}
STUDY_LIST_COLUMNS = ("study", "needs", "paper", "about", "duration")


def write_list(form: str, output_file: str) -> int:
    """List all studies; return the exit code."""
    rows = [{"kind": "study", **row} for row in catalogue.listed()]
    write_rows(form, output_file, STUDY_LIST_COLUMNS, rows, LEARNING)
    return DONE


def chosen(names: Sequence[str], needs: Sequence[str]) -> tuple[list[str], bool]:
    """Return the names of the chosen studies, and whether they are of simulated sessions. Errors: `BadInput`."""
    found = list(dict.fromkeys((*names, *(one.name for one in (catalogue.every(needs) if needs else ())))))
    sessions = [catalogue.study_of(name).needs == SESSIONS for name in found]
    if len(set(sessions)) > 1:
        first, other = found[0], found[sessions.index(not sessions[0])]
        raise BadInput(f"{first} and {other} print different tables; run one command for each")
    return found, sessions[0]


class _PartsDisplay(ExitStack):
    """Show the progress of one study of claims after another."""

    def __call__(self, name: str, step: PartsProgress) -> None:
        if name != getattr(self, "_name", None):
            self.close()
            given = settings()
            self._name = name
            self._steps = self.enter_context(Steps(name, sys.stderr, quiet=given.loudness < 0, color=given.color))
        self._steps.update(step.done, step.parts, step.now)


def claims_study(names: Sequence[str], given: dict[str, Any]) -> int:
    """Run these studies of claims and show them; return the exit code."""
    to_folder = given["form"] == "csv" and Path(given["output_file"]).is_dir()
    can_be_written(given["html"], None if to_folder else given["output_file"])
    tensor = Path(given["tensor"]) if given["tensor"] else None
    plain = (given["smoke"], given["seed"], given["jobs"], given["folder"])
    options = claims_run.ClaimsOptions(settings().db, tensor, given["measurement"], *plain)
    with terminated(), _PartsDisplay() as display:
        found = claims_run.evaluate(names, options, display, _notice)
    if to_folder:
        for path in result_lines.write_folder(found, Path(given["output_file"])):
            print(path, file=sys.stderr)
    else:
        with opened(given["output_file"]) as out:
            WRITERS[given["form"]](found, out)
    if given["html"]:
        from configtron.studies.output.claims_page import page

        words = " ".join(("configtron", *sys.argv[1:]))
        given["html"].write_text(page(found, words), encoding="utf-8")
    return claims_run.exit_code(found, fail_on_absent=given["fail_on_absent"])


def _notice(text: str) -> None:
    if settings().loudness >= 0:
        print(text, file=sys.stderr)


def sessions_study(names: Sequence[str], given: dict[str, Any]) -> int:
    """Run these studies of simulated sessions and show them; return the exit code."""
    can_be_written(given["html"], given["output_file"])
    count, seeds = given["count"], given["seeds"]
    if given.get("smoke"):
        count, seeds = count or sessions_run.SMOKE_SESSIONS, seeds or sessions_run.SMOKE_SEEDS
    default = sessions_run.SessionsOptions()
    options = sessions_run.SessionsOptions(given["tensor"] or default.tensor, count, given["seed"],
                                           seeds or default.seeds)  # fmt: skip
    job = sessions_run.job_of(names, options, say)
    return run_sessions(job, "", given["form"], given["output_file"], given["html"])


def run_sessions(job: Job | None, resume: str, form: str, output_file: str, html: str | Path | None) -> int:
    """Run a job, or resume one; return the exit code."""
    can_be_written(html, output_file)
    with stop_signals(say) as stopping:
        done = sessions_run.run(settings().db, job, resume, event_lines(closing=False), stopping)
    if done.cancelled:
        return INTERRUPTED
    write_numbers(done, form, output_file, html)
    return DONE


def write_numbers(done: JobResult, form: str, output_file: str, html: str | Path | None) -> None:
    """Write the numbers of a job: curves are in JSON Lines, in CSV and on the page, not in the table."""
    found = sessions_run.summaries(done)
    rows = sessions_run.rows(found, curves=form != "table")
    write_rows(form, output_file, sessions_run.STUDY_COLUMNS, rows, LEARNING)
    if html:
        from configtron.studies.output.worlds_page import page

        with opened(str(html)) as out:
            out.write(page(found, sessions_run.described(done.job), sessions_run.is_brought(done.job)))
