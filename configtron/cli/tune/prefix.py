# SPDX-License-Identifier: MIT
"""`configtron tune prefix`: set, drop, show, list, import."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, owner, profiles
from configtron.model.errors import DONE, NOTHING, BadInput

if TYPE_CHECKING:
    from configtron.model.tuning import Rules

PREFIX_COLUMNS = ("prefix", "profile")
LISTED = (*PREFIX_COLUMNS, "owner")
# In place of a prefix: all clients that no prefix holds.
DEFAULT = "default"
FORMS = "write PREFIX PROFILE, separated by a space or a comma"


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
    from configtron.db.tuning import Tuning
    from configtron.tune.rules import canonical

    with Tuning(settings().db) as book:
        book.set_prefixes({canonical(one): profile for one in prefixes if one != DEFAULT})
        if DEFAULT in prefixes:
            book.set_default(profile)
    return DONE


@prefix.command(short_help="Take prefixes their profile.")
@click.argument("prefixes", nargs=-1, metavar="[PREFIX]...")
@click.option("--all", "everything", is_flag=True, help="All of them, and the default.")
def drop(prefixes: tuple[str, ...], everything: bool) -> int:
    """Take prefixes their profile; what is in force stays until the next apply. Exit code 4: none of them had one."""
    from configtron.db.tuning import Tuning
    from configtron.tune.rules import canonical

    if bool(prefixes) == everything:
        raise BadInput("name prefixes, or --all")
    with Tuning(settings().db) as book:
        rules = book.wanted()
        chosen = list(rules.prefixes) if everything else [canonical(one) for one in prefixes if one != DEFAULT]
        count = book.drop_prefixes(chosen)
        if rules.default and (everything or DEFAULT in prefixes):
            book.set_default("")
            count += 1
    if not count:
        click.echo(hint("none of them has a profile; `configtron tune prefix list` shows those that do"), err=True)
    return DONE if count else NOTHING


@prefix.command(short_help="Say which profile a client gets.")
@click.argument("addresses", nargs=-1, required=True, metavar="ADDRESS...")
@form_options
def show(addresses: tuple[str, ...], form: str, output_file: str) -> int:
    """Say which profile clients at these addresses get, as wanted, and by which prefix."""
    from configtron.db.glance import glance
    from configtron.db.tuning import Tuning
    from configtron.model.records import Json
    from configtron.model.tuning_json import settings_text
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.tune.plan import UNTOUCHED
    from configtron.tune.rules import longest

    rules: Rules = glance(settings().db, Tuning.wanted)
    rows: list[dict[str, Json]] = []
    for address in addresses:
        try:
            ip_address(address)
        except ValueError as error:
            raise BadInput(f"{address!r} is no address; write e.g. 192.0.2.7 or 2001:db8::7") from error
        found = longest(rules, address)
        name = rules.prefixes[found] if found else rules.default
        text = settings_text(rules.profiles[name].settings) if name else ""
        rows.append({"address": address, "prefix": found or DEFAULT, "profile": name or UNTOUCHED, "settings": text})
    with opened(output_file) as out:
        write_rows(form, ("address", "prefix", "profile", "settings"), rows, out)
    return DONE


@prefix.command(name="list", short_help="List prefixes with their profiles.")
@form_options
def list_(form: str, output_file: str) -> int:
    """List prefixes with their profiles, and the default; in the order of addresses.

    The owner is human, or learner (`configtron learn export`).
    """
    from ipaddress import ip_network

    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows

    rules, learned = glance(settings().db, lambda book: (book.wanted(), book.learned("prefix")))
    ordered = sorted(rules.prefixes.items(), key=lambda pair: (":" in pair[0], ip_network(pair[0])))
    rows = [{"prefix": one, "profile": name, "owner": owner(one, learned)} for one, name in ordered]
    if rules.default:
        rows.append({"prefix": DEFAULT, "profile": rules.default, "owner": "human"})
    with opened(output_file) as out:
        write_rows(form, LISTED, rows, out)
    return DONE


@prefix.command(name="import", short_help="Read prefixes and their profiles from a file.")
@click.argument("file", type=click.File())
@click.option("--whole", is_flag=True, help="The file is all there is: prefixes that are not in it are forgotten.")
def import_(file: TextIO, whole: bool) -> int:
    """Read lines of PREFIX and PROFILE, separated by a space or a comma, from FILE (- is standard input); all or none.

    `prefix list -f csv` writes such lines. Empty lines and what follows # are passed over. All of them are yours then,
    whoever their owner was (a third column).
    """
    from configtron.db.tuning import Tuning

    pairs = dict(_pairs(file))
    default = pairs.pop(DEFAULT, "")
    with Tuning(settings().db) as book:
        try:
            new = book.set_prefixes(pairs, whole=whole)
            if default or whole:
                book.set_default(default)
        except BadInput as error:
            raise BadInput(f"{file.name}: {error}") from error
    if settings().loudness >= 0:
        click.echo(f"{len(pairs)} prefixes read, {new:+d} in all", err=True)
    return DONE


def _pairs(file: TextIO) -> Iterator[tuple[str, str]]:
    from configtron.tune.rules import canonical

    try:
        for number, line in enumerate(file, 1):
            words = line.partition("#")[0].replace(",", " ").split()
            if not words or tuple(words) in (PREFIX_COLUMNS, LISTED):
                continue
            if words[2:] not in ([], ["human"], ["learner"]) or len(words) < 2:
                raise BadInput(f"{file.name}: line {number}: {FORMS}")
            try:
                yield words[0] if words[0] == DEFAULT else canonical(words[0]), words[1]
            except BadInput as error:
                raise BadInput(f"{file.name}: line {number}: {error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file.name}: not text; {FORMS}") from error
