# SPDX-License-Identifier: MIT
"""Report to the service manager that an agent is ready: its map is in force, and its beacons are taken."""

from __future__ import annotations

import time

from configtron.linux.notify import ready
from configtron.linux.proc import LISTENING, tcp_lines

# s after which an agent is ready without beacons: it applies maps, and logs why no beacons are taken.
WITHOUT_S = 20.0


class AgentReadiness:
    """port: where the process without rights listens for beacons; 0: it does not."""

    def __init__(self, port: int) -> None:
        self._port, self._reported = port, False
        self._deadline_s = time.monotonic() + WITHOUT_S

    def turn(self, connected: bool) -> None:
        """Report once, when it is so. connected: the process without rights runs."""
        if self._reported:
            return
        if (connected and self._listens()) or time.monotonic() >= self._deadline_s:
            ready()
            self._reported = True

    def _listens(self) -> bool:
        return not self._port or any(one.state == LISTENING and one.port == self._port for one in tcp_lines())
