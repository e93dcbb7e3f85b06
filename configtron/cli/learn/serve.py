# SPDX-License-Identifier: MIT
"""`configtron learn serve`."""

from __future__ import annotations

from typing import Any

import click

from configtron.cli.advanced import LongCommand
from configtron.cli.completing import drivers, either
from configtron.cli.learn.options import stage_options
from configtron.cli.options import budget_option, retyped, seed_option, span_option, typed, with_options
from configtron.cli.output import say
from configtron.cli.param_types import Finite
from configtron.cli.settings import settings
from configtron.cli.tune.options import beacons_option, guard_options, log_options, ports_option, sites_option
from configtron.linux.signals import asked_to_stop
from configtron.model.choices import WEB_SERVERS
from configtron.model.errors import DONE, INTERRUPTED, BadInput
from configtron.report.log_lines import log_progress

OPTIONS = with_options(
    click.option("--setup", "server", type=click.Choice(WEB_SERVERS), help="Set up this web server"
                 " and systemd, let the server test it, and exit."),
    click.option("--undo", is_flag=True, help="With --setup: take back what it wrote."),
    click.option("--local", is_flag=True, expose_value=False,
                 help="The default: this host alone, in one process. `learn manager` is for many hosts."),
    click.option("--policy", default="thompson", show_default=True, metavar="POLICY", shell_complete=either,
                 help="Policy: one of `learn policies`."),
    click.option("--driver", metavar="NAME", shell_complete=drivers, help="Driver, as of `tune`.  [default: auto]"),
    guard_options,
    click.option("--holdback", type=Finite(0, 0.99), default=0.05, show_default=True, metavar="SHARE",
                 help="Share of clients that keep Default; always the same clients."),
    click.option("--epoch", "epoch_s", type=click.IntRange(10, 86_400), default=600, show_default=True,
                 metavar="SECONDS", help="How long a client keeps its profile."),
    ports_option("Port of the web server whose clients are tuned; repeat for more."),
    beacons_option,
    log_options,
    click.option("--begin-with", type=click.IntRange(1), default=2_000, show_default=True, metavar="N",
                 help="Page loads under Default before anything is tried."),
    click.option("--least-clients", type=click.IntRange(1), metavar="N", help="Clients that a prefix needs in an epoch"
                 " for a rule of its own.  [default: 20, or 1 for drivers that draw by prefix]"),
    budget_option(""),
    seed_option,
    click.option("--strategies", default="", metavar="NAME=SHARE,...",
                 help="With --policy initial: share of clients for each strategy (docs/studies.md)."),
    click.option("--fresh", is_flag=True, help="Forget what was learned; learn from the stored outcomes anew."),
    span_option,
)  # fmt: skip
# What `--help` lists last.
ADVANCED = ("allow_unfair", "epoch_s", "least_clients", "seed", "strategies", "stage_clients", "dark_hours")


@click.command(cls=LongCommand, advanced=ADVANCED)
@OPTIONS
@stage_options
@sites_option
@click.option("--page", default="", metavar="HOST:PORT", help="Serve the live page and /metrics there.")
def serve(span_s: float | None, server: str | None, undo: bool, fresh: bool, **given: Any) -> int:
    """Tune this host's clients and learn from their page loads, until Ctrl-C; then restore the previous settings.

    All clients keep Default until --begin-with page loads have come in. Then each epoch has a map, which reaches the
    clients by stages. What the guard, --bound or the driver refuses is never tried. After a kill Default is restored
    within three seconds, by a lease, and the same command resumes. See docs/learn.md.

    Needs the extras `learn` and `fleet`, and root. Exit code 5: these or a driver are missing; 6: another process tunes
    here.
    """
    if undo and not server:
        raise BadInput("--undo without --setup: name the web server, as in --setup nginx --undo")
    if server:
        # Set the web server up, or take that back, and print what was done.
        from configtron.service.outcomes.web_setup import SetupOptions, set_up, take_back

        if fresh or span_s is not None:
            raise BadInput("--fresh and --for are of one run; leave them out of the unit that --setup writes")
        taken = {name: given.pop(name) for name in ("beacons", "log_path", "log_group", "ports")}
        more = tuple(word for name in typed() if name in given for word in retyped(name, given[name]))
        for line in take_back(server) if undo else set_up(SetupOptions(server, more=more, **taken)):
            say(line)
        return DONE
    from configtron.service.learning.serve_local import serve_local, serve_options, until

    log_progress()
    with asked_to_stop() as stopping:
        serve_local(serve_options(settings().db, fresh=fresh, **given), until(stopping, span_s))
        return INTERRUPTED if stopping() else DONE
