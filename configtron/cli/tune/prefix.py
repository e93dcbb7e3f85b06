# SPDX-License-Identifier: MIT
"""`configtron tune prefix`: set, drop, show, list, import."""

from __future__ import annotations

from typing import TextIO

import click

from configtron.cli.completing import addresses, prefixes, profiles
from configtron.cli.options import form_options
from configtron.cli.output import say, warn, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.resolved import say_stored
from configtron.model.errors import NOTHING, BadInput
from configtron.model.wording import count_are, count_of


@click.group(short_help="Prefixes: which clients get which profile.")
def prefix() -> None:
    """Prefixes: which clients get which profile, kept in the database. A client gets the profile of its longest
    prefix."""


@prefix.command(name="set", short_help="Give prefixes a profile.")
# Click asks the first argument for the words of both.
@click.argument("prefixes", nargs=-1, required=True, metavar="PREFIX...", shell_complete=profiles)
@click.argument("profile")
def set_(prefixes: tuple[str, ...], profile: str) -> None:
    """Give prefixes a profile; an address alone is a prefix, `default` is all other clients.

    The stack is not touched before the next apply. From then on they are yours: `configtron learn export` does not
    change them, nor any client within them.
    """
    from configtron.service import lease

    lease.set_prefixes(settings().db, dict.fromkeys(prefixes, profile))
    say_stored(f"profile {profile} is stored for {count_of(len(set(prefixes)), 'prefix')}")


@prefix.command(short_help="Remove the profiles of prefixes.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...", shell_complete=prefixes)
@click.option("--all", "everything", is_flag=True, help="All of them, and the default.")
def drop(prefixes: tuple[str, ...], everything: bool) -> int:
    """Remove the profiles of prefixes; what is in force stays until the next apply. Exit code 4: none of them had
    one."""
    from configtron.service import lease

    if bool(prefixes) == everything:
        raise BadInput("name prefixes, or --all")
    if count := lease.drop_prefixes(settings().db, None if everything else prefixes):
        return say_stored(f"{count_are(count, 'prefix')} dropped")
    warn("none of them has a profile; `configtron tune prefix list` shows those that do")
    return NOTHING


@prefix.command(short_help="Show which profile a client gets.")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...", shell_complete=addresses)
@form_options
def show(addresses: tuple[str, ...], form: str, output_file: str) -> None:
    """Show which profile clients at these addresses get, as wanted, and by which prefix."""
    from configtron.service import lease
    from configtron.service.lease.rows import CLIENT_COLUMNS, client_rows

    rules = lease.wanted(settings().db).rules
    found = [(address, *lease.profile_of(rules, address)) for address in addresses]
    write_rows(form, output_file, CLIENT_COLUMNS, client_rows(found))


@prefix.command(name="list", short_help="List prefixes with their profiles.")
@form_options
def list_(form: str, output_file: str) -> None:
    """List prefixes with their profiles, and the default; in the order of addresses.

    The owner is human, or learner (`configtron learn export`).
    """
    from configtron.service import lease
    from configtron.service.lease.rows import PREFIX_COLUMNS, prefix_rows

    found = lease.wanted(settings().db)
    none = "no prefix has a profile; give it one: configtron tune prefix set PREFIX PROFILE"
    write_rows(form, output_file, PREFIX_COLUMNS, prefix_rows(found), none=none)


@prefix.command(name="import", short_help="Read prefixes and their profiles from a file.")
@click.argument("file", type=click.File())
@click.option("--whole", is_flag=True, help="The file is the whole list: other prefixes are removed.")
def import_(file: TextIO, whole: bool) -> None:
    """Read lines of PREFIX and PROFILE, separated by a space or a comma, from FILE (- is standard input); all or none.

    `prefix list -f csv` writes such lines. Empty lines and comments (#) are skipped. All of them are yours then,
    whatever the owner in a third column was.
    """
    from configtron.service import lease

    read, new = lease.import_prefixes(settings().db, file, file.name, whole=whole)
    say(f"{count_of(read, 'prefix')} read, {new:+d} in all")
