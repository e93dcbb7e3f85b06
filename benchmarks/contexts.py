# SPDX-License-Identifier: MIT
"""Claim: contexts say what the links are, by segments and by the kernel, and the kernel's say what `ss` says.

    python -m benchmarks.contexts      as root

In the lab's kernel and its virtual time, a server and a client are joined by links with known delay, loss and rate
(netem at a router between them, each way). `configtron fingerprint live` listens at the server, `fingerprint socket`
asks its kernel before the connection is closed, and `ss -ti` is asked beside it. Printed are the link's truth and what
each reported of it; the true loss is what netem counted. Exit code 1: a figure lies outside its bounds (`wrong`).
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from configtron.lab.internet import links
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT, GuestJob, pick
from configtron.linux import netns
from tests.support import ROOT
from tests.support.children import child

SERVER, CLIENT = "10.9.1.2", "10.9.2.2"
PORT = 8080
FORMS = ("live", "socket", "ss")
FEATURE_COLUMNS = ("rtt", "min", "jitter", "loss", "kbit/s", "carried")


class Link(NamedTuple):
    """One way of a link: half the round trip, loss, rate; and how much the server sends over it."""

    name: str
    rtt_ms: int
    loss_percent: float
    rate_kbps: int
    size: int


# Some 2000 segments each, so that a loss of one per cent can be distinguished from none.
LINKS = (
    Link("cable", 24, 0, 20_000, 4_000_000),
    Link("dsl", 40, 0, 8_000, 3_000_000),
    Link("4g", 60, 1, 10_000, 3_000_000),
    Link("3g", 150, 2, 1_600, 3_000_000),
    Link("satellite", 600, 0.5, 5_000, 3_000_000),
)  # fmt: skip


def inside(names: Sequence[str]) -> None:
    """In the guest: raise each link, send over it, write what was reported to the output folder."""
    found = [_measured(link, Path(GUEST_OUTPUT)) for link in LINKS if not names or link.name in names]
    (Path(GUEST_OUTPUT) / "found.json").write_text(json.dumps(found))


def _measured(link: Link, folder: Path) -> dict[str, Any]:
    with _raised(link):
        words = [sys.executable, "-m", "configtron", "--db", str(folder / "contexts.db"), "-q", "fingerprint"]
        here = ["ip", "netns", "exec", "server"]
        file = folder / f"{link.name}.jsonl"
        live = [*here, *words, "live", "-i", "eth0", "-f", "jsonl", "-o", str(file)]
        reported: dict[str, Any] = {}

        def ask() -> None:
            asked = [*here, *words, "socket", "--port", str(PORT), "-f", "jsonl"]
            reported["socket"] = json.loads(subprocess.check_output(asked, text=True).splitlines()[0])
            ss = [*here, "ss", "-tinHO", "sport", "=", str(PORT)]
            reported["ss"] = ss_says(subprocess.check_output(ss, text=True))

        with child(live) as listening:
            while not file.exists():
                time.sleep(0.1)
            time.sleep(1)
            sent_s = _transfer(link, ask)
            time.sleep(1)
            listening.send_signal(signal.SIGINT)
            code = listening.wait()
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        reported["live"] = next(line for line in lines if line["schema"] == "configtron.context/1")
        return {**reported, "link": link._asdict(), "code": code, "last": lines[-1], "sent_s": sent_s, "truth": _lost()}


def _transfer(link: Link, ask: Any) -> float:
    """The server sends, is asked about while the connection stands, and closes; seconds of sending."""
    took = 0.0

    def serve(listener: socket.socket) -> None:
        nonlocal took
        with listener, listener.accept()[0] as peer:
            began = time.monotonic()
            peer.sendall(bytes(link.size))
            peer.recv(1)
            took = time.monotonic() - began
            # Stray repeats have come to rest.
            time.sleep(3 * link.rtt_ms / 1e3)
            ask()

    with netns.inside("server"):
        listener = socket.create_server((SERVER, PORT))
    thread = threading.Thread(target=serve, args=(listener,))
    thread.start()
    with netns.inside("client"), socket.create_connection((SERVER, PORT)) as client:
        got = 0
        while got < link.size:
            got += len(client.recv(1 << 16))
        client.sendall(b".")
        client.recv(1)
    thread.join()
    return took


@contextmanager
def _raised(link: Link) -> Iterator[None]:
    """server - router - client; the link's loss and rate on the way to the client, half its delay on each."""
    ends = (("server", "10.9.1", "to_server"), ("client", "10.9.2", "to_client"))
    links.ip("", ["netns add server", "netns add client", "netns add router"])
    links.sysctl("router", [("net/ipv4/ip_forward", "1")])
    for name, net, device in ends:
        links.ip("", [f"link add eth0 netns {name} type veth peer name {device} netns router"])
        links.ip(name, [f"addr add {net}.2/24 dev eth0", "link set eth0 up", "link set lo up"])
        links.ip("router", [f"addr add {net}.1/24 dev {device}", f"link set {device} up"])
        links.ip(name, [f"route add default via {net}.1"])
        links.without_offloads(name, "eth0")
        links.without_offloads("router", device)
    # A queue of two round trips: enough for the rate to be reached, little enough for the delay to stay the link's.
    queue = max(int(2 * link.rate_kbps * link.rtt_ms / 8 / 1500), 20)
    half = f"delay {link.rtt_ms / 2}ms"
    tc = ["tc", "-n", "router", "qdisc", "add", "dev"]
    forth = f"to_client root netem {half} loss {link.loss_percent}% rate {link.rate_kbps}kbit limit {queue}"
    subprocess.run([*tc, *forth.split()], check=True)
    subprocess.run([*tc, *f"to_server root netem {half}".split()], check=True)
    try:
        yield
    finally:
        links.ip("", ["netns del server", "netns del client", "netns del router"])


def _lost() -> float:
    """Share of packets towards the client that netem dropped, by chance or for want of room."""
    shown = subprocess.check_output(["tc", "-n", "router", "-s", "-j", "qdisc", "show", "dev", "to_client"], text=True)
    (about,) = json.loads(shown)
    return float(about["drops"] / (about["packets"] + about["drops"]))


def ss_says(text: str) -> dict[str, float]:
    """The numbers in a line of `ss -ti`, in our units."""

    def number(pattern: str, default: float = 0.0) -> float:
        found = re.search(pattern, text)
        return float(found[1]) if found else default

    scale = {"": 1e-3, "K": 1, "M": 1e3, "G": 1e6}
    rate = re.search(r"delivery_rate ([\d.]+)([KMG]?)bps", text)
    segments = number(r"data_segs_out:(\d+)")
    again = number(r"retrans:\d+/(\d+)") - number(r"dsack_dups:(\d+)")
    return {
        "rtt_ms": number(r"\brtt:([\d.]+)/"), "jitter_ms": number(r"\brtt:[\d.]+/([\d.]+)"),
        "min_rtt_ms": number(r"minrtt:([\d.]+)"), "loss": again / segments if segments else 0.0,
        "delivery_kbps": float(rate[1]) * scale[rate[2]] if rate else 0.0,
    }  # fmt: skip


def numbers(reported: dict[str, Any]) -> list[float]:
    """Return rtt, min, jitter, loss, latest delivery rate and, NaN of `ss`, the rate that the path has carried."""
    context = reported.get("context", reported)
    named = ("rtt_ms", "min_rtt_ms", "jitter_ms", "loss", "delivery_kbps")
    return [*(context[name] for name in named), context.get("bandwidth_kbps", math.nan)]


def wrong(found: dict[str, Any]) -> list[str]:
    """What does not hold: the kernel's figures are ss's; round trip, loss and rate are the link's."""
    link, bad = Link(**found["link"]), []
    # `ss` has no rate that the path has carried: it is the lower one of pacing and latest rate after a burst.
    compared = zip(FEATURE_COLUMNS[:5], numbers(found["socket"])[:5], numbers(found["ss"])[:5], strict=True)
    for name, ours, theirs in compared:
        # ss prints three or four digits.
        if abs(ours - theirs) > 0.002 * max(abs(theirs), 1e-9) + 1e-6:
            bad.append(f"{link.name}: socket's {name} is {ours:g}, by ss {theirs:g}")
    for form in ("live", "socket"):
        _, least, _, loss, _, rate = numbers(found[form])
        # A segment also takes the time that the link's rate gives it.
        room = 2 + 1500 * 8 / link.rate_kbps
        if not link.rtt_ms <= least <= link.rtt_ms + room:
            bad.append(f"{link.name}: {form}'s least round trip is {least:g} ms")
        if abs(loss - found["truth"]) > 0.2 * found["truth"] + 0.002:
            bad.append(f"{link.name}: {form}'s loss is {loss:.4f}, netem's {found['truth']:.4f}")
        # Lost bytes and headers are not delivered; ACKs that come together may lift a sample by a little.
        if rate > 1.1 * link.rate_kbps:
            bad.append(f"{link.name}: {form} reports {rate:g} kbit/s, more than the link has")
    if found["code"] != 130 or found["last"]["dropped"]:
        bad.append(f"{link.name}: live ended with {found['code']}, {found['last']['dropped']} dropped")
    return bad


def measured(names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """Boot, measure, come back with what was found."""
    backend, _ = pick("uml-virtual")
    words = (sys.executable, "-m", "benchmarks.contexts", "--inside", *names)
    environment = (("PYTHONPATH", str(ROOT)),)
    job = GuestJob(words, folder, seed=1, cpu=max(os.sched_getaffinity(0)), environment=environment, limit_s=600)
    running = backend.boot(job)
    if running.wait(660):
        raise SystemExit(running.console.read_text() + running.last_words())
    found: list[dict[str, Any]] = json.loads((folder / "found.json").read_text())
    return found


def main(names: Sequence[str]) -> int:
    """Measure, print, judge."""
    if names[:1] == ["--inside"]:
        inside(names[1:])
        return 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        found = measured(names, Path(folder))
    print(f"{'link':10} {'by':7}" + "".join(f"{name:>10}" for name in FEATURE_COLUMNS))
    for one in found:
        link = Link(**one["link"])
        reported = {form: numbers(one[form]) for form in FORMS}
        truth = f"{'':>10}{link.rtt_ms:10.1f}{'':>10}{100 * one['truth']:9.2f}%{'':>10}{link.rate_kbps:10}"
        print(f"{link.name:10} {'netem':7}{truth}")
        for form, (rtt, least, jitter, loss, latest, rate) in reported.items():
            print(f"{'':10} {form:7}{rtt:10.1f}{least:10.1f}{jitter:10.2f}{100 * loss:9.2f}%{latest:10.0f}{rate:10.0f}")
    bad = [text for one in found for text in wrong(one)]
    print("\n".join(bad) if bad else "every figure within its bounds")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
