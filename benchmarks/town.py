# SPDX-License-Identifier: MIT
"""A town on this host: one real nginx behind thirty-two thousand addresses, and vantages to probe it from.

The server's namespace holds every address of 198.19.0.0/17 (AnyIP: one route, no list), and for campaigns larger than
that of 10.64.0.0/13; 198.19.128.0/17 is its dark half, where no host answers. Each vantage is a namespace of its own,
whose source address no kernel owns; between them and the town lies a road, a namespace that forwards, where packets can
be lost.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from configtron.linux.netns import inside
from configtron.model.nouns import Vantage
from configtron.probe.wire.namespaces import ip
from tests.support.namespaces import own_namespace, throwaway
from tests.support.servers import SERVERS, running

# Addresses for benchmarks between devices of one's own (RFC 2544): never routed.
LIT, DARK = "198.19.0.0/17", "198.19.128.0/17"
# More addresses than those have, half a million: private ones, inside these namespaces only.
MANY = "10.64.0.0/13"
# The ends of the road.
AT_ROAD, AT_TOWN = "198.18.255.1", "198.18.255.2"


@dataclass(frozen=True, slots=True)
class Town:
    """The namespaces of the server and of the road to it, and where to look from."""

    netns: str
    road: str
    vantages: tuple[Vantage, ...]


@contextmanager
def town(vantages: int = 1) -> Iterator[Town]:
    """The town, standing; gone on every exit path."""
    with ExitStack() as stack:
        netns = stack.enter_context(throwaway("town"))
        road = stack.enter_context(throwaway("road"))
        ip("link", "add", "town", "type", "veth", "peer", "name", "eth0", "netns", netns, netns=road)
        for device, address, place in (("town", AT_ROAD, road), ("eth0", AT_TOWN, netns)):
            ip("addr", "add", f"{address}/30", "dev", device, netns=place)
            ip("link", "set", device, "up", netns=place)
        ip("route", "add", "default", "via", AT_ROAD, netns=netns)
        for block in (LIT, MANY):
            ip("route", "add", "local", block, "dev", "lo", netns=netns)
        for block in (LIT, DARK, MANY):
            ip("route", "add", block, "via", AT_TOWN, netns=road)
        with inside(road):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        found = [stack.enter_context(own_namespace(road, name=f"v{n}"))[0] for n in range(vantages)]
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="configtron-town-")))
        stack.enter_context(running(SERVERS["nginx"], "0.0.0.0", folder, netns))
        yield Town(netns, road, tuple(found))


def lit(number: int) -> str:
    """An address where the server answers."""
    return f"198.19.{number // 250}.{1 + number % 250}"


def one_of_many(number: int) -> str:
    """An address where the server answers; more of them than `lit` has."""
    return f"10.{64 + number // 62500}.{number // 250 % 250}.{1 + number % 250}"


def dark(number: int) -> str:
    """Return an address where no host answers."""
    return f"198.19.{128 + number // 250}.{1 + number % 250}"


def command(folder: Path, standing: Town, addresses: list[str], *more: str) -> list[str]:
    """The words that make the program probe these addresses from all vantages; its files are laid into `folder`."""
    (folder / "vantages.toml").write_text(
        "".join(
            f'[[vantage]]\nname = "{v.name}"\nregion = "{v.name}"\nnetns = "{v.netns}"\ninterface = "{v.interface}"\n'
            f'source_address = "{v.source_address}"\n'
            for v in standing.vantages
        )
    )
    (folder / "targets.txt").write_text("".join(f"{address}\n" for address in addresses))
    # Without this the special ranges, which these addresses are from, would not be probed.
    (folder / "allowed.txt").write_text(f"{LIT}\n{DARK}\n{MANY}\n")
    files = ["-i", folder / "targets.txt", "--vantages", folder / "vantages.toml", "-w", folder / "allowed.txt"]
    limits = ["--per-host-rate", "0", "--per-network-rate", "0"]
    words = ["--db", folder / "town.db", "-q", "probe", "run", *files, *limits]
    return [sys.executable, "-m", "configtron", *map(str, words), "-n", str(len(addresses)), *more]
