# SPDX-License-Identifier: MIT
"""libutp's LEDBAT: where it settles, and how its window moves."""

from __future__ import annotations

from typing import TypedDict

from benchmarks.scheme_oracles.fetched import libutp
from benchmarks.scheme_oracles.libutp_flows import UtpFlow, run
from tests.support.oracle_inputs import LATE_S, LEDBAT_PATHS, SECONDS, TWO_PATH, TWO_SECONDS, Settled
from tests.support.scripted_path import ScriptedPath

# Of the steps of the last flow one in so many is kept, once its slow start is over.
EVERY, FROM = 20, 200


class LedbatAnswers(TypedDict):
    """steps: window before, ms of queueing, bytes acknowledged, growth; settled: by path; two: of two flows."""

    steps: list[tuple[int, int, int, float]]
    settled: list[Settled]
    two: list[Settled]


def _settled(flow: UtpFlow, seconds: tuple[float, float]) -> Settled:
    mbit, queueing_s = flow.between(*seconds)
    return Settled(mbit, 1e3 * queueing_s)


def answers() -> LedbatAnswers:
    """Run libutp. Errors: `Unavailable`."""
    library = libutp()
    flows = [run(library, ScriptedPath(*path), [0.0], SECONDS[1])[0] for path in LEDBAT_PATHS]
    pair = run(library, ScriptedPath(*TWO_PATH), [0.0, LATE_S], TWO_SECONDS[1])
    # of the flow whose queue the late one overfills: its steps go both ways
    steps = pair[0].steps[FROM::]
    rows = [(before.window, now.delay_ms, now.acked, now.gain) for before, now in zip(steps, steps[1:], strict=False)]
    return {
        "steps": rows[::EVERY],
        "settled": [_settled(flow, SECONDS) for flow in flows],
        "two": [_settled(flow, TWO_SECONDS) for flow in pair],
    }
