# SPDX-License-Identifier: MIT
"""`tune evaluate`, put together: what is read, where parts are kept, who tells how far it is, what is shown."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from configtron.cli.settings import settings
from configtron.cli.signals import terminated
from configtron.db.measuring import Measuring
from configtron.lab.testbed.layout import tensor_of
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, BadInput
from configtron.model.records import canonical
from configtron.model.samples import Pairs
from configtron.model.tensor import Tensor, read
from configtron.report.files import can_be_written, opened
from configtron.service.campaign.runs import locked
from configtron.service.learning.measured import software_of
from configtron.service.learning.measuring import layout_of
from configtron.studies.output import result_lines as report
from configtron.studies.output.claims_page import page
from configtron.studies.output.steps import Steps
from configtron.studies.results import ABSENT, Evaluated
from configtron.studies.study import STUDIES, Given, Step, run

# What a guest runs: it needs what only this layer knows, the drivers.
WORKER = "configtron.studies.guests.worker"
LAST = -1


@dataclass(frozen=True)
class Wanted:
    """The command's options."""

    tensor: Path | None = None
    measurement: int | None = None
    smoke: bool = False
    seed: int = 1
    jobs: int | None = None
    folder: Path | None = None
    fail_on_absent: bool = False
    html: Path | None = None
    form: str = "table"
    output_file: str = "-"


def evaluated(names: Sequence[str], wanted: Wanted) -> int:
    """Run these studies and show them; the exit code."""
    _check(names, wanted)
    # what is read is read before an hour of guests
    source, tensor = _source(wanted) if any(STUDIES[name].reads_tensor for name in names) else ("", None)
    found: list[Evaluated] = []
    with terminated():
        for name in names:
            found.append(_one(name, wanted, source, tensor))
    _show(found, wanted)
    return _code(found, fail_on_absent=wanted.fail_on_absent)


def _check(names: Sequence[str], wanted: Wanted) -> None:
    reading = [name for name in names if STUDIES[name].reads_tensor]
    if not reading and (wanted.tensor or wanted.measurement is not None):
        others = ", ".join(names)
        raise BadInput(f"--tensor and --measurement are for hotcloud and realism; {others} measures for itself")
    if wanted.tensor and wanted.measurement is not None:
        raise BadInput("--tensor is a measurement by itself; leave --measurement out")
    can_be_written(wanted.html, None if _to_folder(wanted) else wanted.output_file)


def _to_folder(wanted: Wanted) -> bool:
    return wanted.form == "csv" and Path(wanted.output_file).is_dir()


def _source(wanted: Wanted) -> tuple[str, Tensor]:
    """What was measured, and its name."""
    if wanted.tensor:
        try:
            with wanted.tensor.open("rb") as file:
                return str(wanted.tensor), read(file, str(wanted.tensor))
        except OSError as error:
            raise BadInput(f"{wanted.tensor}: {error.strerror}") from error
    path = settings().db
    if not path.exists():
        raise BadInput(f"{path}: no database, so no measurement; configtron learn measure makes one, or give --tensor")
    with Measuring(path) as store:
        measured = store.measurement(LAST if wanted.measurement is None else wanted.measurement)
        layout = layout_of(measured.config)
        provenance = (("looks", ",".join(map(str, layout.rule.looks))), ("seed", str(layout.seed)))
        shards = store.shards(measured.id)
        ran, features = software_of(shards), {shard.condition: shard.features for shard in shards}
        tensor = tensor_of(layout, store.cells(measured.id), (*provenance, ("software", ran)), features)
    return f"measurement {measured.id} ({layout.study}) of {path.name}", tensor


def _one(name: str, wanted: Wanted, source: str, tensor: Tensor | None) -> Evaluated:
    db, given = settings().db, settings()
    folder = (wanted.folder or db.with_name(f"{db.name}.studies")) / name / ("smoke" if wanted.smoke else "whole")
    with Steps(name, sys.stderr, quiet=given.loudness < 0, color=given.color) as steps:

        def tell(step: Step) -> None:
            steps.update(step.done, step.parts, step.now)

        jobs = wanted.jobs or len(os.sched_getaffinity(0))
        ran: Counter[Pairs] = Counter()
        used = partial(_count, ran)
        told = Given(folder, wanted.seed, jobs, wanted.smoke, WORKER, tell, used, tensor, source)
        if STUDIES[name].reads_tensor:
            return run(name, told)
        with locked(folder, wanted.seed, f"study {name} with seed"):
            found = run(name, told)
    if len(ran) > 1 and given.loudness >= 0:
        words = f"its parts ran on {len(ran)} different softwares; for one alone, remove {folder}"
        print(f"{name}: {words}", file=sys.stderr)
    told_of = enumerate(sorted(ran.items()), 1)
    on = ((f"software {number}, of {count} parts", canonical(dict(one))) for number, (one, count) in told_of)
    return found._replace(ground=(*found.ground, *on))


def _count(ran: Counter[Pairs], software: Pairs) -> None:
    ran[software] += 1


def _show(found: Sequence[Evaluated], wanted: Wanted) -> None:
    if _to_folder(wanted):
        for path in report.write_folder(found, Path(wanted.output_file)):
            print(path, file=sys.stderr)
    else:
        writers = {"jsonl": report.write_jsonl, "csv": report.write_csv, "table": report.write_table}
        with opened(wanted.output_file) as out:
            writers[wanted.form](found, out)
    if wanted.html:
        told = " ".join(("configtron", *sys.argv[1:]))
        wanted.html.write_text(page(found, told), encoding="utf-8")


def _code(found: Sequence[Evaluated], *, fail_on_absent: bool) -> int:
    facts = [fact for one in found for fact in one.facts]
    if not facts and not any(table.rows for one in found for table in one.tables):
        return NOTHING
    if fail_on_absent and any(fact.verdict == ABSENT for fact in facts):
        return CONDITION
    return DONE if all(one.whole for one in found) else PARTIAL
