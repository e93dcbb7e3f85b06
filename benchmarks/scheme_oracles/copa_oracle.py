# SPDX-License-Identifier: MIT
"""tquic's Copa, driven over scripted paths as a scheme of ours."""

from __future__ import annotations

import subprocess
from math import inf
from pathlib import Path
from typing import Self, TypedDict

from benchmarks.scheme_oracles.fetched import tquic_copa
from configtron.lab.schemes.copa import DEFAULT_DELTA
from configtron.lab.schemes.scheme import LEAST_CWND, PACKET_BYTES, SendingLimit
from tests.support.oracle_inputs import COPA_PATHS, MICRO, Move, Settled, settled, two
from tests.support.scripted_path import ScriptedPath, Starting, run

# A flow whose acknowledgements ours gets too: half of the rate is gone after a while.
MOVED_S, SLOWER_AT_S = 3.0, 1.5


class CopaAnswers(TypedDict):
    """moves: after each acknowledgement of a flow of its own; settled: by path; two: of two flows."""

    moves: list[Move]
    settled: list[Settled]
    two: list[Settled]


class TquicCopa:
    """whole: its standing RTT is the least of a whole round trip, as its default has it, not of half of one."""

    def __init__(self, program: Path, whole: bool = False) -> None:
        command = [str(program), str(DEFAULT_DELTA), str(int(whole))]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._acked = self._sent = 0
        self.cwnd, self.pacing_rate, self.velocity = 10.0 * PACKET_BYTES, inf, 1
        self.moves: list[Move] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.communicate()

    def _ask(self, *words: object) -> None:
        assert self._child.stdin and self._child.stdout
        self._child.stdin.write(" ".join(map(str, words)) + "\n")
        answer = self._child.stdout.readline().split()
        self.cwnd, self.pacing_rate, self.velocity = float(answer[0]), float(answer[1]), int(answer[2])

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Pass an acknowledgement on. Its rounds go by numbers of packets: a window of them has left meanwhile."""
        del delivered
        self._acked += 1
        at, took = round(now / MICRO), round(rtt / MICRO)
        while self._sent < self._acked + int(self.cwnd / PACKET_BYTES):
            self._ask("S", self._sent, at)
            self._sent += 1
        self._ask("A", self._acked, at, took, bytes)
        self.moves.append(Move(at, took, round(self.cwnd), self.velocity))

    def on_loss(self, now: float, n: int) -> None:
        """Pass losses on."""
        self._ask("L", round(now / MICRO), n * PACKET_BYTES)

    def on_tick(self, now: float) -> SendingLimit:
        """Return its window and rate."""
        del now
        return SendingLimit(max(self.cwnd, LEAST_CWND), self.pacing_rate)


def answers(whole: bool = False) -> CopaAnswers:
    """Run tquic's Copa. Errors: `Unavailable`."""
    program = tquic_copa()
    halved = ScriptedPath(lambda at: 4.0 if at < SLOWER_AT_S else 2.0, 0.02, 400)
    with TquicCopa(program, whole) as one:
        run(halved, [Starting(one)], MOVED_S)
        moves = one.moves
    found = []
    for path in COPA_PATHS:
        with TquicCopa(program, whole) as one:
            found.append(settled(one, path))
    with TquicCopa(program, whole) as one, TquicCopa(program, whole) as late:
        return {"moves": moves, "settled": found, "two": two(one, late)}
