# SPDX-License-Identifier: MIT
"""In the guest: every scene played, its packets captured, what each step printed and left behind written down.

    python -m benchmarks.tuned.inside DRIVER...      writes found.json and a capture for each watch into the output

A watch is one visit of all clients. Nothing is judged here: that is `judged.py`, outside, from captures and words.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.tuned.hands import ByGateway, Step, Verb, wished
from benchmarks.tuned.place import CLIENTS, PORT, fetched, raised
from benchmarks.tuned.remains import differences, snapshot
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.support.children import child

OUTPUT = Path(GUEST_OUTPUT)
# More of a step's words are on the page.
SHOWN_LINES = 16
# Two clients behind the one gateway that the rules want treated differently.
PAIR = ("cable", "satellite")
UNTOUCHED, AFTER, AS_WANTED = "untouched", "after {}", "gateway, as {} wants"


def main(drivers: Sequence[str]) -> int:
    """Play, write down."""
    found: dict[str, Any] = {"watches": {}, "scenes": []}
    with raised(CLIENTS):
        # Every neighbour is known from here on, and the page is in memory.
        fetched(CLIENTS)
        before = snapshot()
        found["watches"][UNTOUCHED] = _watched(UNTOUCHED)
        # What connections alone change would later be taken for a driver's.
        found["restless"] = differences(before, snapshot())
        found["wished"] = [_printed(step) for step in wished(CLIENTS)]
        for driver in drivers:
            found["scenes"].append(_scene(driver, Verb(driver), found["watches"]))
        _gateway(found)
    (OUTPUT / "found.json").write_text(json.dumps(found))
    return 0


def _scene(name: str, hand: Verb, watches: dict[str, Any]) -> dict[str, Any]:
    """plan, apply, verify, rollback by one hand, watched after apply and after rollback."""
    before = snapshot()
    steps = [_printed(step) for step in hand.ready()]
    unplanned = snapshot()
    steps.append(_printed(hand.plan()))
    written = differences(unplanned, snapshot())
    steps.append(_printed(hand.apply()))
    watches[name] = _watched(name)
    steps += [_printed(hand.verify()), _printed(hand.rollback())]
    watches[AFTER.format(name)] = _watched(AFTER.format(name))
    steps += [_printed(step) for step in hand.over()]
    return {"name": name, "steps": steps, "written_by_plan": written, "left": differences(before, snapshot())}


def _printed(step: Step) -> Step:
    """Print the step, at once, and return it."""
    lines = step.output.rstrip().splitlines()
    more = [f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
    print("\n".join([f"+ {step.command}", *lines[:SHOWN_LINES], *more]), flush=True)
    return step


def _gateway(found: dict[str, Any]) -> None:
    """One choice per next hop, first as one client's rules want it, then as the other's."""
    before = snapshot()
    for name in PAIR:
        client = next(client for client in CLIENTS if client.name == name)
        hand = ByGateway(client.congestion)
        hand.apply()
        found["watches"][AS_WANTED.format(name)] = _watched(AS_WANTED.format(name))
        hand.rollback()
    found["left_by_gateway"] = differences(before, snapshot())


def _watched(name: str) -> dict[str, str]:
    """All clients visit, captured at the server; the congestion control of each."""
    words = ["tcpdump", "-i", "eth0", "-w", str(OUTPUT / f"{name}.pcap"), "--immediate-mode", f"tcp port {PORT}"]
    with _capturing(words):
        return fetched(CLIENTS)


@contextmanager
def _capturing(words: Sequence[str]) -> Iterator[None]:
    with child(words, signal.SIGTERM, stderr=subprocess.PIPE, text=True) as tcpdump:
        assert tcpdump.stderr
        while "listening on" not in (line := tcpdump.stderr.readline()):
            if not line:
                raise SystemExit("tcpdump ended before it listened")
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
