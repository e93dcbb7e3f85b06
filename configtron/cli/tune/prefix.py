# SPDX-License-Identifier: MIT
"""`configtron tune prefix`: set, drop, show, list, import."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, profiles
from configtron.model.errors import DONE, NOTHING, BadInput

if TYPE_CHECKING:
    from configtron.model.records import Json

PREFIX_COLUMNS = ("prefix", "profile")
# In place of a prefix: all clients that no prefix holds.
DEFAULT = "default"


@click.group(short_help="Prefixes: whose clients get which profile.")
def prefix() -> None:
    """Prefixes: whose clients get which profile, kept in the database. The longest prefix of a client counts."""


@prefix.command(name="set", short_help="Give prefixes a profile.")
@click.argument("prefixes", nargs=-1, required=True, metavar="PREFIX...")
@click.argument("profile", shell_complete=profiles)
def set_(prefixes: tuple[str, ...], profile: str) -> int:
    """Give prefixes a profile; an address alone is a prefix, `default` is all other clients.

    The stack is not touched before the next apply. From then on they are yours: `configtron learn export` leaves them,
    and all clients within them, alone.
    """
    from configtron.service import lease
    from configtron.tune.rules import canonical

    lease.set_prefixes(settings().db, {one if one == DEFAULT else canonical(one): profile for one in prefixes})
    return DONE


@prefix.command(short_help="Take prefixes their profile.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--all", "everything", is_flag=True, help="All of them, and the default.")
def drop(prefixes: tuple[str, ...], everything: bool) -> int:
    """Take prefixes their profile; what is in force stays until the next apply. Exit code 4: none of them had one."""
    from configtron.service import lease

    if bool(prefixes) == everything:
        raise BadInput("name prefixes, or --all")
    count = lease.drop_prefixes(settings().db, None if everything else prefixes)
    if not count:
        click.echo(hint("none of them has a profile; `configtron tune prefix list` shows those that do"), err=True)
    return DONE if count else NOTHING


@prefix.command(short_help="Say which profile a client gets.")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@form_options
def show(addresses: tuple[str, ...], form: str, output_file: str) -> int:
    """Say which profile clients at these addresses get, as wanted, and by which prefix."""
    from configtron.model.tuning_json import settings_text
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    rules = lease.wanted(settings().db).rules
    rows: list[dict[str, Json]] = []
    for address in addresses:
        found, profile = lease.profile_of(rules, address)
        text = settings_text(profile.settings)
        rows.append({"address": address, "prefix": found, "profile": profile.name, "settings": text})
    with opened(output_file) as out:
        write_rows(form, ("address", "prefix", "profile", "settings"), rows, out)
    return DONE


@prefix.command(name="list", short_help="List prefixes with their profiles.")
@form_options
def list_(form: str, output_file: str) -> int:
    """List prefixes with their profiles, and the default; in the order of addresses.

    The owner is human, or learner (`configtron learn export`).
    """
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    found = lease.wanted(settings().db).prefixes()
    with opened(output_file) as out:
        columns = (*PREFIX_COLUMNS, "owner")
        write_rows(form, columns, [dict(zip(columns, row, strict=True)) for row in found], out)
    return DONE


@prefix.command(name="import", short_help="Read prefixes and their profiles from a file.")
@click.argument("file", type=click.File())
@click.option("--whole", is_flag=True, help="The file is all there is: prefixes that are not in it are forgotten.")
def import_(file: TextIO, whole: bool) -> int:
    """Read lines of PREFIX and PROFILE, separated by a space or a comma, from FILE (- is standard input); all or none.

    `prefix list -f csv` writes such lines. Empty lines and what follows # are passed over. All of them are yours then,
    whichever their owner was (a third column).
    """
    from configtron.service import lease

    pairs = lease.read_prefixes(file, file.name)
    try:
        new = lease.set_prefixes(settings().db, pairs, whole=whole)
    except BadInput as error:
        raise BadInput(f"{file.name}: {error}") from error
    if settings().loudness >= 0:
        click.echo(f"{len(pairs) - (DEFAULT in pairs)} prefixes read, {new:+d} in all", err=True)
    return DONE
