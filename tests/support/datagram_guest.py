# SPDX-License-Identifier: MIT
"""In the lab's guest: the same flow by Python alone, by the library, and by the library with the kernel's echo.

    python -m tests.support.datagram_guest PLAYER SECONDS KIND...  kinds: RUNS; PLAYER: player.program(), built outside

The output folder gets KIND-LOAD.npz for each kind and load: acknowledgements, round trips, losses, packets sent.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path

import numpy as np

from configtron.lab.schemes.scheme import PACKET_BYTES, Scheme, SendingLimit
from configtron.lab.testbed import player
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.network import Testbed, raise_testbed
from configtron.lab.testbed.single_flow import FlowLog, run_flow
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.support.plain_datagrams import run_plainly

# 20 Mbit/s and 20 ms there and back: 33.3 packets fill the path, and 60 more may wait.
MBIT, WAY_MS, QUEUE_PACKETS = 20.0, 10.0, 60
EVEN = Condition("even", LinkDirection(MBIT * 1e3, WAY_MS, queue_packets=QUEUE_PACKETS), LinkDirection(delay_ms=WAY_MS))
# The player's: one packet in fifty is lost.
LOSSY = Condition("lossy", LinkDirection(6e3, WAY_MS, loss=0.02, kind="bursts"), LinkDirection(delay_ms=WAY_MS))


class Fixed:
    """Always the same allowance: what the loop makes of it is the loop's doing."""

    def __init__(self, packets: float = inf, mbit: float = inf) -> None:
        self.limit = SendingLimit(packets * PACKET_BYTES, mbit * 1.25e5)

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        pass

    def on_loss(self, now: float, n: int) -> None:
        pass

    def on_tick(self, now: float) -> SendingLimit:
        return self.limit


# What a scheme can ask for: a window below the path's, one that overflows the queue, a pace, a window under losses.
LOADS: dict[str, tuple[Condition, Callable[[], Scheme]]] = {
    "window": (EVEN, lambda: Fixed(packets=30)), "overflow": (EVEN, lambda: Fixed(packets=120)),
    "paced": (EVEN, lambda: Fixed(mbit=15.0)), "lossy": (LOSSY, lambda: Fixed(packets=15)),
}  # fmt: skip


def library_alone(program: Path) -> Path:
    """Return the library in a folder without the echo's program."""
    return Path(shutil.copy(player.datagrams(program), tempfile.mkdtemp()))


RUNS: dict[str, Callable[[Testbed, Path, Scheme, float], FlowLog]] = {
    "plain": lambda testbed, _, scheme, seconds: run_plainly(testbed, scheme, seconds),
    "library": lambda testbed, program, scheme, seconds: run_flow(testbed, library_alone(program), scheme, seconds),
    "echo": lambda testbed, program, scheme, seconds: run_flow(testbed, player.datagrams(program), scheme, seconds),
}


def main(arguments: Sequence[str]) -> int:
    """Each kind with each load."""
    program, seconds, kinds = Path(arguments[0]), float(arguments[1]), arguments[2:]
    testbed = raise_testbed(EVEN, ["a.test"], player=program)
    try:
        for kind in kinds:
            for name, (condition, make) in LOADS.items():
                testbed.change(condition, seed=1)
                log = RUNS[kind](testbed, program, make(), seconds)
                np.savez(
                    Path(GUEST_OUTPUT, f"{kind}-{name}.npz"),
                    at_s=log.at_s, rtt_s=log.rtt_s, lost_at_s=log.lost_at_s, sent=log.sent,
                )  # fmt: skip
    finally:
        testbed.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
