# SPDX-License-Identifier: MIT
"""Reported connections -> sightings: which side of a connection is here, and what its segments show of the other.

The essay is that of `fingerprint/features.py`. A side is here if the interface has its address; if both or neither are
(loopback, a router), the server's side counts as here, because it is servers that are tuned. Where neither is, who
serves may be a guess (the SYN was not captured), and both ends are other people's: then no address counts as local.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from configtron.fingerprint.features import AddressFacts, PathFeatures, Sighting, context_of, plain, reasons, way_of
from configtron.fingerprint.passive.connection_report import ConnectionReport, ended, goodput_kbps

# Bytes of every segment that carries timestamps (RFC 7323 3.2).
STAMP_BYTES = 12
# What is sent where no MSS option was sent (RFC 9293 3.7.1).
DEFAULT_MSS = 536


def sighted(
    connection: ConnectionReport, here: Container[str], known: Callable[[str], AddressFacts], *, tainted: bool = False
) -> Sighting:
    """The sighting of one connection. `known` looks an address up, `tainted` that frames were lost."""
    ends = {"client": connection.client, "server": connection.server}
    mine = {name: plain(end.address) in here for name, end in ends.items()}
    side = "client" if mine["client"] and not mine["server"] else "server"
    other = "server" if side == "client" else "client"
    out, back = (int(connection.numbers[f"{one}_bytes"] or 0) for one in (side, other))
    way, remote = way_of(out, back), plain(ends[other].address)
    path, about = path_of(connection, side, way, tainted), known(remote)
    return Sighting(
        "live", int(connection.numbers["ended"] or 0), plain(ends[side].address) if mine[side] else "", ends[side].port,
        remote, ends[other].port, way, ended(connection), connection.duration_s, out, back, path.bounded,
        context_of(path, remote, about), reasons(path, about),
    )  # fmt: skip


def path_of(connection: ConnectionReport, side: str, way: str, tainted: bool) -> PathFeatures:
    """The numbers of the path to the other side."""
    other = "server" if side == "client" else "client"
    numbers, unknown = connection.numbers, []
    trips, steps = numbers[f"{side}_trips"], numbers[f"{side}_trip_steps"]
    rtt = (numbers[f"{side}_trip_sum"] or 0) / trips / 1e6 if trips else None
    least = numbers[f"{side}_trip_least"]
    jitter = (numbers[f"{side}_trip_change"] or 0) / steps / 1e6 if steps else None
    if way == "in":
        latest, most = None, goodput_kbps(connection, other)
        unknown.append(("delivery_kbps", "receives"))
    else:
        latest, most = _kilo(numbers[f"{side}_rate_last"]), _kilo(numbers[f"{side}_rate_most"])
        unknown += [("delivery_kbps", "no-sample" if way else "no-data")] if latest is None else []
    loss = lost(connection, other if way == "in" else side)
    unknown += [("bandwidth_kbps", "no-sample" if way else "no-data")] if most is None else []
    unknown += [("rtt_ms", "no-sample"), ("min_rtt_ms", "no-sample")] if rtt is None else []
    unknown += [("jitter_ms", "no-sample")] if jitter is None else []
    if tainted or loss is None:
        unknown.append(("loss", "no-data" if loss is None else "drops"))
        loss = None
    return PathFeatures(
        _rounded(most), _rounded(latest), _rounded(rtt, 6), _rounded(None if least is None else least / 1e6, 6),
        _rounded(jitter, 6), _rounded(loss, 6), most is not None, tuple(unknown),
    )  # fmt: skip


def lost(connection: ConnectionReport, side: str) -> float | None:
    """Share of a side's segments that it had to send again; a frame that offloading merged counts as its segments."""
    numbers = connection.numbers
    sizes = [numbers[f"{one}_mss"] for one in ("client", "server")]
    mss = min((int(size) for size in sizes if size), default=DEFAULT_MSS) - (STAMP_BYTES if numbers["stamps"] else 0)
    segments = max(numbers[f"{side}_data"] or 0, -(-int(numbers[f"{side}_payload"] or 0) // max(mss, 1)))
    again = sum(numbers[f"{side}_{cause}"] or 0 for cause in ("rto", "fast", "other"))
    return min(again / segments, 1.0) if segments else None


def _kilo(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e3


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
