# SPDX-License-Identifier: MIT
"""`configtron tune profile`: set, show, list, drop."""

from __future__ import annotations

import click

from configtron.cli.completing import assigned, assignments, profiles
from configtron.cli.options import form_options
from configtron.cli.output import say, warn, write_rows
from configtron.cli.settings import settings
from configtron.cli.tune.resolved import say_stored
from configtron.model.errors import DONE, NOTHING


@click.group(short_help="Profiles: named settings of knobs.")
def profile() -> None:
    """Profiles: named settings of knobs, kept in the database until they are dropped. `plan` and `apply` use them."""


@profile.command(name="set", short_help="Make a profile, or set knobs of one.")
@click.argument("name", shell_complete=profiles)
@click.argument("words", nargs=-1, metavar="[KNOB=VALUE]...", shell_complete=assignments)
@click.option("--drop", "dropped", multiple=True, metavar="KNOB", shell_complete=assigned,
              help="Unset this knob; may be repeated.")  # fmt: skip
@click.option("--unchecked", is_flag=True, help="Accept a congestion control that neither this kernel nor Linux has.")
def set_(name: str, words: tuple[str, ...], dropped: tuple[str, ...], unchecked: bool) -> None:
    """Make a profile, or set knobs of one that is there; its other knobs stay. Nothing is written to the stack.

    From then on it is yours: `configtron learn export` neither changes nor drops it. A value that no driver takes on
    any kernel is refused with its bounds (docs/tune.md); so is a congestion control that Linux does not have,
    unless --unchecked. One that is not loaded here is accepted with a remark.
    """
    from configtron.service import lease

    if remark := lease.set_profile(settings().db, name, words, dropped=dropped, unchecked=unchecked):
        say(remark)
    say_stored(f"profile {name} is stored")


@profile.command(short_help="Show one profile.")
@click.argument("name", shell_complete=profiles)
@form_options
def show(name: str, form: str, output_file: str) -> int:
    """Show one profile, a row a knob. Exit code 4: there is none of that name."""
    from configtron.service import lease
    from configtron.service.lease.rows import SETTING_COLUMNS, setting_rows

    found = lease.wanted(settings().db).rules.profiles.get(name)
    if found is None:
        return _absent(name)
    write_rows(form, output_file, SETTING_COLUMNS, setting_rows(found))
    return DONE


@profile.command(name="list", short_help="List profiles, and how many prefixes have each.")
@form_options
def list_(form: str, output_file: str) -> None:
    """List profiles, how many prefixes have each, and the owner: human, or learner (`configtron learn export`)."""
    from configtron.service import lease
    from configtron.service.lease.rows import PROFILE_COLUMNS, profile_rows

    found = lease.wanted(settings().db)
    none = "no profile is stored; make one: configtron tune profile set NAME KNOB=VALUE"
    write_rows(form, output_file, PROFILE_COLUMNS, profile_rows(found, form), none=none)


@profile.command(short_help="Delete a profile.")
@click.argument("name", shell_complete=profiles)
def drop(name: str) -> int:
    """Delete a profile that no prefix has; what is in force stays until the next apply. Exit code 4: there was none."""
    from configtron.service import lease

    if lease.drop_profile(settings().db, name):
        return say_stored(f"profile {name} is dropped")
    return _absent(name)


def _absent(name: str) -> int:
    warn(f"no profile is called {name!r}; `configtron tune profile list` shows them")
    return NOTHING
