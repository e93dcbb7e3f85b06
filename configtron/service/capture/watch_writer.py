# SPDX-License-Identifier: MIT
"""A watch of local connections as it is written: sightings to a file or stdout, now and then a line about progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TextIO

from configtron.fingerprint.features import Sighting
from configtron.report.contexts import SightingWriter, summed
from configtron.report.files import opened
from configtron.service.capture.watching import WatchProgress
from configtron.service.progress import Event

# A line of progress stays in logs, so there are few.
PROGRESS_EVERY_S = 10.0


class WatchWriter:
    """Write sightings and the closing line; report progress in lines."""

    def __init__(
        self, form: str, output_file: str, stack: ExitStack, say: Callable[[str], None], *, silent: bool = False
    ) -> None:
        """`stack` closes the output, `say` prints a line, `silent`: connections are written instead of sightings."""
        self._form, self._output_file, self._stack, self._say, self._silent = form, output_file, stack, say, silent
        self._shown_at, self._stored = time.monotonic(), False
        self.begun = False
        self.out: TextIO

    def ready(self) -> None:
        """Open the output: the watch is about to begin. Errors: `BadInput`, `Unwritten`."""
        self.out = self._stack.enter_context(opened(self._output_file))
        self._writer = SightingWriter(self._form, self.out, silent=self._silent)

    def sink(self, seen: Sequence[Sighting]) -> None:
        """Write sightings."""
        self._stored = True
        self._writer.write(seen)

    def progress(self, event: Event) -> None:
        """Show a line now and then, and the last one."""
        assert isinstance(event, WatchProgress)
        self.begun = True
        if event.last:
            self._writer.close(event.closing())
            total = f"{event.what}: {summed(event.source, event.counts)}"
            self._say(f"{total}; see them again with: configtron fingerprint contexts {event.number}"
                if self._stored else total)  # fmt: skip
        elif time.monotonic() - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            self._say(f"{event.what}: {summed(event.source, event.counts)}, {event.open} open, {event.elapsed_s:.0f} s")
