# SPDX-License-Identifier: MIT
"""What `live` and `socket` share: how long they look, who interrupts, where sightings go."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.probe.names import finite
from configtron.cli.settings import hint, settings
from configtron.model.errors import DONE, INTERRUPTED, NOTHING, ConfigtronError

if TYPE_CHECKING:
    from configtron.db.store import Store
    from configtron.fingerprint.features import Sighting
    from configtron.report.contexts import SightingWriter

FORMATS = ("table", "jsonl", "csv")
# How long a wait may last before a signal is noticed.
TURN_S = 0.25
# A line of progress stays in logs, so there are few.
PROGRESS_EVERY_S = 10.0
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def watch_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both commands."""
    for option in reversed((
        click.option("-f", "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
                     help="Form of the answer."),
        click.option("-o", "--output-file", default="-", type=click.Path(dir_okay=False),
                     help="Write here; - is stdout."),
        click.option("--for", "span", type=click.FloatRange(min=0, min_open=True), callback=finite,
                     metavar="SECONDS",
                     help="Stop after so long; else at Ctrl-C."),
        click.option("--access-log", type=FILE, help="Log of a web server (combined format), for device classes."),
        click.option("--mmdb", "places", type=FILE, multiple=True,
                     help="MaxMind-format file, for ASN or country; may be given several times."),
    )):  # fmt: skip
        command = option(command)
    return command


class Watch:
    """One look at local connections, from its start to its end. Signals only set a flag, so nothing is done by half."""

    def __init__(
        self, source: str, what: str, span: float | None, store: Store, config: str, writer: SightingWriter
    ) -> None:
        self.source, self._what, self._span = source, what, span
        self._store, self._writer = store, writer
        self.counts: Counter[str] = Counter()
        self.interrupted = self._kept = False
        self._began = self._told = time.monotonic()
        self.number = store.begin_watch(source, config)

    def over(self) -> bool:
        """Whether it is time to stop."""
        return self.interrupted or (self._span is not None and self.elapsed_s >= self._span)

    @property
    def elapsed_s(self) -> float:
        """Since it began."""
        return time.monotonic() - self._began

    def wait_s(self, until_s: float) -> float:
        """How long to wait at most for what may come before that moment of the watch."""
        end = until_s if self._span is None else min(until_s, self._span)
        return min(max(end - self.elapsed_s, 0), TURN_S)

    def keep(self, seen: Sequence[Sighting]) -> None:
        """Store sightings, then print them."""
        if seen:
            self._kept = True
            self._store.record_contexts(self.number, seen)
            self._writer.write(seen)

    def progress(self, going_on: int) -> None:
        """A line now and then. `going_on`: connections that have not been told."""
        now = time.monotonic()
        if settings().loudness >= 0 and now - self._told >= PROGRESS_EVERY_S:
            from configtron.report.contexts import summed

            self._told = now
            text = f"{self._what}: {summed(self.source, self.counts)}, {going_on} open, {self.elapsed_s:.0f} s"
            click.echo(text, err=True)

    def close(self, status: str) -> None:
        """Say how it ended, everywhere."""
        from configtron.model.records import canonical
        from configtron.report.contexts import closing, summed

        last = closing(self.number, self.source, self.elapsed_s, self.counts)
        self._store.finish_watch(self.number, status, canonical(last))
        self._writer.close(last)
        if settings().loudness >= 0:
            again = hint(f"; see them again with: configtron fingerprint contexts {self.number}") if self._kept else ""
            click.echo(f"{self._what}: {summed(self.source, self.counts)}{again}", err=True)

    @property
    def code(self) -> int:
        """The exit code."""
        return INTERRUPTED if self.interrupted else DONE if self.counts["connections"] else NOTHING


@contextmanager
def watching(source: str, what: str, span: float | None, config: str, writer: SightingWriter) -> Iterator[Watch]:
    """A watch that is closed however it ends."""
    from configtron.db.store import Store

    with Store(settings().db) as store, _signals() as flag:
        watch = Watch(source, what, span, store, config, writer)
        flag.append(watch)
        try:
            yield watch
        except ConfigtronError:
            # What came before the trouble is kept; the trouble itself is told by whoever catches it.
            with suppress(ConfigtronError):
                watch.close("failed")
            raise
        except BaseException:
            with suppress(ConfigtronError):
                store.finish_watch(watch.number, "interrupted", "{}")
            raise
        watch.close("interrupted" if watch.interrupted else "done")


@contextmanager
def _signals() -> Iterator[list[Watch]]:
    """The first Ctrl-C (or SIGTERM, SIGHUP) asks the watch to end; a second one does not wait for it."""
    asked: list[Watch] = []

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if not asked or asked[0].interrupted:
            raise KeyboardInterrupt
        asked[0].interrupted = True

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
