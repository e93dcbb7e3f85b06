# SPDX-License-Identifier: MIT
"""`learn measure`, put together: options for the service, progress on stderr, cells and tensor at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TextIO

from configtron.cli.learn.outcome import Wanted, show
from configtron.cli.settings import hint, settings
from configtron.cli.terminated import terminated
from configtron.db.measuring import Measuring
from configtron.model.errors import INTERRUPTED, cannot_write
from configtron.report.filling import Filling
from configtron.report.lines import can_be_written
from configtron.service.learning.measuring import STOPPED, MeasureEvent, MeasureOptions, MeasureProgress, fill


def begin(
    study: str,
    conditions: Sequence[str],
    sites: Sequence[str],
    looks: Sequence[int],
    seed: int,
    server: str,
    wanted: Wanted,
) -> int:
    """Run a new measurement; return the exit code."""
    named = {"study": study, "conditions": tuple(conditions), "sites": tuple(sites), "looks": tuple(looks)}
    how = {"jobs": wanted.jobs or 0, "dask": wanted.dask, "argv": tuple(sys.argv[1:])}
    return _filled(MeasureOptions(settings().db, seed=seed, server=server, **named, **how), wanted)  # type: ignore[arg-type]


def go_on(number: int, wanted: Wanted) -> int:
    """Go on with a measurement that was begun before; return the exit code."""
    return _filled(MeasureOptions(settings().db, resume=number, jobs=wanted.jobs or 0, dask=wanted.dask), wanted)


def _filled(options: MeasureOptions, wanted: Wanted) -> int:
    can_be_written(wanted.tensor, wanted.output_file)
    with _shown(wanted) as progress, terminated():
        found = fill(options, progress)
    with Measuring(options.db) as store:
        code = show(store, found.number, found.layout, found.folder, wanted)
    return INTERRUPTED if found.status == STOPPED else code


@contextmanager
def _shown(wanted: Wanted) -> Iterator[MeasureProgress]:
    """Events shown by a `Filling`, which begins with the first of them: only then has the measurement a number."""
    given, path = settings(), wanted.status_updates_file
    with ExitStack() as stack:
        status: TextIO | None = None
        if path is not None:
            try:
                status = sys.stderr if str(path) == "-" else stack.enter_context(path.open("w"))
            except OSError as error:
                raise cannot_write(path, error) from error
        filling: Filling | None = None

        def show_event(event: MeasureEvent) -> None:
            nonlocal filling
            if filling is None:
                what = f"measurement {event.number}"
                made = Filling(what, sys.stderr, quiet=given.loudness < 0, color=given.color, status=status)
                filling = stack.enter_context(made)
            if event.notice:
                filling.say(hint(event.notice))
            else:
                filling.update(event.moment, last=event.last)

        yield show_event
