# SPDX-License-Identifier: MIT
"""Parts of a study on a Dask cluster: a worker does a whole part, and the files of its folder come here.

A worker needs what this machine needs (`lab/testbed/cluster.py`). What is whole here is not done again, so a study may
go on here or on a cluster, whichever began it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from configtron.fleet.transport.dask_tasks import ClusterTasks
from configtron.lab.testbed import measure
from configtron.model.errors import ConfigtronError
from configtron.studies.guests.part_boot import FOUND, boot


class AwayPart(NamedTuple):
    """A part that a worker did. files: of its folder, by their place in it; why: the reason where there is no text."""

    files: dict[str, bytes]
    why: str = ""


def performed_away(address: str, orders: Mapping[str, str], seed: int, module: str) -> Iterator[tuple[str, AwayPart]]:
    """Run parts by their orders on a cluster, and hand on each by its name as it ends. Errors: the cluster's."""
    with ClusterTasks(address) as cluster:
        for end in cluster.ended(part_away, {name: (name, text, seed, module) for name, text in orders.items()}):
            yield end.name, AwayPart({}, end.why) if end.why else end.result


def part_away(name: str, orders: str, seed: int, module: str) -> AwayPart:
    """Run one part on a worker, in a folder that goes with it. Failures are returned, not raised."""
    try:
        with TemporaryDirectory(prefix="configtron-part-") as above:
            booted = boot(Path(above) / name, orders, seed, measure.guests(module))
            try:
                booted.running.wait()
                why = booted.ended()[1]
            finally:
                booted.close()
            return AwayPart(_files(booted.folder), why)
    except (ConfigtronError, OSError) as error:
        return AwayPart({}, str(error))


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a part; its text last, and whole or not at all."""
    (folder / FOUND).unlink(missing_ok=True)
    for name, content in files.items():
        path = folder / (f"{FOUND}.begun" if name == FOUND else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if FOUND in files:
        (folder / f"{FOUND}.begun").rename(folder / FOUND)
