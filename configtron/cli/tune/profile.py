# SPDX-License-Identifier: MIT
"""`configtron tune profile`: set, show, list, drop."""

from __future__ import annotations

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import form_options, profiles
from configtron.model.errors import DONE, NOTHING

PROFILE_COLUMNS = ("profile", "settings", "prefixes", "default", "owner")


@click.group(short_help="Profiles: named settings of knobs.")
def profile() -> None:
    """Profiles: named settings of knobs, kept in the database until they are dropped. `plan` and `apply` use them."""


@profile.command(name="set", short_help="Make a profile, or set knobs of one.")
@click.argument("name", shell_complete=profiles)
@click.argument("settings_", nargs=-1, metavar="[KNOB=VALUE]...")
@click.option("--drop", "dropped", multiple=True, metavar="KNOB", help="This knob is no longer set; several times.")
@click.option("--unchecked", is_flag=True, help="A congestion control that neither this kernel nor Linux has, too.")
def set_(name: str, settings_: tuple[str, ...], dropped: tuple[str, ...], unchecked: bool) -> int:
    """Make a profile, or set knobs of one that is there; its other knobs stay. Nothing is written to the stack.

    From then on it is yours: `configtron learn export` neither changes nor drops it.

    A value that no driver takes, whatever the kernel, is refused with the bounds; docs/capabilities.md lists them. So
    is a congestion control that neither this kernel nor Linux has, but with --unchecked: for a host with one of its
    own. One that only another kernel has, or a module that is not loaded, is kept and named.
    """
    from configtron.service import lease

    remark = lease.set_profile(settings().db, name, settings_, dropped=dropped, unchecked=unchecked)
    if remark and settings().loudness >= 0:
        click.echo(remark, err=True)
    return DONE


@profile.command(short_help="Show one profile.")
@click.argument("name", shell_complete=profiles)
@form_options
def show(name: str, form: str, output_file: str) -> int:
    """Show one profile, a row a knob. Exit code 4: there is none of that name."""
    from configtron.model.knobs import KNOBS
    from configtron.model.records import value_form
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    found = lease.wanted(settings().db).rules.profiles.get(name)
    if found is None:
        return _absent(name)
    rows = [
        {"profile": name, "knob": knob, "value": value_form(value), "unit": KNOBS[knob].unit, "note": KNOBS[knob].note}
        for knob, value in found.settings
    ]
    with opened(output_file) as out:
        write_rows(form, ("profile", "knob", "value", "unit", "note"), rows, out)
    return DONE


@profile.command(name="list", short_help="List profiles, and how many prefixes have each.")
@form_options
def list_(form: str, output_file: str) -> int:
    """List profiles, how many prefixes have each, and the owner: human, or learner (`configtron learn export`)."""
    from collections import Counter

    from configtron.model.records import pairs_form
    from configtron.model.tuning_json import settings_text
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service import lease

    found = lease.wanted(settings().db)
    having = Counter(found.rules.prefixes.values())
    rows = [
        {
            "profile": name,
            "settings": pairs_form(one.settings) if form == "jsonl" else settings_text(one.settings),
            "prefixes": having[name],
            "default": name == found.rules.default,
            "owner": found.profile_owner(name),
        }
        for name, one in sorted(found.rules.profiles.items())
    ]
    with opened(output_file) as out:
        write_rows(form, PROFILE_COLUMNS, rows, out)
    return DONE


@profile.command(short_help="Forget a profile.")
@click.argument("name", shell_complete=profiles)
def drop(name: str) -> int:
    """Forget a profile that no prefix has; what is in force stays until the next apply. Exit code 4: there was none."""
    from configtron.service import lease

    return DONE if lease.drop_profile(settings().db, name) else _absent(name)


def _absent(name: str) -> int:
    click.echo(hint(f"no profile is called {name!r}; `configtron tune profile list` shows them"), err=True)
    return NOTHING
