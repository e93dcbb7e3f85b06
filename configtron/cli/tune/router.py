# SPDX-License-Identifier: MIT
"""`configtron tune router`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from configtron.cli.options import FILE, form_options
from configtron.cli.output import rows_to, say
from configtron.cli.settings import settings
from configtron.model.choices import WEB_SERVERS
from configtron.model.errors import BadInput
from configtron.report.files import opened


@click.command()
@click.argument("name", metavar="{nginx|apache|haproxy}", type=click.Choice(WEB_SERVERS))
@click.option("--map", "file", type=FILE, metavar="FILE", help="Map file that the server reads; see --example.")
@click.option("--pool", "pools", multiple=True, metavar="NAME[:KNOB=VALUE,...]",
              help="A pool as its servers are set up, e.g. new:http_version=h2; may be repeated.")  # fmt: skip
@click.option("--default", metavar="NAME", default="", help="Pool of all other clients.  [default: the first]")
@click.option("--config", metavar="FILE", default="", help="Main configuration file, if not the packaged one.")
@click.option("--check", metavar="COMMAND", default="", help="Command that checks the file, if not as packaged.")
@click.option("--reload", metavar="COMMAND", default="", help="Command that reloads, if not as packaged.")
@click.option("--pid-file", metavar="FILE", default="", help="HAProxy's PID file.  [default: /run/haproxy.pid]")
@click.option("-n", "--dry-run", is_flag=True, help="Print the map; write nothing.")
@click.option("--rollback", is_flag=True, help="Exchange the map with the one before.")
@click.option("--example", is_flag=True, help="Print how the server's configuration uses the map.")
@form_options
def router(file: Path | None, dry_run: bool, rollback: bool, example: bool, form: str, output_file: str, **front: Any
           ) -> None:  # fmt: skip
    """Route the clients of each prefix to a pool of servers that is set up as their profile asks.

    HTTP version and SETTINGS are a server's own: a profile with such knobs is put in force by the pool that serves
    them. The map is written whole or not at all, checked by the server and loaded by its graceful reload; if the check
    fails, the old map is put back. docs/tune.md explains pools and servers. Exit codes: 2, no pool serves a profile, or
    --map is missing; 5, the server is not installed; 6, it refuses the map, and the old one is back, or another process
    writes it.
    """
    from configtron.service.lease import rows
    from configtron.service.lease import server_pools as service

    served = service.FrontServer(**front)
    if example:
        click.echo(service.example_config(served, str(file or "/etc/configtron.map")), nl=False)
    elif file is None and not dry_run:
        raise BadInput("which map? name it by --map FILE, as in the server's configuration (--example shows it)")
    elif rollback and file is not None:
        service.rollback_map(served, file)
        say("the map before is in force again")
    elif dry_run or file is None:
        served.installed()
        _, text = service.pool_map(settings().db, served)
        with opened(output_file) as stream:
            stream.write(text)
    else:
        routed, news = service.publish_map(settings().db, served, file)
        with rows_to(form, output_file) as write:
            write(rows.POOL_COLUMNS, rows.pool_rows(routed))
        say(f"{file}: {'in force' if news else 'was so already, nothing done'}")
