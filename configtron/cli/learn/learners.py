# SPDX-License-Identifier: MIT
"""`configtron learn` status, report, policies, drop: what learns in this database."""

from __future__ import annotations

import click

from configtron.cli.learn.options import policy_option
from configtron.cli.options import form_options, output_option
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING
from configtron.report.files import opened


@click.command()
@form_options
def status(form: str, output_file: str) -> None:
    """Show the logs of outcomes, and the policies that learn: how far each has read, what waits for it, its classes,
    what exploration cost it (`spent`), and which outcomes it sets aside and why. docs/learn.md explains the columns.
    Exit code 0 also if there is nothing."""
    from configtron.service.learning import overview
    from configtron.service.learning.rows import STATE_COLUMNS, state_rows

    found = overview.status(settings().db)
    write_rows(form, output_file, STATE_COLUMNS, state_rows(found), LEARNING)
    if remark := overview.remark(found, settings().db):
        say(remark)


@click.command()
@output_option
@click.option("--rows", type=int, default=200_000, metavar="N", help="Read the latest N outcomes.  [default: 200000]")
def report(output_file: str, rows: int) -> None:
    """Write the gain of a fleet's map as one HTML page: against the control group, with intervals; which prefix gets
    which profiles; the roll-out, drift, data quality, each map with the command that restores it, each agent's map.

    The page needs no network and no script. It claims nothing where data do not allow it: docs/learn.md explains it.
    Needs the extra `learn`. Exit code 2: there is no database, or it is damaged; 5: the extra is missing.
    """
    from configtron.report.page.loop_page import render, verdict
    from configtron.service.learning import fleet_report

    found = fleet_report.report(fleet_report.ReportOptions(settings().db, rows))
    with opened(output_file) as out:
        out.write(render(found))
    if output_file != "-":
        say(f"written: {output_file}")
    say(verdict(found))


@click.command()
@form_options
def policies(form: str, output_file: str) -> None:
    """List the policies there are: the product's default, the paper's ensemble, and baselines to compare with.

    A policy that runs only in simulation (`configtron replay sessions`) knows the truth. `takes` says which of --warm,
    --engine, --evolve and --by-device make a difference.
    """
    from configtron.service.learning.rows import POLICIES_COLUMNS, policy_rows

    write_rows(form, output_file, POLICIES_COLUMNS, policy_rows(), LEARNING)


@click.command()
@policy_option(required=True, help="A policy of `learn status`.")
def drop(name: str) -> int:
    """Forget a policy, what it learned and what it decided; outcomes stay. Exit code 4: there was no such policy."""
    from configtron.service.learning.learners import drop as dropped

    if dropped(settings().db, name):
        return DONE
    say(f"no policy is called {name!r}; `configtron learn status` shows them")
    return NOTHING
