# SPDX-License-Identifier: MIT
"""Inside a guest: what the client sees of profiles, packet by packet; prints JSON.

    python3 -m tests.support.tune.kmod_wire configtron.ko

Flights: the first packets of a connection until the first acknowledgement could have come back. Spread: the time from
the first packet of a flight to its last. All in virtual time, so both are exact.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from itertools import product

from configtron.lab.internet.links import sysctl
from configtron.tune.drivers.kmod.device import Device
from tests.support.tune.kmod_net import (
    PORT4,
    PORT6,
    RTT_S,
    Seen,
    Wire,
    complaints,
    connected,
    default,
    device,
    drained,
    hosts,
    listener,
    load,
    profile,
    switch_on,
    tc,
)

# 45 segments of 1448 bytes are the 65535 bytes that a client without a scaled window can offer.
WINDOWS = (1, 4, 10, 16, 20, 30, 45)
CONTROLS = ("reno", "cubic", "vegas", "bbr")
WAYS = ("v4", "v6", "mapped", "cookie", "fast open")
SEGMENT_BYTES = {False: 1448, True: 1428}
# Enough for the widest flight and the next.
SENT_BYTES = 200_000
# Round trips after which the estimate of their variance is near nothing.
ROUNDS = 60


def flight(wire: Wire, client: socket.socket, served: socket.socket, size: int = SENT_BYTES) -> list[Seen]:
    """What comes of `size` bytes before an acknowledgement can have returned."""
    wire.data()
    served.setblocking(False)
    served.send(bytes(size))
    left = size
    while left:
        left -= len(client.recv(1 << 20))
    seen = wire.data()
    return [one for one in seen if one.at_s < seen[0].at_s + 0.9 * RTT_S]


def segments(seen: list[Seen], six: bool) -> float:
    return sum(one.length for one in seen) / SEGMENT_BYTES[six]


def spread_ms(seen: list[Seen]) -> float:
    return round(1000 * (seen[-1].at_s - seen[0].at_s), 3)


def first_flights(kmod: Device, wire: Wire, at: dict[int, socket.socket]) -> dict[str, float]:
    found = {}
    for (w, window), (c, control) in product(enumerate(WINDOWS, 1), enumerate(CONTROLS, 1)):
        profile(kmod, (f"10.{w}.{c}.0/24", f"fd{w:02x}:{c}::/32"), tcp_congestion_control=control, initcwnd=window)
    for way in WAYS:
        sysctl("s", [("net/ipv4/tcp_syncookies", "2" if way == "cookie" else "1")])
        for (w, window), (c, control) in product(enumerate(WINDOWS, 1), enumerate(CONTROLS, 1)):
            source = f"fd{w:02x}:{c}::5" if way == "v6" else f"10.{w}.{c}.5"
            port = PORT6 if way in ("v6", "mapped") else PORT4
            client, served = connected(at[port], source, port, way == "fast open")
            control_now = served.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            counted = segments(flight(wire, client, served), way == "v6")
            found[f"{way} {control} {window}"] = counted if control_now == control else -1.0
            client.close()
            served.close()
    sysctl("s", [("net/ipv4/tcp_syncookies", "1")])
    return found


# name -> settings; each gets a prefix of its own
SPREADS: dict[str, dict[str, int | str]] = {
    "cubic": {"tcp_congestion_control": "cubic", "initcwnd": 40},
    "cubic paced": {"tcp_congestion_control": "cubic", "initcwnd": 40, "pacing": 1},
    "bbr": {"tcp_congestion_control": "bbr", "initcwnd": 40},
    "bbr unpaced": {"tcp_congestion_control": "bbr", "initcwnd": 40, "pacing": 0},
    "at 1 MB/s": {"tcp_congestion_control": "cubic", "initcwnd": 40, "max_pacing_rate": 1_000_000},
    "clamped": {"initcwnd": 40, "cwnd_clamp": 7},
}
IDLES: dict[str, dict[str, int | str]] = {
    "cubic": {"tcp_congestion_control": "cubic"},
    "cubic 30": {"tcp_congestion_control": "cubic", "initcwnd": 30},
    "cubic kept": {"tcp_congestion_control": "cubic", "tcp_slow_start_after_idle": 0},
    "reno kept": {"tcp_congestion_control": "reno", "tcp_slow_start_after_idle": 0},
    "vegas kept": {"tcp_congestion_control": "vegas", "tcp_slow_start_after_idle": 0},
}
TIMERS: dict[str, dict[str, int | str]] = {
    "default": {},
    "settled": {},
    "settled, min_rto 20 ms": {"min_rto": 20_000},
    "min_rto 1 s": {"min_rto": 1_000_000},
    "data_rto 1.5 s": {"data_rto": 1_500_000},
    "data_rto 150 ms": {"data_rto": 150_000},
}


def prefix(table: int, row: int) -> str:
    return f"10.{table}.{row}.0/24"


def first_of(kmod: Device, table: int, row: int, settings: dict[str, int | str], at: socket.socket) -> tuple[
    socket.socket, socket.socket
]:  # fmt: skip
    profile(kmod, (prefix(table, row),), **settings)
    return connected(at, f"10.{table}.{row}.9", PORT4)


def spreads(kmod: Device, wire: Wire, at: socket.socket) -> dict[str, tuple[float, float]]:
    """Settings -> (segments, spread in ms) of the first flight."""
    found = {}
    for row, (name, settings) in enumerate(SPREADS.items()):
        client, served = first_of(kmod, 100, row, settings, at)
        seen = flight(wire, client, served)
        found[name] = (segments(seen, False), spread_ms(seen))
    return found


def idles(kmod: Device, wire: Wire, at: socket.socket) -> dict[str, tuple[float, float]]:
    """Settings -> (window before a pause of 3 s in segments, first flight after it)."""
    found = {}
    for row, (name, settings) in enumerate(IDLES.items()):
        client, served = first_of(kmod, 101, row, settings, at)
        for _ in range(2):
            flight(wire, client, served, 400_000)
        window = int.from_bytes(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[80:84], sys.byteorder)
        time.sleep(3)
        found[name] = (window, segments(flight(wire, client, served, 400_000), False))
    return found


def timers(kmod: Device, wire: Wire, at: socket.socket) -> dict[str, float]:
    """Settings -> seconds from the first packet of data to its repetition, no acknowledgement coming back."""
    found = {}
    for row, (name, settings) in enumerate(TIMERS.items()):
        client, served = first_of(kmod, 102, row, settings, at)
        for _ in range(ROUNDS if name.startswith("settled") else 0):
            served.send(b"x")
            client.recv(1)
            time.sleep(RTT_S)
        tc("c", "change", f"vc root netem delay {RTT_S / 2}s loss 100% limit 100000")
        wire.data()
        served.send(b"x" * 100)
        time.sleep(4)
        first, again = wire.data()[:2]
        found[name] = round(again.at_s - first.at_s, 3)
        tc("c", "change", f"vc root netem delay {RTT_S / 2}s limit 100000")
        client.close()
        served.close()
    return found


def main(module: str) -> None:
    load(module)
    with hosts():
        with device() as kmod:
            switch_on(kmod)
            wire, at = Wire(), {port: listener(port) for port in (PORT4, PORT6)}
            found = {
                "flights": first_flights(kmod, wire, at),
                "spreads": spreads(kmod, wire, at[PORT4]),
                "idles": idles(kmod, wire, at[PORT4]),
                "timers": timers(kmod, wire, at[PORT4]),
            }
        default("cubic")
        for each in at.values():
            each.close()
    print(json.dumps(found | {"complaints": complaints(), "unload": drained()}))


if __name__ == "__main__":
    main(sys.argv[1])
