# SPDX-License-Identifier: MIT
"""Options that several commands of `tune` share. Given to `tune` itself, or under [tune], they hold for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli.completing import drivers
from configtron.cli.options import Decorator, with_options
from configtron.cli.param_types import Finite, NamedPath
from configtron.cli.probe.names import interface_name
from configtron.model.choices import MAX_PREFIXES

SHARE = Finite(0, 1)


# The driver, and the place where it acts.
where_options = with_options(
    click.option("--driver", metavar="NAME", shell_complete=drivers,
                 help="Driver: auto (the default), or one that doctor lists."),
    click.option("--netns", type=NamedPath(), metavar="NAME", help="Network namespace; else the current one."),
    click.option("--interface", metavar="NAME", callback=interface_name,
                 help="Interface whose routes are set; else the default route's."),
    click.option("--cgroup", type=NamedPath(), metavar="PATH", help="Only connections of this cgroup; else of all."),
    click.option("--listen", multiple=True, metavar="PORT",
                 help="Only connections to this port, or address:port; may be repeated."),
)  # fmt: skip


log_socket_option = click.option("--log-socket", "log_path", type=NamedPath(dir_okay=False, path_type=Path),
                                 metavar="PATH", help="Socket of the web server's access log."
                                 "  [default: /run/configtron/outcomes.log]")  # fmt: skip
sites_option = click.option("--sites", default="", metavar="NAME,...", help="Hosts that are sites of their own, and"
                            " patterns (*.example.org), each one site; all others count as one.  [default: each host is"
                            " a site]")  # fmt: skip
beacons_option = click.option("--beacons", default="127.0.0.1:9315", show_default=True, metavar="HOST:PORT",
                              help="Where the web server passes beacons on to.")  # fmt: skip


def ports_option(text: str = "Port of the web server; repeat for more.", **more: Any) -> Decorator:
    """Return the option of several TCP ports."""
    return click.option("--port", "ports", type=click.IntRange(1, 65_535), multiple=True, metavar="PORT", help=text,
                        **(more or {"default": (80, 443), "show_default": True}))  # fmt: skip


# The web server's access log, for what learns from page loads.
log_options = with_options(
    log_socket_option,
    click.option("--log-group", default="", metavar="NAME",
                 help="Group that may write to this socket.  [default: of the web server's workers, or www-data]"),
)  # fmt: skip


RANGE = click.option("--bound", multiple=True, metavar="KNOB=RANGE", help="Bounds of a knob: initcwnd=1..30,"
                     " tcp_congestion_control=cubic|reno; repeat for more.")  # fmt: skip
FAIRNESS = click.option("--allow-unfair", is_flag=True, default=None,
                        help="Allow profiles that take more than their share from cubic.")  # fmt: skip


# What the operator allows; the same of single profiles.
policy_options = with_options(
    RANGE,
    click.option("--max-prefixes", type=click.IntRange(0), metavar="N",
                 help=f"Largest number of prefixes.  [default: {MAX_PREFIXES}]"),
    click.option("--holdback", type=SHARE, metavar="SHARE",
                 help="Control group: share of prefixes, always the same ones, that is never touched; 0 to 1."),
    click.option("--canary", type=SHARE, metavar="SHARE", help="Change only this share of prefixes now; 0 to 1."),
    FAIRNESS,
)  # fmt: skip
guard_options = with_options(RANGE, FAIRNESS)
