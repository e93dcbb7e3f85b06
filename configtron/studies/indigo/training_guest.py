# SPDX-License-Identifier: MIT
"""The program that a guest of the testbed runs for Indigo's training: flows over links, one after another.

    python3 -m configtron.studies.indigo.training_guest CLIENT PLAYER FOLDER

FOLDER holds the orders (`training_flows.py`) and, for flows that the network drives, its weights; what was found goes
beside them, whole or not at all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import IndigoWeights, LearnedAction
from configtron.lab.testbed import player
from configtron.lab.testbed.families import named
from configtron.lab.testbed.network import Testbed, raise_testbed
from configtron.lab.testbed.single_flow import FlowLog, run_flow
from configtron.model.errors import DONE, USAGE, ConfigtronError
from configtron.studies.indigo.training_flows import (
    FOUND,
    ORDERS,
    WEIGHTS,
    FlowFound,
    FlowOrder,
    found_bytes,
    orders_of,
    weights_of,
)
from configtron.studies.indigo.window_expert import ExpertAction, FixedWindow, NotedAction
from configtron.studies.indigo.window_search import next_windows

ORIGIN = "a.test"
# A flow with a fixed window has so many packets of the link's rate, and at least so many round trips.
SEARCH_PACKETS, SEARCH_ROUNDS = 1200, 8
LEAST_SEARCH_S, MOST_SEARCH_S = 0.6, 20.0


class _Flows:
    """The testbed of a boot, and what drives its flows."""

    def __init__(self, testbed: Testbed, library: Path, weights: IndigoWeights | None) -> None:
        self._testbed, self._library, self._weights = testbed, library, weights

    def found(self, order: FlowOrder) -> FlowFound:
        """Return what a flow, or a search over flows, found."""
        condition = named(order.link)
        if order.kind == "search":
            mbit, rtt_s = condition.down.rate_kbit / 1e3, condition.rtt_ms / 1e3
            wanted = max(SEARCH_PACKETS * 0.012 / mbit, SEARCH_ROUNDS * rtt_s, LEAST_SEARCH_S)
            seconds = round(min(wanted, MOST_SEARCH_S), 1)
            tried: dict[int, float] = {}
            while windows := next_windows(tried):
                tried.update({one: self._power(order, one, seconds) for one in windows})
            return FlowFound(order.link, NotedAction(lambda state: 0).steps(), tried)
        if order.kind == "expert":
            noted = NotedAction(ExpertAction(order.best))
        else:
            assert self._weights, "orders with weights"
            noted = NotedAction(LearnedAction(self._weights))
        self._testbed.change(condition, seed=order.seed)
        run_flow(self._testbed, self._library, Indigo(noted), order.seconds)
        return FlowFound(order.link, noted.steps(), {})

    def _power(self, order: FlowOrder, window: int, seconds: float) -> float:
        """Mbit/s over ms, of the second half of a flow with this window."""
        condition = named(order.link)
        self._testbed.change(condition, seed=order.seed)
        log = run_flow(self._testbed, self._library, FixedWindow(window), seconds)
        return power_of(log, seconds / 2, condition.up.delay_ms)


def power_of(log: FlowLog, from_s: float, back_ms: float) -> float:
    """Return throughput over the 95th percentile of one-way delay, from a moment on; 0 where nothing came."""
    rtt_ms = log.rtt_s[log.at_s >= from_s] * 1e3
    return log.mbit(from_s) / (float(np.percentile(rtt_ms, 95)) - back_ms) if len(rtt_ms) else 0.0


def perform(folder: Path, program: Path) -> None:
    """Do the orders of this folder. Errors: `BadInput`, `Mismatch` where a link is not as asked."""
    orders = orders_of((folder / ORDERS).read_text())
    weights = weights_of((folder / WEIGHTS).read_bytes()) if (folder / WEIGHTS).exists() else None
    testbed = raise_testbed(named(orders[0].link), [ORIGIN], player=program)
    try:
        flows = _Flows(testbed, player.datagrams(program), weights)
        text = found_bytes([flows.found(order) for order in orders])
    finally:
        testbed.close()
    begun = folder / f"{FOUND}.begun"
    begun.write_bytes(text)
    begun.rename(folder / FOUND)


def main(arguments: list[str]) -> int:
    """Run; return the exit code."""
    if len(arguments) != 3:
        sys.stderr.write("usage: python3 -m configtron.studies.indigo.training_guest CLIENT PLAYER FOLDER\n")
        return USAGE
    try:
        perform(Path(arguments[2]), Path(arguments[1]))
        return DONE
    except ConfigtronError as error:
        sys.stderr.write(f"configtron: {error}\n")
        return error.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
