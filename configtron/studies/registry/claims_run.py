# SPDX-License-Identifier: MIT
"""Run studies of claims from Python: find the tensor, lock the folder of parts, collect the software that parts used.

found = evaluate(("hotcloud",), ClaimsOptions(Path("c.db"), tensor=Path("tensor.npz")), progress)
report.write_jsonl(found, sys.stdout); code = exit_code(found)
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path

from configtron.db.measuring import Measuring
from configtron.fleet.transport.dask_tasks import check_cluster
from configtron.lab.testbed.layout import tensor_of
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, BadInput
from configtron.model.records import canonical
from configtron.model.samples import Pairs
from configtron.model.tensor import Tensor, read
from configtron.service.campaign.runs import locked
from configtron.service.learning.measuring import layout_of, software_of
from configtron.service.shipped_tensors import shipped_names, tensor_file
from configtron.studies.output.results import ABSENT, Evaluated
from configtron.studies.registry.catalogue import study_of
from configtron.studies.registry.kinds import LAB, TENSOR, Arguments, ClaimsStudy, PartsProgress
from configtron.studies.sim.world import ANALYTIC

# The module that a guest runs.
WORKER = "configtron.studies.guests.worker"
LAST = -1
# The name under which results of a study are stored and printed, where it is not the study's.
PRINTED_AS = {"heterogeneity": "realism"}

# (name of the study, its progress)
Progress = Callable[[str, PartsProgress], None]
# A notice of one line.
Notice = Callable[[str], None]


@dataclass(frozen=True)
class ClaimsOptions:
    """db: the database, which holds measurements; folder: of parts, FILE.studies beside the database where None; jobs:
    guests at once, one a CPU where None; tensor (a file, or a shipped tensor's name), measurement: what the studies of
    a tensor read. archive, only, cluster: as `Arguments` has them; site: the folder of the static pages of all runs,
    or None."""

    db: Path
    tensor: Path | str | None = None
    measurement: int | None = None
    smoke: bool = False
    seed: int = 1
    jobs: int | None = None
    folder: Path | None = None
    archive: bool = False
    only: str = ""
    site: Path | None = None
    cluster: str = ""


def evaluate(names: Sequence[str], options: ClaimsOptions, progress: Progress, notice: Notice) -> list[Evaluated]:
    """Run these studies, in order. Errors: `BadInput` for a name, an option that has no effect, a file that cannot be
    read; `Missing` without root, a program, a package."""
    rows = [_claims_study(name) for name in names]
    _check(rows, options)
    # a tensor that cannot be read is found before an hour of guests
    sources = [_tensor_of(row, options) if row.needs == TENSOR else ("", None) for row in rows]
    return [_one(row, options, progress, notice, *source) for row, source in zip(rows, sources, strict=True)]


def exit_code(found: Sequence[Evaluated], *, fail_on_absent: bool = False) -> int:
    """Return the exit code: parts are missing, a claim does not hold, nothing was evaluated, or done."""
    facts = [fact for one in found for fact in one.facts]
    if not facts and not any(table.rows for one in found for table in one.tables):
        return NOTHING
    if fail_on_absent and any(fact.verdict == ABSENT for fact in facts):
        return CONDITION
    return DONE if all(one.whole for one in found) else PARTIAL


def _claims_study(name: str) -> ClaimsStudy:
    found = study_of(name)
    if not isinstance(found, ClaimsStudy):
        raise BadInput(f"{name} is a study of simulated sessions; run it without the others")
    return found


def _check(rows: Sequence[ClaimsStudy], options: ClaimsOptions) -> None:
    if not any(row.needs == TENSOR for row in rows) and (options.tensor is not None or options.measurement is not None):
        others = ", ".join(row.name for row in rows)
        raise BadInput(f"--tensor and --measurement are for studies of a tensor; {others} measures for itself")
    if options.tensor is not None and options.measurement is not None:
        raise BadInput("--tensor is a measurement by itself; leave --measurement out")
    if options.cluster:
        check_cluster(options.cluster, options.jobs)
        if here := [row.name for row in rows if row.needs != LAB]:
            raise BadInput(f"--cluster is for studies of the lab; {here[0]} reads a tensor")
    if options.archive or options.only or options.site:
        if without := [row.name for row in rows if row.archive is None]:
            raise BadInput(
                f"--archive, --only and --site are for studies whose runs are archived, not for {without[0]}"
            )
        if options.site and len(rows) > 1:
            raise BadInput("--site is for one study; run a command for each")


def _tensor_of(row: ClaimsStudy, options: ClaimsOptions) -> tuple[str, Tensor]:
    """Return a name for the report, and the tensor of a study: the one that the options name, else the last one of the
    database, else the one that ships with the package."""
    if options.tensor is not None:
        return _named_tensor(row, str(options.tensor))
    if row.shipped and options.measurement is None and not _has_measurement(options.db):
        return _named_tensor(row, row.shipped)
    return _measured(options)


def _named_tensor(row: ClaimsStudy, named: str) -> tuple[str, Tensor]:
    """Return a shipped tensor, or a file's; with a directory before it (./hotcloud), a name is always a file's."""
    if named in shipped_names():
        return f"{named}, shipped with configtron", read(BytesIO(tensor_file(named)), named)
    try:
        with Path(named).open("rb") as file:
            return named, read(file, named)
    except OSError as error:
        shipped = ", ".join(shipped_names())
        if named in ANALYTIC:
            raise BadInput(
                f"{named}: a formula, for studies of simulated sessions; {row.name} reads a file, or one of: {shipped}"
            ) from error
        raise BadInput(f"{named or repr(named)}: {error.strerror}; shipped are: {shipped}") from error


def _has_measurement(path: Path) -> bool:
    if not path.exists():
        return False
    with Measuring(path) as store:
        return bool(store.measurements())


def _measured(options: ClaimsOptions) -> tuple[str, Tensor]:
    """Return the name of a measurement of the database, and its tensor."""
    path = options.db
    if not path.exists():
        raise BadInput(f"{path}: no database, so no measurement; configtron learn measure makes one, or give --tensor")
    with Measuring(path) as store:
        measured = store.measurement(LAST if options.measurement is None else options.measurement)
        layout = layout_of(measured.config)
        provenance = (("looks", ",".join(map(str, layout.rule.looks))), ("seed", str(layout.seed)))
        shards = store.shards(measured.id)
        software, features = software_of(shards), {shard.condition: shard.features for shard in shards}
        tensor = tensor_of(layout, store.cells(measured.id), (*provenance, ("software", software)), features)
    return f"measurement {measured.id} ({layout.study}) of {path.name}", tensor


def _one(
    row: ClaimsStudy, options: ClaimsOptions, progress: Progress, notice: Notice, source: str, tensor: Tensor | None
) -> Evaluated:
    name = PRINTED_AS.get(row.name, row.name)
    parts = options.folder or options.db.with_name(f"{options.db.name}.studies")
    folder = parts / name / ("smoke" if options.smoke else "whole")
    jobs = options.jobs or len(os.sched_getaffinity(0))
    used: Counter[Pairs] = Counter()
    arguments = Arguments(folder, options.seed, jobs, options.smoke, WORKER, partial(progress, name),
                          partial(_count, used), tensor, source, options.archive, options.only,
                          options.cluster)  # fmt: skip
    if row.needs == TENSOR:
        return row.run(arguments)
    with locked(folder, options.seed, f"study {name} with seed"):
        if row.archive and options.archive:
            notice(f"{name}: {row.archive.estimate(arguments)}")
        found = row.run(arguments)
        if row.archive and options.site:
            notice(f"{options.site / 'index.html'}: {row.archive.write(arguments, options.site, row.name)} runs")
    if len(used) > 1:
        notice(f"{name}: its parts ran on {len(used)} different softwares; for one alone, remove {folder}")
    counted = enumerate(sorted(used.items()), 1)
    ground = ((f"software {number}, of {count} parts", canonical(dict(one))) for number, (one, count) in counted)
    return found._replace(ground=(*found.ground, *ground))


def _count(used: Counter[Pairs], software: Pairs) -> None:
    used[software] += 1
