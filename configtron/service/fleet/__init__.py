# SPDX-License-Identifier: MIT
"""A fleet as a library: the manager of many agents, the agent of one host, and what the two are run by.

    MapMaker   what a manager asks for maps: rows in, maps out
    Spool      what an agent's reader of outcomes hands its rows to

It needs the extra `fleet`. Errors are those of `configtron.model.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from configtron.service.boundary import bounded

if TYPE_CHECKING:
    from configtron.service.fleet.map_maker import FixedMapMaker, MapMaker
    from configtron.service.fleet.spool import Spool

__all__ = ["FixedMapMaker", "MapMaker", "Spool"]

# Where each name is; loaded when it is first used.
HOMES = {"map_maker": "FixedMapMaker MapMaker", "spool": "Spool"}


def __getattr__(name: str) -> object:
    for home, names in HOMES.items():
        if name in names.split():
            found = globals()[name] = bounded(getattr(import_module(f"{__name__}.{home}"), name))
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
