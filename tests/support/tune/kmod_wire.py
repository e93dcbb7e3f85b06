# SPDX-License-Identifier: MIT
"""Inside a guest: what the client sees of profiles, packet by packet; prints JSON.

    python3 -m tests.support.tune.kmod_wire configtron.ko

Flights: the first packets of a connection until the first acknowledgement could have come back. Spread: the time from
the first packet of a flight to its last. All in virtual time, so both are exact.
"""

from __future__ import annotations

import socket
import time
from itertools import product
from typing import Any

from configtron.lab.internet.links import sysctl
from configtron.tune.drivers.kmod.device import Device
from tests.support.tune import kmod_net

# 45 segments of 1448 bytes are the 65535 bytes that a client without a scaled window can offer.
WINDOWS = (1, 4, 10, 16, 20, 30, 45)
CONTROLS = ("reno", "cubic", "vegas", "bbr")
WAYS = ("v4", "v6", "mapped", "cookie", "fast open")
# Enough for the widest flight and the next.
SENT_BYTES = 200_000
# Round trips after which the estimate of their variance is near nothing.
ROUNDS = 60


def flight(
    wire: kmod_net.Wire, client: socket.socket, served: socket.socket, size: int = SENT_BYTES
) -> list[kmod_net.Seen]:
    """What comes of `size` bytes before an acknowledgement can have returned."""
    wire.data()
    served.setblocking(False)
    served.send(bytes(size))
    left = size
    while left:
        left -= len(client.recv(1 << 20))
    seen = wire.data()
    return [one for one in seen if one.at_s < seen[0].at_s + 0.9 * kmod_net.RTT_S]


def segments(seen: list[kmod_net.Seen], way: str = "v4") -> float:
    return sum(one.length for one in seen) / (1428 if way == "v6" else 1448)


def first_flights(kmod: Device, wire: kmod_net.Wire, at: dict[int, socket.socket]) -> dict[str, float]:
    found = {}
    every = list(product(enumerate(WINDOWS, 1), enumerate(CONTROLS, 1)))
    for (w, initial), (c, scheme) in every:
        kmod_net.profile(
            kmod, (f"10.{w}.{c}.0/24", f"fd{w:02x}:{c}::/32"), tcp_congestion_control=scheme, initcwnd=initial
        )
    for way in WAYS:
        sysctl("s", [("net/ipv4/tcp_syncookies", "2" if way == "cookie" else "1")])
        for (w, initial), (c, scheme) in every:
            source = f"fd{w:02x}:{c}::5" if way == "v6" else f"10.{w}.{c}.5"
            port = kmod_net.PORT6 if way in ("v6", "mapped") else kmod_net.PORT4
            client, served = kmod_net.connected(at[port], source, port, way == "fast open")
            runs = kmod_net.control(served)
            counted = segments(flight(wire, client, served), way)
            found[f"{way} {scheme} {initial}"] = counted if runs == scheme else -1.0
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
    "default": {}, "settled": {}, "settled, min_rto 20 ms": {"min_rto": 20_000},
    "min_rto 1 s": {"min_rto": 1_000_000}, "data_rto 1.5 s": {"data_rto": 1_500_000},
    "data_rto 150 ms": {"data_rto": 150_000},
}  # fmt: skip


def first_of(
    kmod: Device, table: int, row: int, settings: dict[str, int | str], at: socket.socket
) -> tuple[socket.socket, socket.socket]:
    kmod_net.profile(kmod, (f"10.{table}.{row}.0/24",), **settings)
    return kmod_net.connected(at, f"10.{table}.{row}.9", kmod_net.PORT4)


def spreads(kmod: Device, wire: kmod_net.Wire, at: socket.socket) -> dict[str, tuple[float, float]]:
    """Settings -> (segments, spread in ms) of the first flight."""
    found = {}
    for row, (name, settings) in enumerate(SPREADS.items()):
        seen = flight(wire, *first_of(kmod, 100, row, settings, at))
        found[name] = (segments(seen), round(1000 * (seen[-1].at_s - seen[0].at_s), 3))
    return found


def idles(kmod: Device, wire: kmod_net.Wire, at: socket.socket) -> dict[str, tuple[int, float]]:
    """Settings -> (window before a pause of 3 s in segments, first flight after it)."""
    found = {}
    for row, (name, settings) in enumerate(IDLES.items()):
        ends = first_of(kmod, 101, row, settings, at)
        for _ in range(2):
            flight(wire, *ends, 400_000)
        grown = kmod_net.window(ends[1])
        time.sleep(3)
        found[name] = (grown, segments(flight(wire, *ends, 400_000)))
    return found


def timers(kmod: Device, wire: kmod_net.Wire, at: socket.socket) -> dict[str, float]:
    """Settings -> seconds from the first packet of data to its repetition, no acknowledgement coming back."""
    found = {}
    for row, (name, settings) in enumerate(TIMERS.items()):
        client, served = first_of(kmod, 102, row, settings, at)
        for _ in range(ROUNDS if name.startswith("settled") else 0):
            served.send(b"x")
            client.recv(1)
            # in the guest's virtual time: the ACK arrives, and the timer settles
            time.sleep(kmod_net.RTT_S)
        kmod_net.delayed(names="c", words=" loss 100%")
        wire.data()
        served.send(b"x" * 100)
        time.sleep(4)
        first, again = wire.data()[:2]
        found[name] = round(again.at_s - first.at_s, 3)
        kmod_net.delayed(names="c")
        client.close()
        served.close()
    return found


def play() -> dict[str, Any]:
    with kmod_net.device() as kmod:
        kmod_net.switch_on(kmod)
        wire, at = kmod_net.Wire(), {port: kmod_net.listener(port) for port in (kmod_net.PORT4, kmod_net.PORT6)}
        return {
            "flights": first_flights(kmod, wire, at), "spreads": spreads(kmod, wire, at[kmod_net.PORT4]),
            "idles": idles(kmod, wire, at[kmod_net.PORT4]), "timers": timers(kmod, wire, at[kmod_net.PORT4]),
        }  # fmt: skip


if __name__ == "__main__":
    kmod_net.program(play)
