# SPDX-License-Identifier: MIT
"""What `live` and `socket` share: options, the output, progress on stderr, Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TextIO

import click

from configtron.cli.options import INPUT_FILE, SPAN, format_option, output_option, with_options
from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.linux.signals import asked_to_stop
from configtron.model.errors import DONE, INTERRUPTED, NOTHING

if TYPE_CHECKING:
    from configtron.fingerprint.features import Sighting
    from configtron.service.capture import Outputs, WatchResult
    from configtron.service.progress import Event

# A line of progress stays in logs, so there are few.
PROGRESS_EVERY_S = 10.0


# The options of both commands.
watch_options = with_options(
    format_option(),
    output_option,
    click.option("--for", "span", type=SPAN, metavar="SECONDS", help="Stop after so long; else at Ctrl-C."),
    click.option("--access-log", type=INPUT_FILE, help="Log of a web server (combined format), for devices."),
    click.option("--mmdb", "places", type=INPUT_FILE, multiple=True,
                 help="MaxMind-format file, for ASN or country; may be repeated."),
)  # fmt: skip


class WatchDisplay:
    """Write sightings and the closing line; show progress on stderr."""

    def __init__(self, form: str, output_file: str, stack: ExitStack, *, silent: bool = False) -> None:
        """`silent`: connections are written instead of sightings."""
        self._form, self._output_file, self._stack, self._silent = form, output_file, stack, silent
        self._shown_at, self._stored = time.monotonic(), False
        self.begun = False
        self.out: TextIO

    def ready(self) -> None:
        """Open the output: the watch is about to begin. Errors: `BadInput`, `Unwritten`."""
        from configtron.report.contexts import SightingWriter
        from configtron.report.files import opened

        self.out = self._stack.enter_context(opened(self._output_file))
        self._writer = SightingWriter(self._form, self.out, silent=self._silent)

    def sink(self, seen: Sequence[Sighting]) -> None:
        """Write sightings."""
        self._stored = True
        self._writer.write(seen)

    def progress(self, event: Event) -> None:
        """Show a line now and then, and the last one."""
        from configtron.report.contexts import summed
        from configtron.service.capture import WatchProgress

        assert isinstance(event, WatchProgress)
        self.begun = True
        if event.last:
            self._writer.close(event.closing())
            total = f"{event.what}: {summed(event.source, event.counts)}"
            say(f"{total}; see them again with: configtron fingerprint contexts {event.number}"
                if self._stored else total)  # fmt: skip
        elif time.monotonic() - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            say(f"{event.what}: {summed(event.source, event.counts)}, {event.open} open, {event.elapsed_s:.0f} s")


@contextmanager
def watch_outputs(form: str, output_file: str, *, silent: bool = False) -> Iterator[tuple[Outputs, WatchDisplay]]:
    """Yield where a watch reports. Once it has begun, the first Ctrl-C, SIGTERM or SIGHUP cancels it, and a second one
    does not wait for it."""
    from configtron.service.capture import Outputs

    with ExitStack() as stack:
        display = WatchDisplay(form, output_file, stack, silent=silent)
        with asked_to_stop(lambda: display.begun) as stopping:
            yield Outputs(settings().db, display.ready, display.sink, display.progress, stopping), display


def exit_code(done: WatchResult) -> int:
    """Return the exit code of a watch that has ended."""
    return INTERRUPTED if done.cancelled else DONE if done.counts.get("connections") else NOTHING
