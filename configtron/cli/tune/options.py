# SPDX-License-Identifier: MIT
"""Options that several commands of `tune` share. Given to `tune` itself, or under [tune], they hold for all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from configtron.model.errors import BadInput
from configtron.model.tuning import Place

if TYPE_CHECKING:
    from configtron.service.lease import LeaseOptions, Notice
    from configtron.tune.guard import Bound, Limits

FORMATS = ("table", "jsonl", "csv")
AUTO = "auto"
MAX_PREFIXES = 1_000_000


class Finite(click.FloatRange):
    """A range that neither infinity nor what is no number lies in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As `click.FloatRange`."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is no number to count with.", param, ctx)
        return number


SHARE = Finite(0, 1)

Command = Callable[..., Any]


def _drivers(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Names of drivers, for the shell's completion."""
    from configtron.tune.drivers import DRIVERS

    return [name for name in (AUTO, *DRIVERS) if name.startswith(begun)]


def profiles(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of wanted profiles, for the shell's completion; the database is that of the command line."""
    from configtron.cli.settings import default_db
    from configtron.db.glance import glance
    from configtron.db.tuning import Tuning

    path = ctx.find_root().params.get("db") or default_db()
    return [name for name in glance(path, Tuning.wanted).profiles if name.startswith(begun)]


def where_options(command: Command) -> Command:
    """By which driver, and where."""
    return _added(
        command,
        click.option(
            "--driver",
            metavar="NAME",
            shell_complete=_drivers,
            help="Who sets it: auto (the default), or one that doctor lists.",
        ),
        click.option("--netns", metavar="NAME", help="In this network namespace; else in the one we are in."),
        click.option("--interface", metavar="NAME", help="Whose routes; else the default route's."),
        click.option("--cgroup", metavar="PATH", help="Only connections of this cgroup; else of all."),
        click.option(
            "--listen",
            multiple=True,
            metavar="PORT",
            help="Only connections to this port, or address:port; several times.",
        ),
    )


RANGE = click.option(
    "--bound",
    multiple=True,
    metavar="KNOB=RANGE",
    help="Never beyond it: initcwnd=1..30, tcp_congestion_control=cubic|reno; several times.",
)
FAIRNESS = click.option("--allow-unfair", is_flag=True, default=None,
                        help="Let profiles pass that take more than their share from cubic.")  # fmt: skip


def policy_options(command: Command) -> Command:
    """What the operator allows."""
    return _added(
        command,
        RANGE,
        click.option("--max-prefixes", type=click.IntRange(0), metavar="N",
                     help=f"No more than so many.  [default: {MAX_PREFIXES}]"),
        click.option("--holdback", type=SHARE, metavar="SHARE",
                     help="Share of prefixes that is never touched, always the same ones; 0 to 1."),
        click.option("--canary", type=SHARE, metavar="SHARE", help="Change only this share of prefixes now; 0 to 1."),
        FAIRNESS,
    )  # fmt: skip


def guard_options(command: Command) -> Command:
    """What the operator allows, of single profiles."""
    return _added(command, RANGE, FAIRNESS)


def form_options(command: Command) -> Command:
    """In which form, and where to."""
    return _added(
        command,
        click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
                     help="Form of the answer."),
        click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False),
                     help="Write here; - is stdout."),
    )  # fmt: skip


def _added(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def owner(name: str, learned: Collection[str]) -> str:
    """Whose a profile or prefix is, by those that the learner's export set."""
    return "learner" if name in learned else "human"


def given(name: str, otherwise: Any = None) -> Any:
    """An option's value: the command's own, else what `tune` was given, else `otherwise`."""
    ctx: click.Context | None = click.get_current_context()
    while ctx is not None:
        value = ctx.params.get(name)
        if value not in (None, ()):
            return value
        ctx = ctx.parent
    return otherwise


def place() -> Place:
    """Where to act. Errors: `BadInput` for a listener that is none."""
    from configtron.tune.listeners import listeners_text

    listen = given("listen", ())
    return Place(
        given("netns", ""), given("interface", ""), given("cgroup", ""), listeners_text(listen) if listen else ""
    )


def lease_options() -> LeaseOptions:
    """The options of the command that is running, as the lease engine takes them. Errors: `BadInput`."""
    from configtron.cli.settings import settings
    from configtron.service.lease import LeaseOptions

    shares = (given("holdback", 0.0), given("canary", 1.0))
    return LeaseOptions(settings().db, given("driver", AUTO), place(), limits(), *shares)


def show_notice(notice: Notice) -> None:
    """Print a notice of the engine; a quiet command drops those that are not warnings."""
    from configtron.cli.settings import hint, settings

    if notice.level > logging.INFO or settings().loudness >= 0:
        click.echo(hint(notice.text), err=True)


def limits() -> Limits:
    """What the operator allows. Errors: `BadInput`."""
    return limits_of(given("bound", ()), bool(given("allow_unfair", False)), given("max_prefixes", MAX_PREFIXES))


def limits_of(bounds: Iterable[str], allow_unfair: bool, max_prefixes: int = MAX_PREFIXES) -> Limits:
    """The operator's words as limits. Errors: `BadInput` for a bound that is none."""
    from configtron.tune.guard import Limits

    return Limits(dict(_bound(text) for text in bounds), max_prefixes, allow_unfair)


def _bound(text: str) -> tuple[str, Bound]:
    from configtron.model.knobs import KNOBS
    from configtron.tune.guard import Bound

    knob, equals, span = text.partition("=")
    if not equals or not span:
        raise BadInput(f"--bound {text!r}: write KNOB=LEAST..MOST or KNOB=VALUE|VALUE")
    if knob not in KNOBS:
        raise BadInput(f"--bound {text!r}: no knob is called {knob!r}; `configtron tune doctor` lists them")
    if ".." not in span:
        return knob, Bound(values=tuple(span.split("|")))
    try:
        least, most = (float(end) if end else None for end in span.split(".."))
    except ValueError as error:
        raise BadInput(f"--bound {text!r}: the ends of a range are numbers") from error
    if least is not None and most is not None and not least <= most:
        raise BadInput(f"--bound {text!r}: nothing lies in that range; write KNOB=LEAST..MOST")
    return knob, Bound(least, most)
