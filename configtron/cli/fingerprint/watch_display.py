# SPDX-License-Identifier: MIT
"""What `live` and `socket` share: options, the output, progress on stderr, Ctrl-C."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

import click

from configtron.cli.probe.names import finite
from configtron.cli.settings import hint, settings
from configtron.model.errors import DONE, INTERRUPTED, NOTHING

if TYPE_CHECKING:
    from configtron.fingerprint.features import Sighting
    from configtron.service.capture import Outputs, WatchResult
    from configtron.service.progress import Event

FORMATS = ("table", "jsonl", "csv")
# A line of progress stays in logs, so there are few.
PROGRESS_EVERY_S = 10.0
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of both commands."""
    for option in reversed((
        click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
                     help="Form of the answer."),
        click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False),
                     help="Write here; - is stdout."),
        click.option("--for", "span", type=click.FloatRange(min=0, min_open=True), callback=finite, metavar="SECONDS",
                     help="Stop after so long; else at Ctrl-C."),
        click.option("--access-log", type=FILE, help="Log of a web server (combined format), for device classes."),
        click.option("--mmdb", "places", type=FILE, multiple=True,
                     help="MaxMind-format file, for ASN or country; may be given several times."),
    )):  # fmt: skip
        command = option(command)
    return command


class WatchDisplay:
    """Write sightings and the closing line; show progress on stderr."""

    def __init__(self, form: str, output_file: str, stack: ExitStack, *, silent: bool = False) -> None:
        """`silent`: connections are written instead of sightings."""
        self._form, self._output_file, self._stack, self._silent = form, output_file, stack, silent
        self._shown_at, self._kept = time.monotonic(), False
        self.out: TextIO

    def ready(self) -> None:
        """Open the output: the watch is about to begin. Errors: `BadInput`, `Unwritten`."""
        from configtron.report.contexts import SightingWriter
        from configtron.report.lines import opened

        self.out = self._stack.enter_context(opened(self._output_file))
        self._writer = SightingWriter(self._form, self.out, silent=self._silent)

    def sink(self, seen: Sequence[Sighting]) -> None:
        """Write sightings."""
        self._kept = True
        self._writer.write(seen)

    def progress(self, event: Event) -> None:
        """Show a line now and then, and the last one."""
        from configtron.report.contexts import summed
        from configtron.service.capture import WatchProgress

        assert isinstance(event, WatchProgress)
        if event.last:
            self._writer.close(event.closing())
            if settings().loudness >= 0:
                again = hint(f"; see them again with: configtron fingerprint contexts {event.number}")
                click.echo(f"{event.what}: {summed(event.source, event.counts)}{again * self._kept}", err=True)
        elif settings().loudness >= 0 and time.monotonic() - self._shown_at >= PROGRESS_EVERY_S:
            self._shown_at = time.monotonic()
            text = f"{event.what}: {summed(event.source, event.counts)}, {event.open} open, {event.elapsed_s:.0f} s"
            click.echo(text, err=True)


@contextmanager
def watch_outputs(form: str, output_file: str, *, silent: bool = False) -> Iterator[tuple[Outputs, WatchDisplay]]:
    """Yield where a watch reports. Once it has begun, the first Ctrl-C, SIGTERM or SIGHUP cancels it, and a second one
    does not wait for it."""
    from configtron.service.capture import Outputs

    begun: set[int] = set()
    asked: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if not begun or asked:
            raise KeyboardInterrupt
        asked.append(signum)

    def progress(event: Event) -> None:
        begun.add(1)
        display.progress(event)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with ExitStack() as stack:
            display = WatchDisplay(form, output_file, stack, silent=silent)
            yield Outputs(settings().db, display.ready, display.sink, progress, lambda: bool(asked)), display
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(done: WatchResult) -> int:
    """Return the exit code of a watch that has ended."""
    return INTERRUPTED if done.cancelled else DONE if done.counts.get("connections") else NOTHING
