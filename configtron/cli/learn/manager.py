# SPDX-License-Identifier: MIT
"""`configtron learn manager`: agents and their maps; `manager_run.py` runs it."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.lazy import LazyGroup
from configtron.cli.learn.options import KEYS, key_folder
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, say, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, BadInput


@click.group(cls=LazyGroup, package=__package__, rows={"run": "Run the manager."}, homes={"manager_run": "run"})
def manager() -> None:
    """Give many hosts their maps, and learn from their outcomes. Agents (`configtron tune agent`) connect to it, as
    docs/fleet.md shows. Needs the extra `fleet`."""


JSON = click.option("--json", "as_json", is_flag=True, help="As --format jsonl.")


@manager.command(short_help="Let an agent connect; print the line that it joins by.")
@click.argument("name")
@click.option("--address", required=True, metavar="tcp://HOST:PORT", help="The manager as agents reach it.")
@click.option("--key", "public", default="", metavar="KEY",
              help="The agent's own key (`tune agent --key`); else a pair is made, its secret printed.")  # fmt: skip
@KEYS
def enroll(name: str, address: str, public: str, keys: Path | None) -> None:
    """Let an agent connect under this name, and print the command that it joins by, with its key: treat it as a
    password. A running manager takes it up within a second."""
    from configtron.service.fleet import enrolment

    line = enrolment.enroll(settings().db, key_folder(keys), name, address, public)
    # For another host: the database in use here is not that one's.
    # By the shell's own echo: a command's words stand in `ps`.
    command = ("configtron", "tune", "agent", "--join")
    click.echo(" ".join(("echo", line.text, "|", *command, "-") if line.secret else (*command, line.text)))


@manager.command(short_help="Let an agent connect no more.")
@click.argument("name")
def revoke(name: str) -> int:
    """Let an agent connect no more. Its frames are dropped within a second, on its open connection too.

    Exit code 4: no agent of that name was enrolled.
    """
    from configtron.service.fleet import enrolment

    if enrolment.revoke(settings().db, name):
        return DONE
    say(f"no agent is called {name!r}; `configtron learn manager agents` lists them")
    return NOTHING


@manager.command("rotate-key", short_help="Give the manager another key.")
@click.option("--within", "within_h", type=click.FloatRange(0, 8760), default=24.0, show_default=True, metavar="HOURS",
              help="Change it after so many hours; 0: at once.")  # fmt: skip
@KEYS
def rotate_key(within_h: float, keys: Path | None) -> None:
    """Give the manager another key after --within, and print the command by which each agent joins then: the same for
    all agents, without a secret. Again while that is under way: the same key, --within from now.

    An agent that has not joined goes on with the map that it has while that is valid, and its outcomes wait.
    """
    from configtron.service.fleet import enrolment

    found, line = enrolment.rotate(settings().db, key_folder(keys), within_h)
    say(f"key {found.public[:8]}... follows in {within_h:g} hours; then, as root on each agent, before its restart:")
    click.echo(" ".join(("configtron", "tune", "agent", "--join", line.text)))


@manager.command(short_help="List agents, and what each holds.")
@form_options
@JSON
def agents(form: str, output_file: str, as_json: bool) -> None:
    """List agents: when each was heard last, which map it holds, what it refused, and rows that wait or were lost."""
    from configtron.service.fleet import enrolment

    rows, none = [dict(row._asdict()) for row in enrolment.agents(settings().db)], enrolment.no_agents(settings().db)
    write_rows("jsonl" if as_json else form, output_file, enrolment.AGENT_COLUMNS, rows, LEARNING, none=none)


@manager.command(short_help="List the maps that were published.")
@form_options
@JSON
def maps(form: str, output_file: str, as_json: bool) -> None:
    """List the maps that were published, oldest first, and why; those that are kept whole can be rolled back to."""
    from configtron.service.fleet import enrolment

    rows = enrolment.map_rows(settings().db)
    write_rows("jsonl" if as_json else form, output_file, enrolment.MAP_COLUMNS, rows, LEARNING)


@manager.command(short_help="Publish an earlier map again, and make no new ones.")
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
