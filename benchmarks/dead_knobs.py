# SPDX-License-Identifier: MIT
"""Claim: which of the grid's knobs do nothing, where, to the bit.

    python -m benchmarks.dead_knobs      as root

The same downloads in guests booted with the same seed, one knob changed in each: kept connections with and without a
pause of five seconds, answers written in small pieces, over networks with and without loss, by cubic and bbr. Printed
is a certificate for each knob, without the cells that pause and of those alone (`lab/testbed/differential.py`). Exit
code 1: two equal guests differ, tcp_low_latency does something, or tcp_slow_start_after_idle does something without a
pause or nothing after one.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

from configtron.lab.testbed.differential import KnobCertificate, certify
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.stack import ServerStack
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT, GuestJob, pick
from configtron.linux import netns
from configtron.model.nouns import Profile, Value
from configtron.tune.drivers import load
from tests.support import ROOT

CONDITIONS = ("hotcloud:1/150/0", "hotcloud:5/50/0", "hotcloud:5/150/1", "hotcloud:1/250/2.5", "access:cable")
SCHEMES = ("cubic", "bbr")
# Longer than any retransmission timer here, so that a window is let go when the kernel is set to do so.
PAUSES_S = (0, 5)
# knob -> its default, and the other value of CT's Table 1.
KNOBS: Mapping[str, tuple[int, int]] = {
    "tcp_low_latency": (0, 1),
    "tcp_slow_start_after_idle": (1, 0),
    "tcp_autocorking": (1, 0),
}
PORT, REQUEST_BYTES = 7000, 16
# Answers of one kept connection, and what the server hands to its socket at once.
ANSWERS, PIECE = (60_000, 200_000), bytes(700)


def inside(changed: str) -> None:
    """In the guest: all cells, one knob at its other value ("" leaves all as they are)."""
    testbed = raise_testbed(named(CONDITIONS[0]), ["a.test"])
    stack = ServerStack(testbed, load)
    knobs: dict[str, Value] = {knob: values[knob == changed] for knob, values in KNOBS.items()}
    threading.Thread(target=_serve, args=(testbed,), daemon=True).start()
    found = {}
    # cells without a pause come first: a cell that differs may leave the guest other than it was
    for pause_s, name, scheme in product(PAUSES_S, CONDITIONS, SCHEMES):
        settings = {**knobs, "tcp_congestion_control": scheme, "initcwnd": 10, "pacing": "pfifo_fast"}
        stack.apply(Profile(scheme, tuple(settings.items())))
        testbed.change(named(name), seed=1)
        # a whole second, wherever the cell before has ended: timers that tick meet the same moments
        time.sleep(math.ceil(time.monotonic() + 1) - time.monotonic())
        found[f"{name} {scheme} pause {pause_s}"] = _download(testbed, pause_s)
    (Path(GUEST_OUTPUT) / "found.json").write_text(json.dumps(found))


def _serve(testbed: Testbed) -> None:
    with netns.inside(SERVERS):
        listener = socket.create_server((testbed.addresses["a.test"], PORT))
    while True:
        peer = listener.accept()[0]
        with peer, suppress(ConnectionError):
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while asked := peer.recv(REQUEST_BYTES):
                for _ in range(int(asked) // len(PIECE)):
                    peer.sendall(PIECE)


def _download(testbed: Testbed, pause_s: float) -> list[float]:
    """Moments at which something came, without the pause; the last is the end."""
    with netns.inside(CLIENT):
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    began, paused, moments = time.monotonic(), 0.0, []
    with client:
        client.connect((testbed.addresses["a.test"], PORT))
        for number, size in enumerate(ANSWERS):
            if number:
                time.sleep(pause_s)
                paused += pause_s
            left = size // len(PIECE) * len(PIECE)
            client.sendall(str(size).ljust(REQUEST_BYTES).encode())
            while left:
                left -= len(client.recv(left))
                moments.append(round(time.monotonic() - began - paused, 9))
    return moments


def boot(changed: str, folder: Path) -> dict[str, list[float]]:
    """A guest's moments, by cell."""
    backend, _ = pick("uml-virtual")
    folder.mkdir()
    words = (sys.executable, "-m", "benchmarks.dead_knobs", "--inside", *([changed] if changed else []))
    job = GuestJob(words, folder, seed=1, cpu=max(os.sched_getaffinity(0)), environment=(("PYTHONPATH", str(ROOT)),))
    running = backend.boot(job)
    if running.wait():
        raise SystemExit(running.console.read_text() + running.last_words())
    found: dict[str, list[float]] = json.loads((folder / "found.json").read_text())
    return found


def certificates(folder: Path) -> dict[str, KnobCertificate]:
    """By name: "again" is two guests with the same settings."""
    usual, found = boot("", folder / "usual"), {}
    found["again"] = certify("nothing", ("", ""), usual, boot("", folder / "again"))
    for knob, values in KNOBS.items():
        other = boot(knob, folder / knob)
        for name, pause_s in (("", 0), (" after a pause", 5)):
            cells = [cell for cell in usual if cell.endswith(f"pause {pause_s}")]
            pair = ({cell: usual[cell] for cell in cells}, {cell: other[cell] for cell in cells})
            found[knob + name] = certify(knob + name, values, *pair)
    return found


def wrong(found: Mapping[str, KnobCertificate]) -> list[str]:
    """What does not hold."""
    dead = ("again", "tcp_low_latency", "tcp_low_latency after a pause", "tcp_slow_start_after_idle")
    bad = [f"not to the bit: {found[name]}" for name in dead if not found[name].is_dead]
    return bad + ["idle slow start does nothing"] * found["tcp_slow_start_after_idle after a pause"].is_dead


def main(arguments: Sequence[str]) -> int:
    """Measure, print, judge."""
    if arguments[:1] == ["--inside"]:
        inside("".join(arguments[1:]))
        return 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        found = certificates(Path(folder))
    again = found["again"]
    print(f"two guests, same settings: {again.identical} of {again.cells} cells identical")
    for certificate in list(found.values())[1:]:
        print(certificate)
    bad = wrong(found)
    print("\n".join(bad) if bad else "as claimed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
