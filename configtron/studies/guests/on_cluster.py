# SPDX-License-Identifier: MIT
"""Run parts of a study on a Dask cluster: a worker runs a whole part and returns the files of its folder.

A worker needs what this host needs (`lab/testbed/cluster.py`). A part that is complete here is not run again, so a
study that was begun on this host can be finished on a cluster, and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from configtron.fleet.transport.dask_tasks import ClusterTasks
from configtron.lab.testbed import measure
from configtron.model.errors import ConfigtronError
from configtron.studies.guests.part_boot import RESULT_FILE, boot


class PartFiles(NamedTuple):
    """The files of a part that ran on a worker, by their path in its folder; why: the reason if it has no result."""

    files: dict[str, bytes]
    why: str = ""


def run_on_cluster(address: str, orders: Mapping[str, str], seed: int, module: str) -> Iterator[tuple[str, PartFiles]]:
    """Run parts on a cluster; yield the name and the files of each when it has finished.

    orders  by the part's name
    module  the program of the guests (`Arguments.worker`)

    Errors: those of `ClusterTasks`.
    """
    with ClusterTasks(address) as cluster:
        for task in cluster.run(run_part, {name: (name, text, seed, module) for name, text in orders.items()}):
            yield task.name, PartFiles({}, task.why) if task.why else task.result


def run_part(name: str, orders: str, seed: int, module: str) -> PartFiles:
    """Run one part on a worker, in a temporary folder. A failure is returned, not raised."""
    try:
        with TemporaryDirectory(prefix="configtron-part-") as above:
            booted = boot(Path(above) / name, orders, seed, measure.guests(module))
            try:
                booted.running.wait()
                why = booted.result()[1]
            finally:
                booted.close()
            return PartFiles(_files(booted.folder), why)
    except (ConfigtronError, OSError) as error:
        return PartFiles({}, str(error))


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a part. The result is written last, under another name, and then renamed into place."""
    (folder / RESULT_FILE).unlink(missing_ok=True)
    for name, content in files.items():
        path = folder / (f"{RESULT_FILE}.begun" if name == RESULT_FILE else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if RESULT_FILE in files:
        (folder / f"{RESULT_FILE}.begun").rename(folder / RESULT_FILE)
