# SPDX-License-Identifier: MIT
"""What the guest wrote down, beside what was wanted: the table, and every difference in words.

Question   Did each driver give every client what the rules say, did its rollback leave nothing, and can a choice that
           is keyed by gateways do the same?
Method     The initial window is read from the captures by our passive readers, the congestion control was asked of the
           server's kernel; what is left is the difference of two snapshots of the kernel's whole state.
Fails as   a sentence for each: a client that got something else, a step that failed, a plan that wrote, a thing that a
           rollback left, a snapshot that changes by itself, a gateway's choice that did distinguish two clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.tuned.inside import AS_WANTED, PAIR
from benchmarks.tuned.page import Scene, Sight, Sights, Subject
from benchmarks.tuned.place import CLIENTS, UNTOUCHED, Client
from benchmarks.tuned.reading import flights

BY_NAME = {client.name: client for client in CLIENTS}


def sights(found: dict[str, Any], folder: Path) -> dict[str, dict[str, Sight]]:
    """By watch and client: what was wanted, what was seen."""
    drivers = {scene["name"] for scene in found["scenes"]}
    made: dict[str, dict[str, Sight]] = {}
    for watch, output in found["watches"].items():
        seen = flights(folder / f"{watch}.pcap")
        made[watch] = {}
        for client in CLIENTS:
            if client.address not in seen:
                raise SystemExit(f"{watch}: the capture holds no connection of {client.name} ({client.address})")
            wanted = client.tuned if watch in drivers else UNTOUCHED
            flight = seen[client.address]
            made[watch][client.name] = Sight(wanted, output[client.name], flight.reading, flight.trace)
    return made


def subjects() -> list[Subject]:
    """The clients, for the page."""
    return [Subject(client.name, client.prefix, client.rtt_ms, _wants(client)) for client in CLIENTS]


def _wants(client: Client) -> str:
    return f"{client.congestion} {client.initcwnd}" if client.congestion else "no rule"


def scenes(found: dict[str, Any]) -> list[Scene]:
    """The drivers, for the page."""
    return [
        Scene(scene["name"], tuple((command, output) for command, output, _ in scene["steps"]), tuple(scene["left"]))
        for scene in found["scenes"]
    ]


def wrong(found: dict[str, Any], seen: Sights) -> list[str]:
    """Every difference, in words."""
    bad = [f"a snapshot changes without a driver: {line}" for line in found["restless"]]
    for watch, clients in by_prefix(seen).items():
        bad += [_difference(watch, name, sight) for name, sight in clients.items() if not sight.agrees]
    bad += _failed("wishes", found["wished"])
    for scene in found["scenes"]:
        bad += _failed(scene["name"], scene["steps"])
        bad += [f"{scene['name']}: its plan wrote: {line}" for line in scene["written_by_plan"]]
        bad += [f"{scene['name']}: {line}" for line in scene["left"]]
    bad += [f"gateway: {line}" for line in found["left_by_gateway"]]
    for name in PAIR:
        watch = AS_WANTED.format(name)
        given = {client: seen[watch][client].congestion for client in PAIR}
        if set(given.values()) != {BY_NAME[name].congestion}:
            bad.append(f"{watch}: one choice for the gateway gave {given}")
    return bad


def _failed(name: str, steps: Iterable[tuple[str, str, int]]) -> list[str]:
    return [f"{name}: exit code {code} of: {command}\n{output}" for command, output, code in steps if code]


def _difference(watch: str, name: str, sight: Sight) -> str:
    wanted = " ".join(map(str, sight.wanted))
    return f"{watch}: {name} got {sight.seen} (grade {sight.reading.grade}) instead of {wanted}"


def table(seen: Sights) -> str:
    """Clients down, watches across, in blocks that fit a terminal; "!" marks what is not as wanted."""
    head = ["client", "prefix", "rtt", "rules", *by_prefix(seen)]
    rows = [head]
    for client in CLIENTS:
        cells = [_cell(seen[watch][client.name]) for watch in head[4:]]
        rows.append([client.name, client.prefix, f"{client.rtt_ms} ms", _wants(client), *cells])
    return aligned(rows)


def by_prefix(seen: Sights) -> dict[str, Mapping[str, Sight]]:
    """The watches without those of the gateway's choice."""
    gateways = {AS_WANTED.format(name) for name in PAIR}
    return {watch: clients for watch, clients in seen.items() if watch not in gateways}


def _cell(sight: Sight) -> str:
    return sight.seen if sight.agrees else f"{sight.seen} !"


def by_gateway(found: dict[str, Any], seen: Sights) -> list[list[str]]:
    """The two clients behind one gateway, by prefix and by gateway."""
    watches = [*(scene["name"] for scene in found["scenes"]), *(AS_WANTED.format(name) for name in PAIR)]
    rows = [["congestion control of", *(f"{name} (wants {BY_NAME[name].congestion})" for name in PAIR), "both right"]]
    for watch in watches:
        given = [seen[watch][name].congestion for name in PAIR]
        right = all(seen[watch][name].congestion == BY_NAME[name].congestion for name in PAIR)
        rows.append([watch, *given, "yes" if right else "no"])
    return rows


def aligned(rows: list[list[str]]) -> str:
    """Columns as wide as their widest word."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
