# SPDX-License-Identifier: MIT
"""The expert that Indigo imitates, which knows a link's best window; and what drives and notes a flow for it.

Question   Which of the five actions brings the window nearest to the best one?
Method     Each action's window is compared with the best one; of equal ones the smaller change counts.
Source     Yan and others, USENIX ATC 2018, section 4.2
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from numpy.typing import NDArray

from configtron.lab.schemes.indigo_network import ACTIONS, LEAST_WINDOW, MOST_WINDOW, Floats, StepState
from configtron.lab.schemes.scheme import INITIAL_CWND, PACKET_BYTES, SendingLimit

# Actions by the size of their change, the least first.
BY_CHANGE = (2, 1, 3, 0, 4)
# A fixed window's packets leave so much faster than a window a round trip, that the window stays the limit.
PACE = 1.1


def expert_actions(windows: Floats, best: float) -> NDArray[np.int64]:
    """Return the expert's action for each window, packets, on a link with this best window."""
    after = np.stack([np.clip(ACTIONS[at](windows), LEAST_WINDOW, MOST_WINDOW) for at in BY_CHANGE])  # type: ignore[arg-type]
    found: NDArray[np.int64] = np.array(BY_CHANGE, np.int64)[np.abs(after - best).argmin(0)]
    return found


class ExpertAction:
    """The expert as a flow's chooser of actions."""

    def __init__(self, best: float) -> None:
        self._best = best

    def __call__(self, state: StepState) -> int:
        return int(expert_actions(np.array([state.window]), self._best)[0])


class NotedAction:
    """A chooser whose states are noted, a row a step."""

    def __init__(self, choose: Callable[[StepState], int]) -> None:
        self._choose = choose
        self.states: list[StepState] = []

    def __call__(self, state: StepState) -> int:
        self.states.append(state)
        return self._choose(state)

    def steps(self) -> NDArray[np.float32]:
        """Return the states: steps x numbers of a `StepState`."""
        return np.array(self.states, np.float32).reshape(-1, len(StepState._fields))


class FixedWindow:
    """A scheme whose window is fixed, packets, from the first round trip on.

    It is paced just above a window a round trip: a window at once would overfill a short queue and be lost.
    """

    def __init__(self, packets: float) -> None:
        self._packets, self._least_s = packets, inf

    def on_ack(self, now: float, rtt: float, delivered: int, bytes: int) -> None:
        """Note the least round trip."""
        del now, delivered, bytes
        self._least_s = min(self._least_s, rtt)

    def on_loss(self, now: float, n: int) -> None:
        """Ignore a loss."""

    def on_tick(self, now: float) -> SendingLimit:
        """Return the window."""
        del now
        if self._least_s == inf:
            return SendingLimit(min(self._packets * PACKET_BYTES, INITIAL_CWND), inf)
        return SendingLimit(self._packets * PACKET_BYTES, PACE * self._packets * PACKET_BYTES / self._least_s)
