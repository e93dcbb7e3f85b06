# SPDX-License-Identifier: MIT
"""One seed of the simulated fleet, run to its end."""

from __future__ import annotations

import logging
from pathlib import Path

from tests.support.fleet_world import World


def ran(seed: int, folder: Path) -> World:
    """Return the world of a seed after its run, which logs nothing; its files lie in a new folder below this one."""
    (folder / str(seed)).mkdir(parents=True)
    world = World(seed, folder / str(seed))
    logging.disable(logging.CRITICAL)
    try:
        world.run()
    finally:
        logging.disable(logging.NOTSET)
    return world
