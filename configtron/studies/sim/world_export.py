# SPDX-License-Identifier: MIT
"""Write the world of a replay's options as a file that any program can read or change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from configtron.model.errors import BadInput, cannot_write
from configtron.studies.sim.origin import Origin, Say, made
from configtron.studies.sim.sessions import Arrivals
from configtron.studies.sim.worldcsv import write_cells, write_sessions
from configtron.studies.sim.worldfile import Brought, write

FORMS = (".npz", ".csv")


def export_world(origins: list[Origin], path: str, say: Say) -> None:
    """Write one world; a CSV's sessions go beside it. Errors: `BadInput` for several, or a name of neither form."""
    file = Path(path)
    if len(origins) > 1 or file.suffix not in FORMS:
        raise BadInput(f"--world-out {path}: one world as a file whose name ends in {' or '.join(FORMS)}")
    here = made(origins[0], say)
    if file.suffix == ".npz":
        brought = Brought(here.tensor, here.sessions, Arrivals(per_s=origins[0].per_s), here.spread)
        with _opened(file, say) as out:
            write(brought, out)
        return
    beside = file.with_suffix(".sessions.csv")
    with _opened(file, say) as out, TextIOWrapper(out, "utf-8", newline="") as text:
        write_cells(here.tensor, text)
    with _opened(beside, say) as out, TextIOWrapper(out, "utf-8", newline="") as text:
        write_sessions(here.sessions, here.tensor, text)
    say(f"{beside}: its sessions; play them with --world {file} --source {beside}")


@contextmanager
def _opened(file: Path, say: Say) -> Iterator[BinaryIO]:
    try:
        with file.open("wb") as out:
            yield out
    except OSError as error:
        raise cannot_write(file, error) from error
    say(f"{file}: written")
