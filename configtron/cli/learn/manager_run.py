# SPDX-License-Identifier: MIT
"""`configtron learn manager run`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from configtron.cli.learn.options import KEYS, key_folder, stage_options
from configtron.cli.options import INPUT_FILE
from configtron.cli.settings import settings
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED
from configtron.report.log_lines import log_progress


@click.command()
@click.option("--endpoint", default="tcp://*:5560", show_default=True, metavar="tcp://ADDRESS:PORT",
              help="Where agents connect.")  # fmt: skip
@KEYS
@click.option("--map", "map_file", type=INPUT_FILE, metavar="FILE",
              help="Publish the map in this JSON file, again whenever it changes; learn nothing.")  # fmt: skip
@click.option("--policy", metavar="POLICY", help="Learn by this which profile is best; needs the extra `learn`.")
@click.option("--strategies", default="", metavar="NAME=SHARE,...",
              help="For --policy initial: the share of clients of each strategy (docs/studies.md).")  # fmt: skip
@click.option("--after-term", type=click.IntRange(0), default=0, metavar="N", help="After a restore: begin above N.")
@click.option("--fresh", is_flag=True, help="Forget what was learned and how clients were assigned; outcomes stay.")
@stage_options
@click.option("--metrics", default="", metavar="HOST:PORT", help="Serve the live page and /metrics there.")
def run(keys: Path | None, map_file: Path | None, policy: str | None, strategies: str, **given: Any) -> int:
    """Run the manager until Ctrl-C. A policy's maps reach clients by stages (docs/learn.md). If an agent has two
    managers, the one that started later continues; the other prints both and stops. Exit code 2: an option, the
    database or a key does not fit; 5: an extra or a permission is missing; 6: agents follow another manager. The unit
    (`tune unit --fleet`) does not start it again after these."""
    from configtron.service.fleet.makers import chosen_maker
    from configtron.service.fleet.manager import ManagerOptions, run_manager
    from configtron.service.fleet.stages import StageOptions

    log_progress()
    staged = StageOptions(given.pop("stage_clients"), given.pop("dark_hours"), given.pop("stages"))
    options = ManagerOptions(settings().db, key_folder(keys), argv=tuple(sys.argv[1:]), **given)
    maker = chosen_maker(options, map_file, policy, staged, strategies)
    with asked_to_stop() as stopping:
        run_manager(options, maker, stop=stopping)
        return INTERRUPTED if stopping() else DONE
