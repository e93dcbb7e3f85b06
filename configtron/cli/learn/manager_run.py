# SPDX-License-Identifier: MIT
"""`configtron learn manager run`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.learn.enrolment import KEYS, key_folder
from configtron.cli.learn.options import stage_options
from configtron.cli.options import INPUT_FILE
from configtron.cli.settings import settings
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED
from configtron.report.log_lines import log_progress


@click.command(short_help="Run the manager.")
@click.option("--endpoint", default="tcp://0.0.0.0:5560", show_default=True, metavar="tcp://ADDRESS:PORT",
              help="Where agents connect; offers are one port above.")  # fmt: skip
@KEYS
@click.option("--map", "map_file", type=INPUT_FILE, metavar="FILE",
              help="Publish the map in this JSON file, again whenever it changes; learn nothing.")  # fmt: skip
@click.option("--policy", metavar="POLICY", help="Learn by it which of the database's profiles is best: extra `learn`.")
@click.option(
    "--after-term", type=click.IntRange(0), default=0, metavar="N", help="After a restore: begin above term N."
)
@click.option("--fresh", is_flag=True, help="Forget what was learned, or the map file's draw; outcomes stay.")
@stage_options
def run(endpoint: str, keys: Path | None, map_file: Path | None, policy: str | None, after_term: int, fresh: bool,
        stages: bool, stage_clients: int, dark_hours: int) -> int:  # fmt: skip
    """Run the manager until Ctrl-C. Its log goes to stderr. A policy's maps reach clients by stages (docs/loop.md).

    Of two managers of the same agents the one that started later goes on; the other stops by a line that names both.
    Exit code 2: an option, the database or a key does not fit; 5: an extra or a permission is missing; 6: another
    manager is obeyed. The unit (`tune unit --fleet`) does not start it again after these.
    """
    from configtron.service.fleet.makers import maker_and_stages
    from configtron.service.fleet.manager import ManagerOptions, run_manager
    from configtron.service.fleet.stages import StageOptions

    log_progress()
    options = ManagerOptions(settings().db, key_folder(keys), endpoint, after_term, fresh)
    maker, by_stages = maker_and_stages(options, map_file, policy, StageOptions(stage_clients, dark_hours, stages))
    with asked_to_stop() as stopping:
        run_manager(options, maker, stop=stopping, stages=by_stages)
        return INTERRUPTED if stopping() else DONE
