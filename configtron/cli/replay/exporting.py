# SPDX-License-Identifier: MIT
"""`replay sessions --world-out`: the world that these options make, as a file that anybody can read or change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from configtron.cli.learn.options import say
from configtron.cli.replay.origin import Origin, made
from configtron.learner.sim.sessions import Arrivals
from configtron.learner.sim.worldcsv import write_cells, write_sessions
from configtron.learner.sim.worldfile import Brought, write
from configtron.model.errors import BadInput, cannot_write

FORMS = (".npz", ".csv")


def export(origins: list[Origin], path: str) -> None:
    """Write one world; a CSV's sessions go beside it. Errors: `BadInput` for several, or a name of neither form."""
    file = Path(path)
    if len(origins) > 1 or file.suffix not in FORMS:
        raise BadInput(f"--world-out {path}: one world as a file whose name ends in {' or '.join(FORMS)}")
    here = made(origins[0])
    if file.suffix == ".npz":
        brought = Brought(here.tensor, here.sessions, Arrivals(per_s=origins[0].per_s), here.spread)
        with _opened(file) as out:
            write(brought, out)
        return
    beside = file.with_suffix(".sessions.csv")
    with _opened(file) as out, TextIOWrapper(out, "utf-8", newline="") as text:
        write_cells(here.tensor, text)
    with _opened(beside) as out, TextIOWrapper(out, "utf-8", newline="") as text:
        write_sessions(here.sessions, here.tensor, text)
    say(f"{beside}: its sessions; play them with --world {file} --source {beside}")


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    try:
        with file.open("wb") as out:
            yield out
    except OSError as error:
        raise cannot_write(file, error) from error
    say(f"{file}: written")
