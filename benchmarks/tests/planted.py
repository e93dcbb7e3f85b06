# SPDX-License-Identifier: MIT
"""Runs in the guest in place of benchmarks.tuned.inside: drivers, and hands that make mistakes that must be seen.

python -m benchmarks.tests.planted SCENE...      a driver; idle: applies nothing; leaving: its rollback leaves one route
"""

from __future__ import annotations

import sys

from benchmarks.tuned.hands import Hand, Step, Verb, run
from benchmarks.tuned.inside import main
from benchmarks.tuned.place import GATEWAY4


class Idle(Verb):
    """Says that it did, and did nothing."""

    def apply(self) -> Step:
        return run(["true"])

    def verify(self) -> Step:
        return run(["true"])


class Leaving(Verb):
    """One route stays behind: of a client's prefix, with its metrics."""

    def rollback(self) -> Step:
        answer = super().rollback()
        run(f"ip route add 192.0.2.0/24 via {GATEWAY4} initcwnd 30".split())
        return answer


HANDS: dict[str, type[Verb]] = {"idle": Idle, "leaving": Leaving}


def hand(scene: str) -> Hand:
    """The hand of that scene."""
    return HANDS[scene]("ebpf") if scene in HANDS else Verb(scene)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], hand))
