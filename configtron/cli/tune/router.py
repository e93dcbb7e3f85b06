# SPDX-License-Identifier: MIT
"""`configtron tune router`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from configtron.model.records import Json
    from configtron.service.lease.server_pools import FrontServer
    from configtron.tune.pools import Routing

POOL_COLUMNS = ("pool", "prefixes", "default")
SERVERS = ("nginx", "apache", "haproxy")


@click.command(short_help="Lead prefixes to pools of servers, by the server in front.")
@click.argument("server", type=click.Choice(SERVERS))
@click.option("--map", "file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The map that the server reads; --example shows how.")  # fmt: skip
@click.option("--pool", "written", multiple=True, metavar="NAME[:KNOB=VALUE,...]",
              help="A pool as its servers are set up, e.g. new:http_version=h2; several times.")  # fmt: skip
@click.option("--default", metavar="NAME", default="", help="Pool of all other clients.  [default: the first]")
@click.option("--config", metavar="FILE", default="", help="The server's main configuration file, if not its own.")
@click.option("--check", metavar="COMMAND", default="", help="How it checks its configuration, if not as packaged.")
@click.option("--reload", metavar="COMMAND", default="", help="How it reloads, if not as packaged.")
@click.option("--pid-file", metavar="FILE", default="", help="Of HAProxy's master.  [default: /run/haproxy.pid]")
@click.option("-n", "--dry-run", is_flag=True, help="Print the map; write nothing.")
@click.option("--rollback", is_flag=True, help="Exchange the map with the one before.")
@click.option("--example", is_flag=True, help="Print how the server's configuration uses the map.")
@form_options
def router(
    server: str,
    file: Path | None,
    written: tuple[str, ...],
    default: str,
    config: str,
    check: str,
    reload: str,
    pid_file: str,
    dry_run: bool,
    rollback: bool,
    example: bool,
    form: str,
    output_file: str,
) -> int:
    """Lead the clients of each prefix to a pool of servers that is set up as their profile says.

    The version of HTTP and its SETTINGS are a server's own; so a profile with such knobs (http_version, h2_...) is put
    in force by the pool that serves them. What is wanted is read from the database (`profile`, `prefix`); the map is
    written whole or not at all, checked by SERVER itself, and taken in by its graceful reload. If it finds fault, the
    old map is back. The map before is kept beside, with .old after its name.

    nginx (stream) and HAProxy (mode tcp) lead connections, before TLS: clients get the pool's own HTTP. Apache reads
    requests first, so its clients speak its HTTP, and only its pools differ.

    \b
    Exit codes: 0  the map is in force
                2  a profile that no pool serves, or no such pool
                5  the server is not here
                6  the server finds fault with the map; the old one is back
    """
    from configtron.service.lease import server_pools as pools

    front = pools.FrontServer(server, written, default, config, check, reload, pid_file)
    if example:
        click.echo(pools.example_config(front, str(file or "/etc/configtron.map")), nl=False)
        return DONE
    if file is None and not dry_run:
        raise BadInput("which map? name it by --map FILE, as in the server's configuration (--example shows it)")
    if rollback and file is not None:
        pools.rollback_map(front, file)
        return _say("the map before is in force again")
    if dry_run or file is None:
        return _print(front, output_file)
    return _publish(front, file, form, output_file)


def _print(front: FrontServer, output_file: str) -> int:
    from configtron.report.lines import opened
    from configtron.service.lease import server_pools as pools

    front.installed()
    _, text = pools.pool_map(settings().db, front)
    with opened(output_file) as stream:
        stream.write(text)
    return DONE


def _publish(front: FrontServer, file: Path, form: str, output_file: str) -> int:
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.service.lease import server_pools as pools

    routed, news = pools.publish_map(settings().db, front, file)
    with opened(output_file) as stream:
        write_rows(form, POOL_COLUMNS, _rows(routed), stream)
    return _say(f"{file}: {'in force' if news else 'was so already, nothing done'}")


def _rows(routed: Routing) -> Iterator[dict[str, Json]]:
    counts = Counter(routed.pools.values())
    for pool in sorted({*counts, routed.default}):
        yield {"kind": "pool", "pool": pool, "prefixes": counts[pool], "default": pool == routed.default}


def _say(words: str) -> int:
    if settings().loudness >= 0:
        click.echo(words, err=True)
    return DONE
