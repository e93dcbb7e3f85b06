# SPDX-License-Identifier: MIT
"""`replay sessions --world-out`: the world that these options make, as a file that anybody can read or change."""

from __future__ import annotations

from pathlib import Path

from configtron.cli.learn.options import say
from configtron.cli.replay.origin import Origin, made
from configtron.errors import BadInput, cannot_write
from configtron.learner.sim.sessions import Arrivals
from configtron.learner.sim.worldcsv import cells_text, sessions_text
from configtron.learner.sim.worldfile import Brought, write

FORMS = (".npz", ".csv")


def export(origins: list[Origin], path: str) -> None:
    """Write one world; a CSV's sessions go beside it. Errors: `BadInput` for several, or a name of neither form."""
    file = Path(path)
    if len(origins) > 1 or file.suffix not in FORMS:
        raise BadInput(f"--world-out {path}: one world as a file whose name ends in {' or '.join(FORMS)}")
    here = made(origins[0])
    if file.suffix == ".npz":
        arrivals = Arrivals(per_s=origins[0].per_s)
        _write(file, write(Brought(here.tensor, here.sessions, arrivals, here.spread)))
        return
    beside = file.with_suffix(".sessions.csv")
    _write(file, cells_text(here.tensor).encode())
    _write(beside, sessions_text(here.sessions, here.tensor).encode())
    say(f"{beside}: its sessions; play them with --world {file} --source {beside}")


def _write(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise cannot_write(file, error) from error
    say(f"{file}: {len(data)} bytes")
