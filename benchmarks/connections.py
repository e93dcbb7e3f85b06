# SPDX-License-Identifier: MIT
"""How many ICW probes one thread carries: real packets, a real nginx, every count checked.

    python -m benchmarks.connections [COUNT]

Claim: at least 500 connections a second on one core, none of them miscounted or lost by the capture socket.
"""

from __future__ import annotations

import sys
import time

from configtron.fingerprint import read
from configtron.model.nouns import Trace
from configtron.probe.wire.pump import Pump
from tests.support.servers import raised

# Flows held open together: a flow lasts about a third of a second, most of it the server's retransmission timer.
AT_ONCE = 800
# Ports: one for each connection to a single server (a used one rests for two minutes).
PORTS = range(1024, 32768)
CLAIM_PER_S = 500
# What Linux starts with since 2.6.39.
ICW = 10


def carry(count: int, mss: int) -> tuple[list[Trace], float, float]:
    """The traces; seconds by the clock on the wall, and of this thread."""
    traces: list[Trace] = []
    with raised(["nginx"]) as standing, Pump([standing.vantage], ports=PORTS, seed=1, agent="benchmark") as pump:
        wall, cpu, begun = time.monotonic(), time.process_time(), 0
        while len(traces) < count:
            while begun < count and pump.active < AT_ONCE:
                pump.begin("host", f"{begun}", standing.clear[0], "icw", (("mss", mss),))
                begun += 1
            traces += [recording.trace for recording in pump.poll(1.0)]
        return traces, time.monotonic() - wall, time.process_time() - cpu


def wrong(trace: Trace) -> bool:
    """Whether the window was not read as what it is."""
    return not any(o.knob == "icw" and o.value == ICW and not trace.tainted for o in read(trace))


def main(count: int) -> int:
    """Print a row a segment size; 1 if the claim does not hold."""
    print(f"{'MSS':>5} {'connections':>12} {'per second':>11} {'per CPU second':>15} {'wrong or tainted':>17}")
    holds = True
    for mss in (64, 536, 1460):
        traces, wall, cpu = carry(count, mss)
        bad = sum(wrong(trace) for trace in traces)
        print(f"{mss:5} {count:12} {count / wall:11.0f} {count / cpu:15.0f} {bad:17}")
        holds = holds and count / wall >= CLAIM_PER_S and not bad
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
