# SPDX-License-Identifier: MIT
"""Trials of bulk flows as `throttle.py` runs them; each trial's packets stay in a file beside the part's text.

A part (`guests/parts.py`): `flows.orders_of` in, `flows.outcomes_text` out, and `log_path` for each trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from configtron.lab.testbed.transits import Transits
from configtron.studies.flows import throttle
from configtron.studies.flows.packet_log import packed
from configtron.studies.guests.parts import Means


def perform(orders: str, folder: Path, means: Means) -> str:
    """Run the trials and write their packets."""

    def write(number: int, flows: Sequence[Transits], began_ns: int) -> None:
        log_path(folder, number).write_bytes(packed(flows, began_ns))

    return throttle.performed(orders, means, write)


def log_path(folder: Path, number: int) -> Path:
    """Return the file of the packets of a part's n-th trial."""
    return folder / f"packets-{number:02}.csv.gz"
