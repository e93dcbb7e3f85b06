# SPDX-License-Identifier: MIT
"""Where benchmarks.packet_loop measures: one trial in the lab's guest, and how many packets left.

    python -m benchmarks.packet_loop_inside CLIENT PLAYER KIND SECONDS FLOWS

KIND is of `support/datagram_guest.py`, "kernel" (cubic over that path), "log" (copa over a lossy path), or a scheme, of
which FLOWS share the path. The output folder gets `found.json`: packets that left, and a digest of a single flow's log.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from configtron.lab.schemes.table import made
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import raise_testbed
from configtron.lab.testbed.shard import Programs
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from configtron.studies.flows import flows, throttle
from configtron.studies.flows.flows import Flow, Trial
from configtron.studies.guests.parts import Means
from configtron.tune.drivers import load
from tests.support.datagram_guest import LOSSY, RUNS, Fixed

CONDITION = "hotcloud:20/50/0"
# What fills the path and half of its queue, without a loss.
WINDOW = 100


def main(arguments: Sequence[str]) -> int:
    """Run it and write what is found."""
    client, program, kind, seconds, count = arguments
    if kind in RUNS or kind == "log":
        found = _alone(kind, Path(program), float(seconds))
    else:
        scheme = "cubic" if kind == "kernel" else kind
        trial = Trial(named(CONDITION), (Flow(scheme),) * int(count), float(seconds))
        means = Means(load, Programs(client, program), 1)
        outcomes = flows.outcomes_of(throttle.perform(flows.orders_of([trial]), Path(GUEST_OUTPUT), means))
        found = (sum(flow.sent for flow in outcomes[0].flows), "")
    Path(GUEST_OUTPUT, "found.json").write_text(json.dumps(found))
    return 0


def _alone(kind: str, program: Path, seconds: float) -> tuple[int, str]:
    condition = LOSSY if kind == "log" else named(CONDITION)
    scheme = made("copa", np.random.default_rng(1)) if kind == "log" else Fixed(packets=WINDOW)
    testbed = raise_testbed(condition, ["a.test"], player=program)
    try:
        log = RUNS.get(kind, RUNS["echo"])(testbed, program, scheme, seconds)
    finally:
        testbed.close()
    digest = hashlib.sha256(b"".join(each.tobytes() for each in (log.at_s, log.rtt_s, log.lost_at_s)))
    return log.sent, digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
