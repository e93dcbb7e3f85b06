# SPDX-License-Identifier: MIT
"""Report to the service manager that an agent is ready: its map is in force, and its beacons are taken."""

from __future__ import annotations

import time

from configtron.linux.notify import ready
from configtron.linux.proc import LISTENING, tcp_lines

# s after which an agent is ready without its beacons: what keeps them from being taken is logged, maps are applied.
WITHOUT_S = 20.0


class AgentReadiness:
    """port: of the beacons, which the process without rights listens on; 0: none are taken."""

    def __init__(self, port: int) -> None:
        self._port, self._reported = port, False
        self._without_s = time.monotonic() + WITHOUT_S

    def turn(self, connected: bool) -> None:
        """Report it once. connected: the process without rights runs."""
        if self._reported:
            return
        if (connected and self._listens()) or time.monotonic() >= self._without_s:
            ready()
            self._reported = True

    def _listens(self) -> bool:
        return not self._port or any(one.state == LISTENING and one.port == self._port for one in tcp_lines())
