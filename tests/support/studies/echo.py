# SPDX-License-Identifier: MIT
"""A part of no study: returns its orders; as a program, the worker that does it, without a guest.

`python -m tests.support.studies.echo CLIENT PLAYER FOLDER`
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from configtron.lab.testbed.measure import Guests
from configtron.lab.testbed.shard import Programs
from configtron.model.errors import BadInput, ConfigtronError
from configtron.model.protocols import Driver
from configtron.model.tuning import Place
from configtron.studies.guests.parts import Means
from configtron.studies.guests.parts import perform as worked
from tests.support.lab.pretended_guest import SOFTWARE, Here
from tests.support.waiting import until


def perform(orders: str, folder: Path, means: Means) -> str:
    """The orders and the seed; a folder's counter says how often it was really done."""
    if orders == "fail":
        raise BadInput("asked to fail")
    counter = folder / "counter"
    counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
    if orders == "slow":
        signal.pause()
    if orders.startswith("wait:"):
        _wait(Path(orders.removeprefix("wait:")))
    return f"{orders} {means.seed}"


def _wait(path: Path) -> None:
    """Add a letter to `path`.begun, and wait for `path`."""
    with path.with_name(f"{path.name}.begun").open("a") as begun:
        begun.write("x")
    until(path.exists)


def guests(*_: object) -> Guests:
    """Processes of this host in the place of guests."""
    return Guests(Here(), (sys.executable, "-m", __name__, "client", "player"), SOFTWARE)


def no_driver(name: str, place: Place) -> Driver:
    raise AssertionError("nothing is set here")


if __name__ == "__main__":
    try:
        worked(Path(sys.argv[3]), no_driver, Programs(*sys.argv[1:3]))
    except ConfigtronError as error:
        print(error, file=sys.stderr)
        sys.exit(error.code)
