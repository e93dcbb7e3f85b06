# SPDX-License-Identifier: MIT
"""`learn measure`, put together: what is measured, where it is kept, who does it, what is shown.

A measurement owns a folder beside the database: a folder a shard (orders, lines, what the guest said), and the tensor.
A shard is taken into the database when it is whole; a resumed measurement first takes what lies there whole.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TextIO

from configtron.cli.learn.outcome import Wanted, show
from configtron.cli.settings import hint, settings
from configtron.cli.terminated import terminated
from configtron.db.measuring import Measuring, Shard
from configtron.lab.bed import measure
from configtron.lab.bed.layout import Layout, laid_out
from configtron.lab.bed.shard import Orders
from configtron.lab.bed.studies import study_of
from configtron.model.errors import INTERRUPTED, BadInput, cannot_write
from configtron.model.records import Json, canonical
from configtron.model.samples import digest, judged
from configtron.report.filling import Filling, Moment
from configtron.report.lines import can_be_written
from configtron.service.campaign.runs import locked

# What a guest runs: it needs what only this layer knows, the drivers.
WORKER = "configtron.cli.shard"
# How a measurement ended.
ALL, SOME, STOPPED, FAILED = "done", "partial", "interrupted", "failed"


def begin(
    study: str,
    conditions: Sequence[str],
    sites: Sequence[str],
    looks: Sequence[int],
    seed: int,
    server: str,
    wanted: Wanted,
) -> int:
    """A new measurement; the exit code."""
    layout = laid_out(study_of(study).narrowed(conditions, sites, looks), seed, server)
    can_be_written(wanted.tensor, wanted.output_file)
    # before anything is kept: a machine that cannot measure is told so at once
    guests = None if wanted.dask else measure.guests(WORKER)
    with Measuring(settings().db) as store:
        here: dict[str, Json] = {"host": platform.node(), "python": platform.python_version()}
        config = canonical({"layout": json.loads(layout.to_json()), "argv": list(sys.argv[1:]), **here})
        number = store.begin(layout.study, config)
        return _Measured(store, number, layout, wanted, guests).fill()


def go_on(number: int, wanted: Wanted) -> int:
    """A measurement that was begun before; the exit code."""
    can_be_written(wanted.tensor, wanted.output_file)
    with Measuring(settings().db) as store:
        found = store.measurement(number)
        layout = layout_of(found.config)
        open_still = {one.condition for one in store.shards(found.id)} != {one.name for one in layout.conditions}
        guests = measure.guests(WORKER) if open_still and not wanted.dask else None
        return _Measured(store, found.id, layout, wanted, guests).fill()


def layout_of(config: str) -> Layout:
    """What a measurement was begun with. Errors: `BadInput`."""
    try:
        return Layout.from_json(json.dumps(json.loads(config)["layout"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"a measurement's configuration cannot be read: {error}; begin a new one") from error


def folder_of(store: Measuring, number: int) -> Path:
    """Where a measurement's files lie: beside the database and named after it, under its number."""
    path = store.path.resolve()
    return path.with_name(f"{path.name}.measurements") / str(number)


class _Measured:
    """One measurement being filled."""

    def __init__(
        self, store: Measuring, number: int, layout: Layout, wanted: Wanted, guests: measure.Guests | None
    ) -> None:
        self.store, self.number, self.layout, self.wanted, self.guests = store, number, layout, wanted, guests
        self.folder = folder_of(store, number)
        self.at = Moment(cells=layout.cells, shards=len(layout.conditions))
        self.why: dict[str, str] = {}

    def fill(self) -> int:
        """Measure what is not measured yet, show all of it; the exit code."""
        status = FAILED
        with terminated(), ExitStack() as stack:
            stack.enter_context(locked(self.folder, self.number, "measurement"))
            self.store.resume(self.number)
            progress = stack.enter_context(self._progress(stack))
            try:
                self._perform(progress)
                status = SOME if self.why else ALL
            except KeyboardInterrupt:
                status = STOPPED
            finally:
                progress.update(self.at, last=True)
                self.store.finish(self.number, status)
                if status != ALL:
                    again = hint(f"configtron learn measure --resume {self.number}")
                    progress.say(f"measurement {self.number}: {status}; go on with: {again}")
        code = show(self.store, self.number, self.layout, self.folder, self.wanted)
        return INTERRUPTED if status == STOPPED else code

    def _progress(self, stack: ExitStack) -> Filling:
        given, path = settings(), self.wanted.status_updates_file
        status: TextIO | None = None
        if path is not None:
            try:
                status = sys.stderr if str(path) == "-" else stack.enter_context(path.open("w"))
            except OSError as error:
                raise cannot_write(path, error) from error
        what = f"measurement {self.number}"
        return Filling(what, sys.stderr, quiet=given.loudness < 0, color=given.color, status=status)

    def _todo(self) -> list[tuple[Orders, Path]]:
        """Shards that are not measured yet, and their folders; what lies there whole is taken over first."""
        kept = {one.condition: one.loads for one in self.store.shards(self.number)}
        self.at = self.at._replace(shards_done=len(kept), loads=sum(kept.values()))
        position = {condition.name: i for i, condition in enumerate(self.layout.conditions)}
        todo: list[tuple[Orders, Path]] = []
        for orders in measure.in_drawn_order(self.layout.orders()):
            name = orders.condition.name
            folder = self.folder / measure.slug(position[name], name)
            if name not in kept and not self._taken(orders, folder):
                todo.append((orders, folder))
        done = self.at.shards_done * len(self.layout.grid) * len(self.layout.pages)
        self.at = self.at._replace(done=done, before=done)
        return todo

    def _perform(self, progress: Filling) -> None:
        todo = self._todo()
        orders_of = {orders.condition.name: orders for orders, _ in todo}
        progress.update(self.at)
        # whatever happens here, the guests are ended before anything else is done
        with closing(self._measured(todo, progress)) as measured:
            for ended in measured:
                if ended.why:
                    self.why[ended.condition] = ended.why
                    self.at = self.at._replace(shards_failed=self.at.shards_failed + 1)
                    progress.say(f"{ended.condition}: {ended.why}")
                else:
                    self._keep(orders_of[ended.condition], ended)
                progress.update(self.at)

    def _taken(self, orders: Orders, folder: Path) -> bool:
        """A shard that lies there whole but was not told to the database: the measurement was killed in between."""
        text = measure.whole(folder, orders)
        told = folder / measure.SOFTWARE
        if not text or not told.exists():
            return False
        self._keep(orders, measure.Ended(orders.condition.name, text, measure.software_of(told), 0.0))
        return True

    def _measured(self, todo: Sequence[tuple[Orders, Path]], progress: Filling) -> Generator[measure.Ended, None, None]:
        def tell(seen: measure.Seen) -> None:
            done = min(self.at.done + seen.cells, self.at.cells)
            progress.update(self.at._replace(done=done, loads=self.at.loads + seen.loads))

        if todo and self.wanted.dask:
            from configtron.lab.bed.cluster import perform_away

            yield from perform_away([orders for orders, _ in todo], self.wanted.dask, WORKER)
        elif todo:
            assert self.guests is not None, "something is to be measured"
            yield from measure.perform(todo, self.guests, self.wanted.jobs or len(os.sched_getaffinity(0)), tell)

    def _keep(self, orders: Orders, ended: measure.Ended) -> None:
        filled = ended.filled()
        cells = judged(filled, len(orders.configurations), [page.name for page in orders.pages], orders.rule)
        told = Shard(
            ended.condition, digest(orders.to_json()), dict(ended.software), digest(ended.text), filled.virtual_s,
            ended.wall_s, len(filled.samples),
        )  # fmt: skip
        self.store.record(self.number, filled, cells, orders.configurations, told)
        self.at = self.at._replace(
            shards_done=self.at.shards_done + 1, done=self.at.done + orders.cells, loads=self.at.loads + told.loads
        )
