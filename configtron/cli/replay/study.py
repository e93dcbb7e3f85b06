# SPDX-License-Identifier: MIT
"""`configtron replay study`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.options import check_alone
from configtron.cli.replay import study_flags as flags
from configtron.model.errors import DONE, BadInput


@click.command(
    cls=LongCommand, advanced=flags.ADVANCED, short_help="Run studies of the papers: their figures beside ours."
)
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
        from configtron.cli.replay.study_report import write_list

        write_list(given["form"], given["output_file"])
        return DONE
    from configtron.cli.replay import study_report
    from configtron.studies.registry.catalogue import chosen

    if resume is not None:
        check_alone(flags.OF_RESUME, "--resume continues with the options that the job began with")
        return study_report.run_sessions(None, resume, given)
    if not names and not every:
        raise BadInput("name a study: configtron replay study --list shows them")
    found, sessions = chosen(names, every)
    needs = f"{found[0]} needs {flags.SESSIONS if sessions else 'no simulated sessions'}"
    check_alone(flags.OF_SESSIONS if sessions else flags.OF_CLAIMS, needs)
    return (study_report.sessions_study if sessions else study_report.claims_study)(found, given)
