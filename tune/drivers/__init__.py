# SPDX-License-Identifier: MIT
"""The drivers, best first: each name, and where its class is. Loaded only when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from configtron.model.errors import BadInput
from configtron.model.protocols import Driver, Mover
from configtron.model.tuning import Place
from configtron.tune import pools
from configtron.tune.capabilities import Tables

# It sets nothing of the host: nobody falls back to it, and it claims no namespace.
FOR_TRIALS = "memory"
# Order of preference where the user names none.
DRIVERS: Mapping[str, str] = {
    "kmod": "configtron.tune.drivers.kmod:KmodDriver",
    "ebpf": "configtron.tune.drivers.ebpf:EbpfDriver",
    "route": "configtron.tune.drivers.route:RouteDriver",
    "sysctl": "configtron.tune.drivers.sysctl:SysctlDriver",
    "memory": "configtron.tune.drivers.memory:MemoryDriver",
}


def load(name: str, place: Place) -> Driver:
    """The driver of that name for a place. Errors: `BadInput`."""
    if name not in DRIVERS:
        raise BadInput(f"no driver is called {name!r}; there is: {', '.join(DRIVERS)}")
    module, _, kind = DRIVERS[name].partition(":")
    return cast(Driver, getattr(import_module(module), kind)(place))


def tables() -> dict[str, Tables]:
    """What each driver says that it reaches and why not the rest, whatever this kernel can; and so the router."""
    names = [name for name in DRIVERS if name != FOR_TRIALS]
    modules = {name: import_module(DRIVERS[name].partition(":")[0]) for name in names}
    moves = {name: isinstance(load(name, Place()), Mover) for name in names}
    found = {
        name: Tables(module.REACHES, module.REFUSED, moves[name], getattr(module, "LISTENS", False))
        for name, module in modules.items()
    }
    return found | {"router": Tables(pools.REACHES, pools.REFUSED)}
