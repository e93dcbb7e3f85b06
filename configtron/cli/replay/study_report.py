# SPDX-License-Identifier: MIT
"""Studies as the command line runs them: progress on stderr, the answer in the form that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from configtron.cli.output import LEARNING, event_lines, say, write_rows
from configtron.cli.settings import settings
from configtron.linux.signals import stop_signals, terminated
from configtron.model.errors import DONE, INTERRUPTED
from configtron.report.files import can_be_written
from configtron.studies.output import written
from configtron.studies.output.steps import PartsDisplay
from configtron.studies.registry import catalogue, claims_run, sessions_run
from configtron.studies.sim.session_job import Job

STUDY_LIST_COLUMNS = ("study", "needs", "paper", "about", "duration")


def write_list(form: str, output_file: str) -> None:
    """List all studies."""
    paper = catalogue.spelt_out if form == "table" else str
    rows = [{"kind": "study", **row, "paper": paper(row["paper"])} for row in catalogue.listed()]
    write_rows(form, output_file, STUDY_LIST_COLUMNS, rows, LEARNING)


def claims_study(names: Sequence[str], given: dict[str, Any]) -> int:
    """Run these studies of claims and show them; return the exit code."""
    form, output_file, quiet = given["form"], given["output_file"], settings().loudness < 0
    can_be_written(given["html"], None if written.to_folder(form, output_file) else output_file)
    plain = (given["smoke"], given["seed"], given["jobs"], given["folder"])
    others = {name: given[name] for name in ("archive", "only", "site", "cluster") if given.get(name)}
    options = claims_run.ClaimsOptions(settings().db, given["tensor"], given["measurement"], *plain, **others)
    with terminated(), PartsDisplay(quiet=quiet, color=settings().color) as display:
        found = claims_run.evaluate(names, options, display, say)
    for path in written.write_claims(found, form, output_file):
        print(path, file=sys.stderr)
    if given["html"]:
        written.write_claims_page(found, given["html"], " ".join(("configtron", *sys.argv[1:])))
    return claims_run.exit_code(found, fail_on_absent=given["fail_on_absent"])


def sessions_study(names: Sequence[str], given: dict[str, Any]) -> int:
    """Run these studies of simulated sessions and show them; return the exit code."""
    can_be_written(given["html"], given["output_file"])
    job = sessions_run.job_of(names, sessions_run.options_of(**given), say)
    return run_sessions(job, "", given)


def run_sessions(job: Job | None, resume: str, given: dict[str, Any]) -> int:
    """Run a job, or resume one; return the exit code."""
    can_be_written(given["html"], given["output_file"])
    with stop_signals(say) as stopping:
        done = sessions_run.run(settings().db, job, resume, event_lines(closing=False), stopping)
    if done.cancelled:
        return INTERRUPTED
    written.write_numbers(done, given["form"], given["output_file"], given["html"])
    return DONE
