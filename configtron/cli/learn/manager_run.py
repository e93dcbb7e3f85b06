# SPDX-License-Identifier: MIT
"""`configtron learn manager run`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.learn.enrolment import KEYS, key_folder
from configtron.cli.options import INPUT_FILE
from configtron.cli.settings import settings
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED, BadInput
from configtron.report.log_lines import log_progress

ENDPOINT = "tcp://0.0.0.0:5560"


@click.command(short_help="Run the manager.")
@click.option("--endpoint", default=ENDPOINT, show_default=True, metavar="tcp://ADDRESS:PORT",
              help="Where agents connect; offers are one port above.")  # fmt: skip
@KEYS
@click.option("--map", "map_file", type=INPUT_FILE, metavar="FILE",
              help="Publish the map in this JSON file, again whenever it changes; learn nothing.")  # fmt: skip
@click.option(
    "--policy",
    metavar="POLICY",
    help="Learn by this policy which of the database's profiles is best; needs the extra `learn`.",
)
@click.option("--after-term", type=click.IntRange(0), default=0, metavar="N",
              help="Begin with a term above N: for a database that was restored.")  # fmt: skip
@click.option("--fresh", is_flag=True, help="Forget what was learned, or the map file's draw; outcomes stay.")
def run(
    endpoint: str, keys: Path | None, map_file: Path | None, policy: str | None, after_term: int, fresh: bool
) -> int:  # fmt: skip
    """Run the manager until Ctrl-C. Its log goes to stderr.

    A second manager of the same agents is refused by them: the one that started later goes on, the other stops with a
    line that names both. Exit code 2: an option, the database or a key does not fit; 5: an extra or a permission is
    missing; 6: this one was refused. The unit (`tune unit --fleet`) does not start it again after these.
    """
    from configtron.learner.map_making import MapOptions
    from configtron.service.fleet.makers import FileMapMaker, learning_maker
    from configtron.service.fleet.manager import ManagerOptions, run_manager

    if (map_file is None) == (policy is None):
        raise BadInput("name either --map FILE or --policy POLICY (configtron learn policies)")
    log_progress()
    database = settings().db
    maker = FileMapMaker(map_file) if map_file else learning_maker(database, policy or "", MapOptions())
    with asked_to_stop() as stopping:
        run_manager(ManagerOptions(database, key_folder(keys), endpoint, after_term, fresh), maker, stop=stopping)
        return INTERRUPTED if stopping() else DONE
