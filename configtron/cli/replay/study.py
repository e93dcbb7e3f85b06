# SPDX-License-Identifier: MIT
"""`configtron replay study`: progress on stderr, the answer in the form that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.options import check_alone
from configtron.cli.output import LEARNING, event_lines, say, write_rows
from configtron.cli.replay import study_flags as flags
from configtron.cli.settings import settings
from configtron.linux.signals import stop_signals, terminated
from configtron.model.choices import SESSIONS
from configtron.model.errors import DONE, INTERRUPTED, BadInput
from configtron.report.files import can_be_written

STUDY_LIST_COLUMNS = ("study", "needs", "paper", "about", "duration")


@click.command(cls=LongCommand, advanced=flags.ADVANCED)
@flags.study_options
def study(names: tuple[str, ...], listed: bool, every: tuple[str, ...], resume: str | None, **given: Any) -> int:
    """Run studies of the papers' evaluations: the paper's figure beside ours.

    `--list` shows all studies: those that read a tensor, those that boot guests in the lab (as root), and those of
    simulated sessions. A study that is interrupted, by kill -9 too, resumes: of the lab by the same command, of
    simulated sessions by --resume. The same seed gives the same bytes. docs/studies.md explains verdicts and exit
    codes.
    """
    if listed:
        check_alone(flags.OF_LIST, "--list runs no study")
        return _write_list(given["form"], given["output_file"])
    if resume is not None:
        check_alone(flags.OF_RESUME, "--resume continues with the options that the job began with")
        return _sessions_study((), resume, given)
    if not names and not every:
        raise BadInput("name a study: configtron replay study --list shows them")
    from configtron.studies.registry.catalogue import chosen

    found, sessions = chosen(names, every)
    needs = f"{found[0]} needs {SESSIONS if sessions else 'no simulated sessions'}"
    check_alone(flags.OF_SESSIONS if sessions else flags.OF_CLAIMS, needs)
    return _sessions_study(found, "", given) if sessions else _claims_study(found, given)


def _write_list(form: str, output_file: str) -> int:
    from configtron.studies.registry import listing

    paper = listing.spelt_out if form == "table" else str
    rows = [{"kind": "study", **row, "paper": paper(row["paper"])} for row in listing.listed()]
    write_rows(form, output_file, STUDY_LIST_COLUMNS, rows, LEARNING)
    return DONE


def _claims_study(names: Sequence[str], given: dict[str, Any]) -> int:
    from configtron.studies.output import written
    from configtron.studies.output.steps import PartsDisplay
    from configtron.studies.registry import claims_run

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


def _sessions_study(names: Sequence[str], resume: str, given: dict[str, Any]) -> int:
    can_be_written(given["html"], given["output_file"])
    from configtron.studies.output import written
    from configtron.studies.registry import sessions_run

    job = sessions_run.job_of(names, sessions_run.options_of(**given), say) if names else None
    with stop_signals(say) as stopping:
        done = sessions_run.run(settings().db, job, resume, event_lines(closing=False), stopping)
    if done.cancelled:
        return INTERRUPTED
    written.write_numbers(done, given["form"], given["output_file"], given["html"])
    return DONE
