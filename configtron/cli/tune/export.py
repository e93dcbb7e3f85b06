# SPDX-License-Identifier: MIT
"""`configtron tune export`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import hint, settings
from configtron.cli.tune.options import place, where_options
from configtron.model.errors import DONE, Missing

if TYPE_CHECKING:
    from configtron.model.tuning import Rules

FORMS = ("iproute2", "networkd", "sysctl")


@click.command(short_help="Print what is wanted as other tools' configuration.")
@click.option("--as", "form", type=click.Choice(FORMS), required=True, help="Whose words.")
@click.option("-6", "--ipv6", is_flag=True, help="iproute2: the IPv6 half, for ip -6 -batch.")
@where_options
@click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False), help="Write here; - is stdout.")
def export(form: str, ipv6: bool, output_file: str, **_: object) -> int:
    """Print the wanted profiles and prefixes (`profile`, `prefix`) as another tool's configuration. Nothing is changed.

    iproute2: the routes, the rule and the names that the driver route would make here, for `ip -batch -`; once more
    with -6 for `ip -6 -batch -`. What it makes is read by configtron as its own. networkd: sections for .network files.
    sysctl: the default profile, for sysctl.d. What a tool cannot say stands in comments. Gateways are those of now.
    """
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.tune.rules import check

    if place().listen:
        raise Missing(f"--as {form}: no word there for listeners ({place().listen}); leave --listen out")
    wanted = glance(settings().db, lambda book: check(book.wanted()))
    lines = list(_sysctl(wanted) if form == "sysctl" else _routes(wanted, form, 6 if ipv6 else 4))
    with opened(output_file) as out:
        out.writelines(f"{line}\n" for line in lines)
    return DONE


def _routes(wanted: Rules, form: str, version: int) -> Iterator[str]:
    from configtron.tune import export as forms
    from configtron.tune.drivers.route import REACHES, REFUSED, RouteDriver

    yield from forms.left_out(wanted.profiles, REACHES, REFUSED)
    said = {name: forms.within(profile, REACHES) for name, profile in wanted.profiles.items()}
    draft = RouteDriver(place()).draft(replace(wanted, profiles=said))
    yield from forms.networkd(draft) if form == "networkd" else forms.iproute2(draft, version)


def _sysctl(wanted: Rules) -> Iterator[str]:
    from configtron.tune import export as forms
    from configtron.tune.drivers.sysctl import REACHES, REFUSED, files
    from configtron.tune.metrics import check

    if wanted.prefixes:
        yield f"# left out: {len(wanted.prefixes)} prefixes: a namespace's settings know none"
    used = {name: profile for name, profile in wanted.profiles.items() if name == wanted.default}
    yield from forms.left_out(used, REACHES, REFUSED)
    profile = forms.within(used[wanted.default], REACHES) if wanted.default else None
    if profile is not None:
        check(profile, REACHES, REFUSED, "sysctl")
    elif wanted.profiles:
        yield hint("# nothing to set: no profile is the default (configtron tune prefix set default NAME)")
    yield from forms.sysctl(profile, files(profile) if profile else {})
