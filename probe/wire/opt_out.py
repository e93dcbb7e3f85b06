# SPDX-License-Identifier: MIT
"""Opt-out lists, also while a run is under way: the files are read again whenever they change."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from configtron.model.errors import BadInput
from configtron.probe.blocklist import Blocklist
from configtron.probe.targets import Source

LOG = logging.getLogger("configtron.probe")
# How long a new entry may go unnoticed; reading the files takes far less.
CHECK_EVERY_S = 1.0


class OptOut:
    """The opt-out files, checked for changes once a second."""

    def __init__(self, paths: Sequence[Path], clock: Callable[[], float] = time.monotonic) -> None:
        self._paths, self._clock = paths, clock
        self._checked_at = float("-inf")
        self._stamps: object = None
        self._list = Blocklist(special=False)
        self._sources: list[Source] = []
        # Raised by each change of the lists.
        self.version = 0

    def why(self, host: str, address: str) -> str:
        """Return why a host or address must not be probed; "" if it may be."""
        self.sources()
        return self._list.host(host) or self._list.address(address)

    def sources(self) -> list[Source]:
        """Return the lists as they are now."""
        if self._paths and self._clock() >= self._checked_at + CHECK_EVERY_S:
            self._checked_at = self._clock()
            self._reload()
        return self._sources

    def _reload(self) -> None:
        """Read changed files again. A file that cannot be read, half-written perhaps, leaves the list as it was."""
        try:
            state = [(path.stat().st_mtime_ns, path.stat().st_size) for path in self._paths]
            if state != self._stamps:
                sources = [Source(str(path), path.read_text("utf-8")) for path in self._paths]
                self._list = Blocklist(sources, special=False)
                self._stamps, self._sources, self.version = state, sources, self.version + 1
        except (OSError, UnicodeDecodeError, BadInput) as error:
            LOG.warning("opt-out files not read again: %s; the entries read earlier still hold", error)
