# SPDX-License-Identifier: MIT
"""Network namespaces of our own: made, joined by a veth pair, and gone afterwards.

Names carry the maker's pid and its start time (`configtron-<pid>-<start>-<what>`), so that the next start can find the
namespaces of a killed process even when another has its pid. A namespace takes its devices with it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from configtron.linux.netns import NAMED, is_absent
from configtron.model.errors import Missing
from configtron.model.nouns import Vantage

# Addresses for benchmarks between devices of one's own (RFC 2544 C.2.2, RFC 6890): never routed, in no use.
BENCHMARK_NET = "198.18"
_PREFIX = "configtron"
_serial = count()


def ip(*arguments: str, netns: str = "") -> str:
    """Run iproute2's `ip`, in a namespace when named; its output."""
    command = ["ip", *(("-n", netns) if netns else ()), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise Missing("the `ip` program is absent; run: apt-get install iproute2") from None
    except subprocess.CalledProcessError as problem:
        raise Missing(f"`{' '.join(command)}` failed: {problem.stderr.strip()}") from None


def addresses(netns: str) -> dict[str, str]:
    """Return every address that the kernel owns in a namespace -> its device."""
    links = json.loads(ip("-json", "addr", "show", netns=netns))
    return {a["local"]: link["ifname"] for link in links for a in link.get("addr_info", ()) if "local" in a}


def owner(pid: int | None = None) -> str:
    """Return a living process as "<pid>-<start time>"; "" of a dead one."""
    pid = os.getpid() if pid is None else pid
    try:
        # The second field of /proc/PID/stat may hold spaces, so count from its closing bracket: state, ..., start time.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    # Killed but not yet waited for (Z, X) is dead as well.
    return "" if fields[0] in "ZX" else f"{pid}-{fields[19]}"


def abandoned(name: str) -> bool:
    """Return whether a `configtron-<pid>-<start>...` (or with underscores) was left by a process that is gone."""
    parts = name.replace("_", "-").split("-")
    if len(parts) < 3 or parts[0] != _PREFIX or not (parts[1].isdigit() and parts[2].isdigit()):
        return False
    return owner(int(parts[1])) != f"{parts[1]}-{parts[2]}"


def is_own(name: str) -> bool:
    """Return whether a namespace is one that a living process of ours made."""
    return name.startswith(f"{_PREFIX}-") and name.count("-") >= 3 and not abandoned(name)


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
    name = f"{_PREFIX}-{owner()}-{what}{next(_serial)}"
    ip("netns", "add", name)
    try:
        ip("link", "set", "lo", "up", netns=name)
        yield name
    finally:
        ip("netns", "del", name)


def _unused(taken: Iterable[str]) -> int:
    """Return the first third octet of the benchmark net without an address on this host."""
    used = {a.split(".")[2] for a in taken if a.startswith(f"{BENCHMARK_NET}.")}
    return next(n for n in range(1, 255) if str(n) not in used)


@contextmanager
def own_namespace(peer: str = "", *, name: str = "here", mtu: int = 1500) -> Iterator[tuple[Vantage, str]]:
    """A vantage in a namespace of its own, joined by a veth pair to `peer` ("": the host); with the peer's address.

    Inside, our source address is on no interface, so no kernel answers for it with a RST. The peer finds it by a
    permanent neighbour entry on the veth's end, which is ours as well.
    """
    with throwaway("x") as netns:
        third = _unused(addresses(peer))
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
