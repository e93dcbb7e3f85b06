# SPDX-License-Identifier: MIT
"""Local connections -> contexts: the features of a client's network, from its connections to this host.

Question   Which network has a client of this host: how far, steady, lossy and fast; of which operator; with which
device?
Method     Numbers come from one of two witnesses. The kernel's own (tcp_info): smoothed and least round trip, its mean
           deviation, segments sent and sent again, delivery rate. Or segments (fingerprint/passive): the mean of the
           round trips, the least, the mean step from one to the next, repeats by cause, delivery rates; runs of losses,
           spacing of ACKs and the late rate (fingerprint/passive/under_load.py). How far segments overtake one another
           is known to the kernel alone.
           The client's identity comes from its address (prefix, and ASN and country where files map them) and from a
           web server's log (device class).
Reads as   one `Sighting` a connection: a `Context`, where and when it was seen, and for each feature that has no value
           the reason. A bandwidth is a rate that the path carried: the largest delivery rate that nothing but the path
           limited, or BBR's measurement. Where the application, its pacing, the receiver's window or the send buffer
           held back (`free`), it is a lower bound (`bounded`), and never above the pacing rate: a burst of a paced
           sender passes a fast hop at once, and the kernel calls its rate unlimited.
Fails as   no-sample (nothing that times a round trip), no-data (nothing was sent), too-short (too little was sent for
           a rate of the path: less than `SAMPLE_BYTES`, or than a round trip of that rate), receives (a socket that
           mostly receives knows no rate of the path), drops (the capture lost frames, so repeats cannot be counted),
           no-loss (nothing was lost, so there are no runs), packets-only, kernel-only (the other of the two sources has
           it), no-handshake, not-in-kernel, no-file, not-listed, no-log, not-logged, several-devices, unlike-any (a
           User-Agent that no rule knows).
Differs    from the paper, whose features are loss, bandwidth and latency: least round trip, jitter and latest rate are
           added. Loss leaves out repeats that the receiver reports as needless (D-SACK).
Source     ConfigTron 4.1 (features); net/ipv4/tcp.c (tcp_get_info); net/ipv4/tcp_rate.c (app_limited); RFC 6298 2;
           RFC 3708
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NamedTuple

from configtron.fingerprint import tcp_info
from configtron.fingerprint.tcp_info import Socket
from configtron.model.nouns import Context

# A network's share of an address: the longest prefix that is announced everywhere, and a site's prefix of IPv6. With
# 6to4 (RFC 3056 2) a site's /48 is 16 bits and the site's own IPv4 address, so its /24 ends at 40.
PREFIX4, PREFIX6 = 24, 48
PREFIX_6TO4 = 16 + PREFIX4
# Characteristics of a path under load (`configtron/model/characteristics.py`).
LOADED = ("queue_ms", "loss_run", "window_bytes", "delivery_share", "ack_gap_ms", "reordering")
FEATURES = ("bandwidth_kbps", "delivery_kbps", "rtt_ms", "min_rtt_ms", "jitter_ms", "loss", *LOADED, "asn", "region",
            "device")  # fmt: skip
Unknown = tuple[tuple[str, str], ...]
# The fewest bytes that make a rate the path's: four initial windows (RFC 6928) and more, so that the
# sample is not the first burst. Of the busy time, the share that may be lost to a full window or buffer without making
# the rate theirs. The share of the pace that an application asked for from which on it is the pace that was measured.
SAMPLE_BYTES, HELD_SHARE, PACED_SHARE = 1 << 16, 0.1, 0.9
# The fewest bytes that put a path under load: an initial window (RFC 6928).
LOAD_BYTES = 14_600


class AddressFacts(NamedTuple):
    """Facts about an address from files: network, country, device; and why something is not."""

    asn: int | None = None
    region: str = ""
    device: str = ""
    unknown: Unknown = (("asn", "no-file"), ("region", "no-file"), ("device", "no-log"))


class PathFeatures(NamedTuple):
    """The numbers of a context, None where unknown, with the reasons.

    bounded   the bandwidth is a lower bound; loaded: those of `LOADED` that are known
    """

    bandwidth_kbps: float | None = None
    delivery_kbps: float | None = None
    rtt_ms: float | None = None
    min_rtt_ms: float | None = None
    jitter_ms: float | None = None
    loss: float | None = None
    bounded: bool = False
    unknown: Unknown = ()
    loaded: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at one local connection.

    source    "live" (segments) or "socket" (tcp_info)
    at_ns     when it was last seen, nanoseconds since the epoch
    local     "" where neither end is this host's (a router sees other people's connections)
    remote    "" in one that was read back: the store keeps prefixes only
    way       "out" if most bytes left this host, "in" if most came, "" if none did
    ended     "open", "closed" (socket), "fin", "reset" (live)
    age_s     from its first segment to its last; None if the first was not captured
    bounded   the bandwidth is a lower bound
    unknown   (feature, reason) for every feature without a value
    """

    source: str
    at_ns: int
    local: str
    local_port: int
    remote: str
    remote_port: int
    way: str
    ended: str
    age_s: float | None
    bytes_out: int
    bytes_in: int
    bounded: bool
    context: Context
    unknown: Unknown = ()


def plain(address: bytes) -> str:
    """An address as text; IPv4 inside IPv6 as IPv4."""
    found = ip_address(address)
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def plain_text(address: str) -> str:
    """Return the same of text; "" if it is no address."""
    try:
        return plain(ip_address(address).packed)
    except ValueError:
        return ""


def prefix_of(address: str) -> str:
    """Return the /24 or /48 around an address; of a 6to4 address, that of the IPv4 address inside."""
    found = ip_address(address)
    length = PREFIX4 if isinstance(found, IPv4Address) else PREFIX_6TO4 if found.sixtofour else PREFIX6
    return str(ip_network((found, length), strict=False))


def way_of(bytes_out: int, bytes_in: int) -> str:
    """Return where most bytes went."""
    return "" if not bytes_out and not bytes_in else "out" if bytes_out >= bytes_in else "in"


def context_of(path: PathFeatures, remote: str, about: AddressFacts) -> Context:
    """Return the context of numbers and names together."""
    loaded = dict(path.loaded)
    return Context(
        path.bandwidth_kbps, path.rtt_ms, path.loss, "", prefix_of(remote), about.asn, about.region, about.device,
        path.min_rtt_ms, path.jitter_ms, path.delivery_kbps, loaded.get("queue_ms"), loaded.get("loss_run"),
        loaded.get("window_bytes"), loaded.get("delivery_share"), loaded.get("ack_gap_ms"), loaded.get("reordering"),
    )  # fmt: skip


def reasons(path: PathFeatures, about: AddressFacts) -> Unknown:
    """Return why features are missing, in the features' order."""
    return tuple(sorted((*path.unknown, *about.unknown), key=lambda one: FEATURES.index(one[0])))


def of_socket(socket: Socket, at_ns: int, about: AddressFacts) -> Sighting:
    """Return the features of one of the kernel's sockets."""
    sent, received = _bytes(socket)
    way, path = way_of(sent, received), socket_path(socket)
    remote = plain(socket.remote)
    return Sighting(
        "socket", at_ns, plain(socket.local), socket.local_port, remote, socket.remote_port, way,
        "closed" if socket.closed else "open", None, sent, received, path.bounded,
        context_of(path, remote, about), reasons(path, about),
    )  # fmt: skip


def socket_path(socket: Socket) -> PathFeatures:
    """Return the numbers of tcp_info: RTTs are in microseconds there, rates in bytes a second."""
    info, unknown = socket.info, []
    timed = info.rtt_us > 0
    least_known = timed and info.min_rtt_us is not None
    unknown += [(name, "no-sample") for name in ("rtt_ms", "jitter_ms") if not timed]
    unknown += [] if least_known else [("min_rtt_ms", "no-sample")]
    loss = bandwidth = delivery = None
    if info.data_segs_out:
        again = max(info.total_retrans - info.dsack_dups, 0)
        loss = round(min(again / info.data_segs_out, 1.0), 6)
    else:
        unknown.append(("loss", "no-data"))
    if not info.data_segs_out or way_of(*_bytes(socket)) == "in":
        why = "receives" if info.bytes_received else "no-data"
        unknown += [(name, why) for name in ("bandwidth_kbps", "delivery_kbps")]
    elif not info.delivery_rate:
        unknown += [(name, "no-sample") for name in ("bandwidth_kbps", "delivery_kbps")]
    else:
        delivery = kbps(info.delivery_rate)
        rate = _carried(socket)
        bandwidth = kbps(rate) if rate else None
        unknown += [] if rate else [("bandwidth_kbps", "too-short")]
    loaded, missing = _loaded(socket)
    trip, spread = (us / 1e3 if timed else None for us in (info.rtt_us, info.rttvar_us))
    least = (info.min_rtt_us or 0) / 1e3 if least_known else None
    bounded = bandwidth is not None and not free_rate(socket)
    known = tuple(loaded.items())
    return PathFeatures(bandwidth, delivery, trip, least, spread, loss, bounded, (*unknown, *missing), known)


def _loaded(socket: Socket) -> tuple[dict[str, float], list[tuple[str, str]]]:
    """Return tcp_info's characteristics of a path under load, and why the rest is unknown."""
    info, loaded = socket.info, dict[str, float]()
    why = unloaded(*_bytes(socket)) if info.data_segs_out else "receives" if info.bytes_received else "no-data"
    unknown = [(name, "packets-only") for name in ("loss_run", "delivery_share", "ack_gap_ms")]
    if why:
        unknown.append(("queue_ms", why))
    elif not info.rtt_us or info.min_rtt_us is None:
        unknown.append(("queue_ms", "no-sample"))
    else:
        loaded["queue_ms"] = max(info.rtt_us - info.min_rtt_us, 0) / 1e3
    # a closed window does not show its size
    for name, value in (("window_bytes", info.snd_wnd), ("reordering", 0 if why else info.reordering)):
        if value:
            loaded[name] = float(value)
        else:
            unknown.append((name, (why if name == "reordering" else "") or "not-in-kernel"))
    return loaded, unknown


def unloaded(bytes_out: int, bytes_in: int) -> str:
    """Return why the bytes sent put no load on the path out; "" if they do."""
    way = way_of(bytes_out, bytes_in)
    if way != "out":
        return "receives" if way else "no-data"
    return "" if bytes_out >= LOAD_BYTES else "too-short"


def free_rate(socket: Socket) -> int:
    """Return the largest rate (bytes a second) that nothing but the path limited, now or before, or that BBR has
    measured; 0: there is none."""
    info = socket.info
    held_us = info.rwnd_limited_us + info.sndbuf_limited_us
    rate = socket.bbr_rate or info.delivery_rate
    asked = 0 < info.max_pacing_rate <= rate / PACED_SHARE
    if socket.bbr_rate:
        free = not asked
    else:
        # Packets that came quicker than they were sent, if paced at all, were a burst, gathered on the way.
        burst = 0 < info.pacing_rate < info.delivery_rate
        free = not (asked or info.app_limited or held_us > HELD_SHARE * info.busy_us or burst)
    return max(socket.best_rate, rate if free and _enough(socket, rate) else 0)


def _carried(socket: Socket) -> int:
    """Return the rate that the path is known to carry, in bytes a second; 0 if too little was sent to know."""
    info, free = socket.info, free_rate(socket)
    if free:
        return free
    rate = min(socket.bbr_rate or info.delivery_rate, info.max_pacing_rate or tcp_info.UNPACED)
    rate = min(rate, info.pacing_rate or rate)
    return rate if _enough(socket, socket.bbr_rate or info.delivery_rate) else 0


def _enough(socket: Socket, rate: int) -> bool:
    """Return whether the host sent enough for a rate of the path, and not of one burst into it."""
    trip = rate * (socket.info.min_rtt_us or 0) / 1e6
    return _bytes(socket)[0] >= max(SAMPLE_BYTES, trip)


def _bytes(socket: Socket) -> tuple[int, int]:
    """Return the bytes sent (without repeats) and received."""
    return socket.info.bytes_sent - socket.info.bytes_retrans, socket.info.bytes_received


def kbps(rate: int) -> float:
    """Return bytes a second as kilobits a second."""
    return rate * 8 / 1e3


def wanted(sightings: Iterable[Sighting], ports: frozenset[int]) -> list[Sighting]:
    """Return the sightings at these local ports; all, if none is named."""
    return [one for one in sightings if not ports or one.local_port in ports]
