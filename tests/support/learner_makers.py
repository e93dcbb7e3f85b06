# SPDX-License-Identifier: MIT
"""Makers for a learner's process, by name: one that records its rows and fails where a file asks for it; a policy's."""

from __future__ import annotations

import json
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.rollout import RolloutPlan
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.learner_process import LearnerRecipe
from configtron.service.fleet.makers import grid_of
from configtron.service.fleet.map_maker import Barred, MapMaker
from configtron.service.fleet.stages import Stages

log = logging.getLogger("configtron.fleet")

FAST = Profile("fast", (("initcwnd", 20),))
MAP = FleetMap(0, 0, {"fast": FAST}, {"near": (("fast", 65_536),)}, {"198.51.100.0/24": "near"}, b"k" * 16, 0,
               (Band(20_000, "near"),))  # fmt: skip
VALID_NS = 3600 * 10**9


class RecordingMaker:
    """Make a map whenever rows came. In `folder`: the file `hang` lets `make` wait, which makes `hanging`, until it
    is gone; `die` kills the
    process, `fault` raises, `end` raises as a file that is cut, `speak` logs a line."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.sequences, self._made = folder, list[int](), -1

    def observe(self, rows: Sequence[OutcomeRow]) -> None:
        self.sequences += [row.sequence for row in rows]

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        while (self._folder / "hang").exists():
            (self._folder / "hanging").touch()
            time.sleep(0.01)
        if (self._folder / "fault").exists():
            raise ZeroDivisionError("a fault")
        if (self._folder / "end").exists():
            raise EOFError("Ran out of input")
        if (self._folder / "die").exists():
            (self._folder / "die").unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if len(self.sequences) == self._made:
            return None
        if (self._folder / "speak").exists():
            log.warning("rows came")
        self._made = len(self.sequences)
        return replace(MAP, key=self._made.to_bytes(16, "big"), not_after_ns=now_ns + VALID_NS)

    def save(self) -> str:
        return json.dumps(self.sequences)

    def restore(self, text: str) -> None:
        self.sequences = json.loads(text)


def recording(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Return a maker whose folder is the database's."""
    return RecordingMaker(database.parent), None


def refusing(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Fail for an operator's fault."""
    raise BadInput("no profile to choose from")


def staged_policy(database: Path, arguments: Mapping[str, Any]) -> tuple[MapMaker, Stages | None]:
    """Return the maker of a policy that begins early, and its stages."""
    maps = MapOptions(holdback=0.2, least_clients=3)
    options = LoopOptions(grid_of([FAST]), "mab_nc", maps, begin_with=300, classes=3, features="few")
    maker = LoopMapMaker(options, bytes(range(16)))
    return maker, Stages(RolloutPlan(clients=700), None, b"", maker.note)


def recipe(database: Path, name: str = "recording", *, staged: bool = False) -> LearnerRecipe:
    """Return the recipe of one of these."""
    return LearnerRecipe(database, f"{__name__}:{name}", staged=staged)
