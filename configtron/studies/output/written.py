# SPDX-License-Identifier: MIT
"""Results of studies in files: in the form that is asked for, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from configtron.report.files import opened
from configtron.report.rows import emit
from configtron.studies.output import claims_page, result_lines, worlds_page
from configtron.studies.output.results import Evaluated
from configtron.studies.registry import sessions_run
from configtron.studies.sim.session_job import JobResult

WRITERS = {"jsonl": result_lines.write_jsonl, "csv": result_lines.write_csv, "table": result_lines.write_table}
# Of a JSON line of studies of simulated sessions.
SCHEMA = "configtron.learning/1"


def to_folder(form: str, output_file: str) -> bool:
    """Return whether claims go to a folder, a file a table: CSV, and the folder exists."""
    return form == "csv" and Path(output_file).is_dir()


def write_claims(found: Sequence[Evaluated], form: str, output_file: str) -> list[Path]:
    """Write claims to a file, - for stdout, or to a folder; return the files in that. Errors: `BadInput`."""
    if to_folder(form, output_file):
        return result_lines.write_folder(found, Path(output_file))
    with opened(output_file) as out:
        WRITERS[form](found, out)
    return []


def write_claims_page(found: Sequence[Evaluated], html: Path, command: str) -> None:
    """Write claims as a page; command: what made it."""
    html.write_text(claims_page.page(found, command), encoding="utf-8")


def write_numbers(done: JobResult, form: str, output_file: str, html: str | Path | None) -> None:
    """Write the numbers of a job: curves are in JSON Lines, in CSV and on the page, not in the table."""
    found = sessions_run.summaries(done)
    rows = sessions_run.rows(found, curves=form != "table")
    with opened(output_file) as out:
        emit(form, sessions_run.STUDY_COLUMNS, rows, out, schema=SCHEMA)
    if html:
        with opened(str(html)) as out:
            out.write(worlds_page.page(found, sessions_run.described(done.job)))
