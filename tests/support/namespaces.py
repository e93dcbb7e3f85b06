# SPDX-License-Identifier: MIT
"""Network namespaces for tests and benchmarks: made, joined by a veth pair, and gone afterwards.

Their names are those that `configtron.probe.wire.namespaces` reads: the next start finds what a killed one left.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from configtron.linux.netns import NAMED, is_absent
from configtron.model.errors import Missing
from configtron.model.nouns import Vantage
from configtron.probe.wire.namespaces import abandoned, addresses, ip, owner

# Addresses for benchmarks between devices of one's own (RFC 2544 C.2.2, RFC 6890): never routed, in no use.
BENCHMARK_NET = "198.18"
_serial = count()


def sweep() -> list[str]:
    """Remove the namespaces that dead processes left; their names."""
    left = sorted(p.name for p in NAMED.iterdir() if abandoned(p.name)) if NAMED.is_dir() else []
    for name in left:
        try:
            ip("netns", "del", name)
        except Missing:
            # Another start may have swept it meanwhile.
            if not is_absent(name):
                raise
    return left


@contextmanager
def throwaway(what: str) -> Iterator[str]:
    """Yield an empty namespace with its loopback up; its name. Removed on every exit path, swept at the next start."""
    sweep()
    name = f"configtron-{owner()}-{what}{next(_serial)}"
    ip("netns", "add", name)
    try:
        ip("link", "set", "lo", "up", netns=name)
        yield name
    finally:
        ip("netns", "del", name)


@contextmanager
def own_namespace(peer: str = "", *, name: str = "here", mtu: int = 1500) -> Iterator[tuple[Vantage, str]]:
    """A vantage in a namespace of its own, joined by a veth pair to `peer` ("": the host); with the peer's address.

    Inside, our source address is on no interface, so no kernel answers for it with a RST. The peer finds it by a
    permanent neighbour entry on the veth's end, which is ours as well.
    """
    with throwaway("x") as netns:
        # the first third octet of the benchmark net without an address on this host
        used = {a.split(".")[2] for a in addresses(peer) if a.startswith(f"{BENCHMARK_NET}.")}
        third = next(n for n in range(1, 255) if str(n) not in used)
        network, six = f"{BENCHMARK_NET}.{third}", f"fd00:c0f1:{third:x}:"
        theirs, kernels, ours = (f"{network}.{n}" for n in (1, 2, 3))
        # Interface names hold 15 characters.
        device = f"ct{os.getpid()}x{third}"
        pair = ("link", "add", device, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "netns", netns)
        ip(*pair, netns=peer)
        try:
            inside = json.loads(ip("-json", "link", "show", "eth0", netns=netns))[0]["address"]
            ip("link", "set", "eth0", "mtu", str(mtu), "up", netns=netns)
            ip("link", "set", device, "up", netns=peer)
            ip("addr", "add", f"{kernels}/24", "dev", "eth0", netns=netns)
            ip("addr", "add", f"{six}:2/64", "dev", "eth0", "nodad", netns=netns)
            ip("addr", "add", f"{theirs}/24", "dev", device, netns=peer)
            ip("addr", "add", f"{six}:1/64", "dev", device, "nodad", netns=peer)
            for address in (ours, f"{six}:3"):
                ip("neigh", "replace", address, "lladdr", inside, "nud", "permanent", "dev", device, netns=peer)
            ip("route", "add", "default", "via", theirs, netns=netns)
            ip("-6", "route", "add", "default", "via", f"{six}:1", netns=netns)
            yield Vantage(name, name, netns, "eth0", ours, f"{six}:3"), theirs
        finally:
            ip("link", "del", device, netns=peer)
