# SPDX-License-Identifier: MIT
"""`configtron replay study`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.replay.session_flags import check_alone
from configtron.cli.replay.study_flags import (
    OF_CLAIMS,
    OF_LIST,
    OF_RESUME,
    OF_SESSIONS,
    SESSIONS,
    STUDY_OPTIONS,
    with_options,
)
from configtron.model.errors import BadInput


@click.command(short_help="Run studies of the papers: their figures beside ours.")
@with_options(STUDY_OPTIONS)
def study(names: tuple[str, ...], listed: bool, every: tuple[str, ...], resume: str | None, **given: Any) -> int:
    """Run studies of the papers' evaluations: the paper's figure beside ours.

    `--list` shows all studies. Those that need a tensor read what `learn measure` measured, or a file; those that need
    the lab boot guests, as root, in parts. They print for each claim the paper's figure, ours, and whether it holds
    here. Those of simulated sessions need neither, and print means over worlds with Student's 95 % intervals.

    A study that ends in any way, kill -9 too, loses only the parts that were running: of the lab the same command
    continues, of simulated sessions `--resume`. The same seed gives the same bytes.

    \b
    Exit codes: 0    every part is there; with --fail-on-absent: and every claim holds
                1    --fail-on-absent, and some claim does not hold here
                2    no such file, measurement or name; a file that cannot be written
                3    some parts are missing: conditions not measured, guests that failed
                4    nothing could be evaluated
                5    not root, or a program, library or kernel feature is missing
                130  interrupted; parts that are complete are stored
    """
    if listed:
        check_alone(OF_LIST, "--list runs no study")
        from configtron.cli.replay.study_report import write_list

        return write_list(given["form"], given["output_file"])
    from configtron.cli.replay import study_report

    if resume is not None:
        check_alone(OF_RESUME, "--resume continues with the options that the job began with")
        return study_report.run_sessions(None, resume, given["form"], given["output_file"], given["html"])
    if not names and not every:
        raise BadInput("name a study: configtron replay study --list shows them")
    chosen, sessions = study_report.chosen(names, every)
    needs = f"{chosen[0]} needs {SESSIONS if sessions else 'no simulated sessions'}"
    check_alone(OF_SESSIONS if sessions else OF_CLAIMS, needs)
    if sessions:
        return study_report.sessions_study(chosen, given)
    return study_report.claims_study(chosen, given)
