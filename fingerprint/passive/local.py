# SPDX-License-Identifier: MIT
"""Reported connections -> sightings: the local side of a connection, and the facts that segments show of the other.

The essay is that of `fingerprint/features.py`. A side is here if the interface has its address; if both or neither are
(loopback, a router), the server's side counts as here, because it is servers that are tuned. Where neither is, who
serves may be a guess (the SYN was not captured), and both ends are other people's: then no address counts as local.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from configtron.fingerprint.features import (
    AddressFacts,
    PathFeatures,
    Sighting,
    context_of,
    plain,
    reasons,
    unloaded,
    way_of,
)
from configtron.fingerprint.passive.connection_report import ConnectionReport
from configtron.fingerprint.passive.first_flight import DEFAULT_MSS, STAMP_BYTES
from configtron.fingerprint.passive.under_load import LEAST_ACKS


def sighted(
    connection: ConnectionReport, here: Container[str], known: Callable[[str], AddressFacts], *, tainted: bool = False
) -> Sighting:
    """Return the sighting of one connection. `known` looks an address up, `tainted` that frames were lost."""
    ends = {"client": connection.client, "server": connection.server}
    mine = {name: plain(end.address) in here for name, end in ends.items()}
    side = "client" if mine["client"] and not mine["server"] else "server"
    other = "server" if side == "client" else "client"
    out, back = (int(connection.numbers[f"{one}_bytes"] or 0) for one in (side, other))
    way, remote = way_of(out, back), plain(ends[other].address)
    path, about = path_of(connection, side, way, tainted), known(remote)
    return Sighting(
        "live", int(connection.numbers["ended"] or 0), plain(ends[side].address) if mine[side] else "", ends[side].port,
        remote, ends[other].port, way, connection.ending, connection.duration_s or 0, out, back, path.bounded,
        context_of(path, remote, about), reasons(path, about),
    )  # fmt: skip


def path_of(connection: ConnectionReport, side: str, way: str, tainted: bool) -> PathFeatures:
    """Return the numbers of the path to the other side."""
    other = "server" if side == "client" else "client"
    numbers, unknown = connection.numbers, []
    trips, steps = numbers[f"{side}_trips"], numbers[f"{side}_trip_steps"]
    rtt = (numbers[f"{side}_trip_sum"] or 0) / trips / 1e6 if trips else None
    least = numbers[f"{side}_trip_least"]
    jitter = (numbers[f"{side}_trip_change"] or 0) / steps / 1e6 if steps else None
    if way == "in":
        latest, most = None, connection.goodput_kbps[other]
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
    found = under_load(connection, side, tainted)
    return PathFeatures(
        _rounded(most), _rounded(latest), _rounded(rtt, 6), _rounded(None if least is None else least / 1e6, 6),
        _rounded(jitter, 6), _rounded(loss, 6), most is not None,
        (*unknown, *((name, why) for name, why in found.items() if isinstance(why, str))),
        tuple((name, round(value, 6)) for name, value in found.items() if not isinstance(value, str)),
    )  # fmt: skip


def under_load(connection: ConnectionReport, side: str, tainted: bool) -> dict[str, float | str]:
    """Return the characteristics of the loaded path to the other side, from its segments; a reason where there is
    none."""
    other, numbers = "server" if side == "client" else "client", connection.numbers
    why = unloaded(*(int(numbers[f"{one}_bytes"] or 0) for one in (side, other)))
    window = numbers[f"{other}_last_window"]
    found: dict[str, float | str] = {
        "reordering": "kernel-only", "window_bytes": "no-handshake" if window is None else float(window),
    }  # fmt: skip
    if why:
        return found | dict.fromkeys(("queue_ms", "loss_run", "delivery_share", "ack_gap_ms"), why)
    smoothed, least = (numbers[f"{side}_trip_{name}"] for name in ("smoothed", "least"))
    found["queue_ms"] = "no-sample" if smoothed is None or least is None else max(smoothed - least, 0) / 1e6
    if tainted:
        return found | dict.fromkeys(("loss_run", "delivery_share", "ack_gap_ms"), "drops")
    runs, segments, again = (numbers[f"{side}_again_{name}"] or 0 for name in ("runs", "segments", "bytes"))
    # The mean length, in segments, of runs that were sent again.
    found["loss_run"] = max(segments, -(-int(again) // _segment_bytes(connection))) / runs if runs else "no-loss"
    return found | _rhythm(numbers, side)


def _rhythm(numbers: Mapping[str, float | None], side: str) -> dict[str, float | str]:
    """Return the mean time between ACKs, ms; delivery rate in the later half over its maximum."""
    if (numbers[f"{side}_data_acks"] or 0) < LEAST_ACKS:
        return dict.fromkeys(("ack_gap_ms", "delivery_share"), "too-short")
    gaps, total = numbers[f"{side}_ack_gaps"], numbers[f"{side}_ack_gap_sum"] or 0
    late, most = (numbers[f"{side}_{name}"] for name in ("late_rate", "window_rate_most"))
    return {
        "ack_gap_ms": total / gaps / 1e6 if gaps else "no-sample",
        "delivery_share": min(late / most, 1.0) if late is not None and most else "too-short",
    }


def lost(connection: ConnectionReport, side: str) -> float | None:
    """Return the share of a side's segments that it had to send again; a frame that offloading merged counts as its
    segments."""
    numbers = connection.numbers
    segments = max(numbers[f"{side}_data"] or 0, -(-int(numbers[f"{side}_payload"] or 0) // _segment_bytes(connection)))
    again = sum(numbers[f"{side}_{cause}"] or 0 for cause in ("rto", "fast", "other"))
    return min(again / segments, 1.0) if segments else None


def _segment_bytes(connection: ConnectionReport) -> int:
    """Return the payload of a full segment, by the handshake."""
    numbers = connection.numbers
    sizes = [numbers[f"{one}_mss"] for one in ("client", "server")]
    mss = min((int(size) for size in sizes if size), default=DEFAULT_MSS)
    return max(mss - (STAMP_BYTES if numbers["stamps"] else 0), 1)


def _kilo(rate: float | None) -> float | None:
    return None if rate is None else rate / 1e3


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
