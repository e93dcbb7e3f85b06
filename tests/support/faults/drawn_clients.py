# SPDX-License-Identifier: MIT
"""The module in a guest, clients that it draws for, and the arms that they have by a draw of the judge's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any

from configtron.linux.netns import inside
from configtron.model.draw import PARTS
from tests.support.faults.real_fleet import RealFleet
from tests.support.fleet_siphash import siphash, slice_of
from tests.support.tune import kmod_net

CLIENTS = [f"10.1.{at}.5" for at in range(12)]
# Default's first window, and those of the class's arms in their order.
DEFAULT, WINDOWS = 10, (20, 30)
LEASE_S = 10.0
FORM: dict[str, Any] = {
    "profiles": {"fast": {"initcwnd": WINDOWS[0]}, "faster": {"initcwnd": WINDOWS[1]}},
    "mixes": {"near": {"fast": 0.5, "faster": 0.5}}, "prefixes": {"10.1.0.0/16": "near"}, "ports": [kmod_net.PORT4],
    "lease_s": LEASE_S,
}  # fmt: skip


@contextmanager
def served(module: str) -> Iterator[Callable[[], list[int]]]:
    """Load the module; yield what returns the first window of a new connection of each client."""
    kmod_net.load(module)
    with kmod_net.hosts():
        kmod_net.delayed(0.001)
        listener = kmod_net.listener(kmod_net.PORT4)

        def windows() -> list[int]:
            found = []
            for address in CLIENTS:
                client, accepted = kmod_net.connected(listener, address, kmod_net.PORT4)
                with client, accepted:
                    found.append(kmod_net.window(accepted))
            return found

        with inside("s"):
            yield windows


def drawn(fleet: RealFleet, epoch: int) -> list[int]:
    """Return the windows of the clients' arms in an epoch, by the key that the manager's database has."""
    mix = tuple((str(window), PARTS // len(WINDOWS)) for window in WINDOWS)
    units = [0xFFFF << 32 | int(ip_address(address)) for address in CLIENTS]
    return [WINDOWS[slice_of(mix, siphash(fleet.key(), epoch, unit) & 0xFFFF)] for unit in units]
