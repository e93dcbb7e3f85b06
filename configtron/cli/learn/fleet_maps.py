# SPDX-License-Identifier: MIT
"""`configtron learn manager`: maps, rollback."""

from __future__ import annotations

import click

from configtron.cli.learn.enrolment import JSON
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import BadInput


@click.command(short_help="List the maps that were published.")
@form_options
@JSON
def maps(form: str, output_file: str, as_json: bool) -> None:
    """List the maps that were published, oldest first, and why; those that are kept whole can be rolled back to."""
    from configtron.service.fleet import enrolment

    rows = enrolment.map_rows(settings().db)
    write_rows("jsonl" if as_json else form, output_file, enrolment.MAP_COLUMNS, rows, LEARNING)


@click.command(short_help="Publish an earlier map again, and make no new ones.")
@click.argument("wanted", required=False, default="", metavar="[TERM.VERSION]")
@click.option("--resume", is_flag=True, help="Make new maps again.")
def rollback(wanted: str, resume: bool) -> None:
    """Publish an earlier map again, by default the one before the current, and make no new ones until --resume.
    Agents have it within a second; clients are assigned anew, so that none waits for the epoch's end."""
    from configtron.service.fleet import enrolment

    if resume and wanted:
        raise BadInput("name a map to put back, or --resume, not both")
    if resume:
        say("new maps are made again" if enrolment.resume(settings().db) else "new maps were being made already")
        return
    chosen = enrolment.roll_back(settings().db, wanted)
    say(f"map {chosen} is published by the running manager; then: configtron learn manager rollback --resume")
