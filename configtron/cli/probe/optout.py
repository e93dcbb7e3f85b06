# SPDX-License-Identifier: MIT
"""Who asked to be left alone, also while a run is under way: the opt-out files are read again whenever they change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from configtron.model.errors import BadInput
from configtron.probe.blocklist import Blocklist
from configtron.probe.targets import Source

LOG = logging.getLogger("configtron.probe")
# How long an entry may go unnoticed: shorter than anybody's patience, longer than it takes to look.
LOOK_EVERY_S = 1.0


class OptOut:
    """The opt-out files, looked at once a second."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = paths, clock
        self._looked_at = float("-inf")
        self._state: object = None
        self._list = Blocklist(special=False)

    def why(self, host: str, address: str) -> str:
        """Why they may not be asked; "" if they may."""
        if self._paths and self._clock() >= self._looked_at + LOOK_EVERY_S:
            self._looked_at = self._clock()
            self._look()
        return self._list.host(host) or self._list.address(address)

    def _look(self) -> None:
        """Read again what has changed. A file that cannot be read, half-written perhaps, leaves the list as it was."""
        try:
            state = [(path.stat().st_mtime_ns, path.stat().st_size) for path in self._paths]
            if state != self._state:
                sources = [Source(str(path), path.read_text("utf-8")) for path in self._paths]
                self._list = Blocklist(sources, special=False)
                self._state = state
        except (OSError, UnicodeDecodeError, BadInput) as error:
            LOG.warning("opt-out files: %s; those who stood there before are left alone", error)
