# SPDX-License-Identifier: MIT
"""`learn measure`: the PLT-tensor filled with page loads in the lab, a shard a guest; its cells counted and shown.

A measurement owns a folder beside the database: a folder a shard (orders, lines, the guest's output), and the tensor.
A shard is taken into the database when it is whole; a resumed measurement first takes what lies there whole.
"""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configtron.db.measuring import Measuring, ShardRow
from configtron.fleet.transport.dask_client import SchedulerLost
from configtron.fleet.transport.dask_tasks import ClusterTasks, check_cluster
from configtron.lab.testbed import measure
from configtron.lab.testbed.cluster import run_on_cluster
from configtron.lab.testbed.layout import Layout, laid_out, tensor_of
from configtron.lab.testbed.shard import Orders
from configtron.lab.testbed.studies import STUDIES, study_of
from configtron.model.bounds import check_number, check_texts
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, BadInput
from configtron.model.records import Json, canonical
from configtron.model.repeats import FEW, WIDE
from configtron.model.samples import Kept, digest, judged
from configtron.model.tensor import write
from configtron.report.progress import Moment
from configtron.service.campaign.runs import locked
from configtron.service.progress import Event, Progress, notice

# The module that a guest runs: it loads the drivers, which the lab may not import.
WORKER = "configtron.service.shard_guest"
TENSOR = "tensor.npz"
# How a measurement ended.
ALL, SOME, STOPPED, FAILED = "done", "partial", "interrupted", "failed"


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """study: a name of `STUDIES`, narrowed to conditions and sites where any are named; looks: after how many loads of
    a cell it is asked whether its median is known; resume: the number of a measurement that goes on, of which nothing
    else counts then but jobs and cluster; jobs: guests at once, 0 for one a CPU; cluster: a scheduler's address; argv:
    kept with a new measurement, as its provenance."""

    db: Path
    study: str = "smoke"
    conditions: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    seed: int = 1
    server: str = "nginx"
    resume: int | None = None
    jobs: int = 0
    cluster: str = ""
    argv: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("seed", self.seed, 0, whole=True)
        check_number("jobs", self.jobs, 0, whole=True)
        for look in self.looks:
            check_number("looks", look, 1, whole=True)
        if self.cluster:
            check_cluster(self.cluster, self.jobs)


def options_of(
    db: Path, argv: tuple[str, ...], *, study: str | None, smoke: bool, seed: int | None, server: str | None,
    jobs: int | None, cluster: str | None, resume: int | None, looks: str, **what: Any,
) -> MeasureOptions:  # fmt: skip
    """Return the options of `learn measure`; None: not given; looks: numbers with commas, as typed.
    Errors: `BadInput` for those that contradict others."""
    if smoke and study not in (None, "smoke"):
        raise BadInput("--smoke is a study of its own; leave --study out")
    name = "smoke" if smoke else study
    how: dict[str, Any] = {"jobs": jobs or 0, "cluster": cluster or ""}
    if resume is not None:
        if name or looks or any(what.values()) or seed is not None or server:
            raise BadInput("--resume goes on as it was begun: leave out the seed and every option of what to measure")
        return MeasureOptions(db, resume=resume, **how)
    if name is None:
        raise BadInput(f"nothing to measure: name a study by --study {'|'.join(STUDIES)}, or --smoke")
    seed, server = 1 if seed is None else seed, server or "nginx"
    return MeasureOptions(db, name, **what, looks=_numbers(looks), seed=seed, server=server, argv=argv, **how)


def _numbers(looks: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in looks.split(",")) if looks else ()
    except ValueError:
        raise BadInput(f"--looks {looks}: write numbers of loads, as in 6,12,24") from None


@dataclass(frozen=True, slots=True)
class MeasureProgress(Event):
    """How far a measurement is: `done` of `total` cells. last: it has ended."""

    moment: Moment = Moment()
    last: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement as it ended. status: `ALL`, `SOME`, `STOPPED`; folder: where its files lie."""

    number: int
    layout: Layout
    folder: Path
    status: str


def fill(options: MeasureOptions, progress: Progress) -> Measurement:
    """Begin a measurement, or go on with one; measure every shard that is not measured yet. KeyboardInterrupt ends the
    shards under way and keeps the others. Errors: `BadInput` for a name that the lab does not know."""
    if options.resume is not None:
        return _resumed(options.resume, options, progress)
    layout = laid_out(study_of(options.study).narrowed(options.conditions, options.sites, options.looks), options.seed,
                      options.server)  # fmt: skip
    # before anything is kept: a machine that cannot measure is refused at once
    guests = None if options.cluster else measure.guests(WORKER)
    with Measuring(options.db) as store:
        here: dict[str, Json] = {"host": platform.node(), "python": platform.python_version()}
        config = canonical({"layout": json.loads(layout.to_json()), "argv": list(options.argv), **here})
        return _Filler(store, store.begin(layout.study, config), layout, options, guests, progress).fill()


def _resumed(number: int, options: MeasureOptions, progress: Progress) -> Measurement:
    with Measuring(options.db) as store:
        found = store.measurement(number)
        layout = layout_of(found.config)
        open_still = {one.condition for one in store.shards(found.id)} != {one.name for one in layout.conditions}
        guests = measure.guests(WORKER) if open_still and not options.cluster else None
        return _Filler(store, found.id, layout, options, guests, progress).fill()


def layout_of(config: str) -> Layout:
    """Return what a measurement was begun with. Errors: `BadInput`."""
    try:
        return Layout.from_json(json.dumps(json.loads(config)["layout"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"a measurement's configuration cannot be read: {error}; begin a new one") from error


class _Filler:
    """One measurement being filled."""

    def __init__(
        self, store: Measuring, number: int, layout: Layout, options: MeasureOptions, guests: measure.Guests | None,
        progress: Progress,
    ) -> None:  # fmt: skip
        self.store, self.number, self.layout, self.options, self.guests = store, number, layout, options, guests
        # Files lie beside the database, in a folder named after it, under the measurement's number.
        path = store.path.resolve()
        self.folder, self._progress = path.with_name(f"{path.name}.measurements") / str(number), progress
        self.at = Moment(cells=layout.cells, shards=len(layout.conditions))
        self.why: dict[str, str] = {}

    def _report(self, moment: Moment | None = None, *, last: bool = False) -> None:
        at = self.at if moment is None else moment
        self._progress(MeasureProgress(at.done, at.cells, f"measurement {self.number}", at, last))

    def fill(self) -> Measurement:
        """Measure what is not measured yet."""
        status = FAILED
        with locked(self.folder, self.number, "measurement"):
            self.store.resume(self.number)
            try:
                self._perform()
                status = SOME if self.why else ALL
            except SchedulerLost as lost:
                notice(self._progress, str(lost))
                status = STOPPED
            except KeyboardInterrupt:
                status = STOPPED
            finally:
                self._report(last=True)
                self.store.finish(self.number, status)
                if status != ALL:
                    again = f"configtron learn measure --resume {self.number}"
                    notice(self._progress, f"measurement {self.number}: {status}; go on with: {again}")
        return Measurement(self.number, self.layout, self.folder, status)

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

    def _perform(self) -> None:
        todo = self._todo()
        orders_of = {orders.condition.name: orders for orders, _ in todo}
        self._report()
        # whatever happens here, the guests are ended before anything else is done
        with closing(self._measured(todo)) as measured:
            for ended in measured:
                if ended.why:
                    self.why[ended.condition] = ended.why
                    self.at = self.at._replace(shards_failed=self.at.shards_failed + 1)
                    notice(self._progress, f"{ended.condition}: {ended.why}")
                else:
                    self._keep(orders_of[ended.condition], ended)
                self._report()

    def _taken(self, orders: Orders, folder: Path) -> bool:
        """Take over a shard that lies there whole but is not in the database, as after a kill in between."""
        text = measure.whole(folder, orders)
        software = folder / measure.SOFTWARE
        if not text or not software.exists():
            return False
        self._keep(orders, measure.ShardResult(orders.condition.name, text, measure.software_of(software), 0.0))
        return True

    def _measured(self, todo: Sequence[tuple[Orders, Path]]) -> Generator[measure.ShardResult, None, None]:
        def report(seen: measure.FillCounts) -> None:
            done = min(self.at.done + seen.cells, self.at.cells)
            self._report(self.at._replace(done=done, loads=self.at.loads + seen.loads))

        if todo and self.options.cluster:
            with ClusterTasks(self.options.cluster) as cluster:
                yield from run_on_cluster([orders for orders, _ in todo], cluster, WORKER)
        elif todo:
            assert self.guests is not None, "something is to be measured"
            yield from measure.perform(todo, self.guests, self.options.jobs or len(os.sched_getaffinity(0)), report)

    def _keep(self, orders: Orders, ended: measure.ShardResult) -> None:
        filled = ended.filled()
        cells = judged(filled, len(orders.configurations), [page.name for page in orders.pages], orders.rule)
        shard = ShardRow(
            ended.condition, digest(orders.to_json()), dict(ended.software), digest(ended.text), filled.virtual_s,
            ended.wall_s, len(filled.samples),
        )  # fmt: skip
        self.store.record(self.number, filled, cells, orders.configurations, shard)
        self.at = self.at._replace(
            shards_done=self.at.shards_done + 1, done=self.at.done + orders.cells, loads=self.at.loads + shard.loads
        )


class CellTally:
    """Cells by flag, counted while they pass by: the exit code is made from them."""

    def __init__(self) -> None:
        self.flags: Counter[str] = Counter()

    def passing(self, cells: Iterable[Kept]) -> Iterator[Kept]:
        """Yield the same cells, and count them."""
        for cell in cells:
            # a median that is there and not known well is one thing, no median another
            self.flags[cell.verdict.flag if cell.verdict.median_ms is not None else "none"] += 1
            yield cell

    @property
    def known(self) -> int:
        """Return how many medians are known as well as they should be."""
        return self.flags[""]

    @property
    def medians(self) -> int:
        """Return how many cells have a median."""
        return self.flags[""] + self.flags[FEW] + self.flags[WIDE]

    def code(self, cells: int, *, fail_on_unknown: bool) -> int:
        """Return the exit code of a measurement that should have so many cells."""
        if not self.medians:
            return NOTHING
        if fail_on_unknown and self.known < cells:
            return CONDITION
        return DONE if self.medians == cells else PARTIAL


def show_cells(db: Path, found: Measurement, write_cells: Callable[[Iterable[Kept]], None], tensor: Path | None = None
               ) -> tuple[CellTally, list[str]]:  # fmt: skip
    """Hand the cells of a measurement to a writer, then write its tensor into its folder, and to `tensor` too.

    Returns the count of cells by flag, and closing lines for people.
    """
    tally = CellTally()
    with Measuring(db) as store:
        write_cells(tally.passing(store.cells(found.number)))
        shards = store.shards(found.number)
        paths = [found.folder / TENSOR, *([tensor] if tensor else [])]
        _write_tensor(store, found.number, found.layout, paths, tally, shards)
    return tally, [*_closing_lines(found, tally, shards), f"tensor: {tensor or found.folder / TENSOR}"]


def _closing_lines(found: Measurement, tally: CellTally, shards: tuple[ShardRow, ...]) -> Iterator[str]:
    wall, virtual = sum(shard.wall_s for shard in shards), sum(shard.virtual_s for shard in shards)
    flags = ", ".join(f"{count} {flag}" for flag, count in tally.flags.most_common() if flag)
    known = f"{tally.known} of {found.layout.cells} medians known" + (f" ({flags})" if flags else "")
    took = f"{sum(shard.loads for shard in shards)} loads, {virtual:.0f} virtual s in {wall:.0f} guest s"
    yield f"measurement {found.number}: {known}; {took}"
    if len(ran := softwares(shards)) > 1:
        words = "the provenance of a cell names its own; for one alone, measure anew"
        yield f"measurement {found.number}: its shards ran on {len(ran)} different softwares; {words}"


def _write_tensor(store: Measuring, number: int, layout: Layout, paths: list[Path], tally: CellTally,
                  shards: tuple[ShardRow, ...]) -> None:  # fmt: skip
    """Write a measurement's tensor to each of these files."""
    provenance = {
        "study": layout.study,
        "seed": str(layout.seed),
        "server": layout.server,
        "looks": ",".join(map(str, layout.rule.looks)),
        "known": f"{tally.known} of {layout.cells} medians",
        "loads": str(sum(shard.loads for shard in shards)),
        "virtual_s": f"{sum(shard.virtual_s for shard in shards):.0f}",
        "software": software_of(shards),
    }
    features = {shard.condition: shard.features for shard in shards}
    tensor = tensor_of(layout, store.cells(number), tuple(sorted(provenance.items())), features)
    for path in paths:
        with path.open("wb") as file:
            write(tensor, file)


def software_of(shards: Iterable[ShardRow]) -> str:
    """Return the software that shards ran on, one after another where that changed between them."""
    return " | ".join(softwares(shards))


def softwares(shards: Iterable[ShardRow]) -> list[str]:
    """Return the softwares that shards ran on, as JSON texts."""
    return sorted({canonical(dict(shard.software)) for shard in shards})
