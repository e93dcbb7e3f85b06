# SPDX-License-Identifier: MIT
"""Where benchmarks.packet_loop measures: one trial in the lab's guest, and how many packets left.

    python -m benchmarks.packet_loop_inside CLIENT PLAYER KIND SECONDS FLOWS

KIND is of `rigs/datagram_guest.py`, "kernel" (cubic over the same path), or a scheme, of which FLOWS share the path.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import raise_testbed
from configtron.lab.testbed.shard import Programs
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.studies.flows import flows, throttle
from configtron.studies.flows.flows import Flow, Trial
from configtron.studies.guests.parts import Means
from configtron.tune.drivers import load
from rigs.datagram_guest import RUNS, Fixed

CONDITION = "hotcloud:20/50/0"
# What fills the path and half of its queue, without a loss.
WINDOW = 100


def main(arguments: Sequence[str]) -> int:
    """Run it and write the number."""
    client, program, kind, seconds, count = arguments
    if kind in RUNS:
        sent = _alone(kind, Path(program), float(seconds))
    else:
        scheme = "cubic" if kind == "kernel" else kind
        trial = Trial(named(CONDITION), (Flow(scheme),) * int(count), float(seconds))
        means = Means(load, Programs(client, program), 1)
        outcomes = flows.outcomes_of(throttle.perform(flows.orders_of([trial]), Path(GUEST_OUTPUT), means))
        sent = sum(flow.sent for flow in outcomes[0].flows)
    Path(GUEST_OUTPUT, "found.json").write_text(str(sent))
    return 0


def _alone(kind: str, program: Path, seconds: float) -> int:
    testbed = raise_testbed(named(CONDITION), ["a.test"], player=program)
    try:
        return RUNS[kind](testbed, program, Fixed(packets=WINDOW), seconds).sent
    finally:
        testbed.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
