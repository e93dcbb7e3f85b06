# SPDX-License-Identifier: MIT
"""`configtron tune agent`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from configtron.cli.output import say
from configtron.cli.param_types import NamedPath
from configtron.cli.tune.options import log_options, sites_option
from configtron.cli.tune.resolved import lease_options
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED, path_errors
from configtron.report.log_lines import log_progress

# Characters of a line to join by, with room: names and keys have bounds.
MOST_LINE = 4096
FOLDER, USER = Path("/var/lib/configtron-agent"), "configtron-agent"


@click.command()
@click.option("--folder", type=NamedPath(file_okay=False, readable=False, path_type=Path), default=FOLDER,
              show_default=True, help="The agent's keys, its manager's address, its spool.")  # fmt: skip
@click.option("--user", default=USER, show_default=True, metavar="NAME",
              help="User of the process that has the network; this process stays root.")  # fmt: skip
@click.option("--beacons", metavar="HOST:PORT", help="Where the web server passes beacons of page loads on to, as in"
              " 127.0.0.1:9315; without it, none are taken.")  # fmt: skip
@log_options
@sites_option
@click.option("--join", "line", metavar="LINE", help="Join the manager that printed this line, and end; - reads it from"
              " standard input, @FILE from a file.")  # fmt: skip
@click.option("--key", is_flag=True, help="Print this host's public key for `enroll --key`, and end.")
@click.option("--metrics", default="", metavar="HOST:PORT", help="Serve /metrics there; no password: use loopback.")
@click.option("--retune-open", is_flag=True, help="Re-tune open connections too where a prefix's class changes.")
def agent(folder: Path, user: str, beacons: str | None, log_path: Path | None, log_group: str, line: str | None,
          **more: Any) -> int:  # fmt: skip
    """Apply the maps of a manager (`configtron learn manager`) until Ctrl-C, and send it outcomes.

    What a human set by `tune profile` and `tune prefix` is not touched; --bound and --allow-unfair travel to the
    manager, which chooses within them. Rules last as long as the map's lease, some seconds: when the agent ends, or is
    killed, what stood before comes back. A foreign change freezes this host until `tune unfreeze`. With --beacons, page
    loads of visitors are sent too, without addresses; for the web server see docs/learn.md.
    """
    from configtron.service.fleet import enrolment
    from configtron.service.fleet.agent import AgentOptions, run_agent
    from configtron.service.fleet.page_intake import pages_options

    if more.pop("key"):
        click.echo(enrolment.own_key(folder, user))
        return DONE
    if line is not None:
        if line == "-" or line.startswith("@"):
            with path_errors(line), click.open_file(line.removeprefix("@"), errors="replace") as file:
                lines = iter(partial(file.readline, MOST_LINE), "")
                line = next(filter(None, (each.strip("\ufeff \t\r\n") for each in lines)), "")
        joining = enrolment.join_line(line)
        address = enrolment.join(folder, joining, user)
        joined = f"joined {address.endpoint}" + (f" as {joining.name}" if joining.name else " by its next key")
        say(f"{joined}; next: systemctl enable --now configtron-agent (in a terminal: configtron tune agent)")
        return DONE
    log_progress()
    with asked_to_stop() as stopping:
        pages = pages_options(beacons, log_path, log_group, more.pop("sites"))
        run_agent(AgentOptions(lease_options(), folder, user, pages, **more), stop=stopping)
        return INTERRUPTED if stopping() else DONE
