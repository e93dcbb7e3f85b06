# SPDX-License-Identifier: MIT
"""The drivers, best first: each name, and the module of its class, which is imported at first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from configtron.model.errors import BadInput
from configtron.model.protocols import Driver, Mover, PerListener
from configtron.model.tuning import Place
from configtron.tune import pools
from configtron.tune.capabilities import DriverTables

# It sets nothing of the host: no plan falls back to it, and it claims no namespace.
FOR_TRIALS = "memory"
# Order of preference where the user names none.
DRIVERS: Mapping[str, str] = {
    "kmod": "configtron.tune.drivers.kmod.kmod_driver:KmodDriver",
    "ebpf": "configtron.tune.drivers.bpf.ebpf_driver:EbpfDriver",
    "route": "configtron.tune.drivers.route.route_driver:RouteDriver",
    "sysctl": "configtron.tune.drivers.sysctl:SysctlDriver",
    "memory": "configtron.tune.drivers.memory:MemoryDriver",
}


def load(name: str, place: Place) -> Driver:
    """Return the driver of that name for a place. Errors: `BadInput`."""
    if name not in DRIVERS:
        raise BadInput(f"no driver is called {name!r}; there is: {', '.join(DRIVERS)}")
    module, _, kind = DRIVERS[name].partition(":")
    return cast(Driver, getattr(import_module(module), kind)(place))


def tables() -> dict[str, DriverTables]:
    """Return each driver's reach on a host that has all it needs, with reasons for other knobs; the router's too."""
    found = {name: _table(load(name, Place())) for name in DRIVERS if name != FOR_TRIALS}
    return found | {"router": DriverTables(pools.REACHES, pools.REFUSED)}


def _table(driver: Driver) -> DriverTables:
    moves, listens = isinstance(driver, Mover), isinstance(driver, PerListener)
    return DriverTables(driver.reachable, driver.unreachable, moves, listens)
