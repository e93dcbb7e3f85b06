# SPDX-License-Identifier: MIT
"""Inside a guest in virtual time: the handshake's round trip as the driver ebpf sees it, the band that it falls in, the
window that follows.

    banded.py

Up to 20, 100 and 400 ms a class with a window of 50, 30 and 5 segments; no prefix holds the clients. JSON on standard
output: "MS WAY" -> for each of a few clients [round trip in us, band, window, whether the kernel had cut it].
"""

from __future__ import annotations

import json
import socket
import time

from configtron.lab.internet.links import sysctl
from configtron.model.close_records import OpenRecord
from configtron.model.draw import PARTS, Key, Mix, Plan
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Place
from configtron.tune.drivers.bpf.ebpf_driver import EbpfDriver
from tests.support.tune import kmod_net

WINDOWS = {"near": 50, "middle": 30, "far": 5}
BANDS = ((20_000, "near"), (100_000, "middle"), (400_000, "far"))
RTTS_MS = (5, 50, 200)
CLIENTS = 3
# How long the server's SYN-ACKs are lost: one of them, or the first two as well.
LOST_S = {"one SYN-ACK lost": 0.5, "SYN-ACKs lost": 3.5}
THOUGHT_S = 0.7
WAYS = (
    "plain", "cookie", "cookie, no timestamps", "fast open", *LOST_S, *(f"{way}, no timestamps" for way in LOST_S),
    "deferred",
)  # fmt: skip
TCP_DEFER_ACCEPT = 9


def begun(source: str) -> socket.socket:
    """Return a client whose SYN is on its way."""
    client = kmod_net.client_at(source)
    client.setblocking(False)
    client.connect_ex((kmod_net.SERVER, kmod_net.PORT4))
    return client


def one(at: socket.socket, way: str, source: str, rtt_ms: int) -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection that was made that way."""
    if lost_s := LOST_S.get(way.partition(",")[0]):
        kmod_net.delayed(0, "s", " loss 100%")
        client = begun(source)
        time.sleep(lost_s)
        kmod_net.delayed(rtt_ms / 2000, "s")
        served, _ = at.accept()
        client.setblocking(True)
        return client, served
    if way == "deferred":
        at.setsockopt(socket.IPPROTO_TCP, TCP_DEFER_ACCEPT, 5)
        client = begun(source)
        time.sleep(THOUGHT_S + rtt_ms / 1000)
        client.setblocking(True)
        client.send(b"x")
        served, _ = at.accept()
        at.setsockopt(socket.IPPROTO_TCP, TCP_DEFER_ACCEPT, 0)
        return client, served
    return kmod_net.connected(at, source, kmod_net.PORT4, way == "fast open")


def clients(driver: EbpfDriver, at: socket.socket, way: str, rtt_ms: int) -> list[list[int | bool | None]]:
    answer: list[list[int | bool | None]] = []
    sysctl("s", [("net/ipv4/tcp_syncookies", "2" if "cookie" in way else "1"),
                 ("net/ipv4/tcp_timestamps", "0" if "no timestamps" in way else "1")])  # fmt: skip
    for number in range(CLIENTS):
        list(driver.records())
        ends = one(at, way, f"10.77.{rtt_ms}.{number + 1}", rtt_ms)
        (record,) = (each for each in driver.records() if isinstance(each, OpenRecord))
        answer.append([record.rtt_us, record.band, kmod_net.window(ends[1]), record.window_cut])
        kmod_net.aborted(*ends)
    return answer


def main() -> None:
    with kmod_net.hosts():
        driver = EbpfDriver(Place(netns="s"))
        before = driver.before()
        settings = {name: (("initcwnd", width), ("tcp_congestion_control", "reno")) for name, width in WINDOWS.items()}
        profiles = {name: Profile(name, each) for name, each in settings.items()}
        driver.apply(Changes(profiles, {"198.51.100.0/24": "near"}))
        mixes = {name: Mix((name,), (PARTS,)) for name in WINDOWS}
        driver.load_plan(Plan(Key(1, 2), 3, 1 << 62, bands=BANDS), mixes)
        driver.turn()
        at, answer = kmod_net.listener(kmod_net.PORT4), {}
        for rtt_ms in RTTS_MS:
            kmod_net.delayed(rtt_ms / 2000)
            # neighbours are looked up by the first connection
            for end in kmod_net.connected(at, f"10.77.{rtt_ms}.200", kmod_net.PORT4):
                end.close()
            time.sleep(3)
            for way in WAYS:
                answer[f"{rtt_ms} {way}"] = clients(driver, at, way, rtt_ms)
        driver.revert(before)
        at.close()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
