"""Parts of a study in guests: each a boot, each in a folder of its own, done again only if it is not whole.

    found = parts.performed(given, [Part("cubic-4", "configtron.lab.bed.flows", '{"canonical": "json"}')])

In the guest the worker (`given.worker`, a module of the composition layer, which knows the drivers) imports the part's
module and calls

    perform(orders: str, folder: Path, means: Means) -> str

whose text becomes the part's result, written whole or not at all; large things (captures) it writes into `folder`
itself. The same part under the same seed gives the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from configtron.lab.bed.evaluate.study import Given
from configtron.lab.bed.shard import Programs
from configtron.lab.bed.stack import Loader


@dataclass(frozen=True)
class Part:
    """One boot. name: a word, its folder is called after it; module: whose `perform` the guest calls; orders: JSON."""

    name: str
    module: str
    orders: str


class Means(NamedTuple):
    """What a part has in its guest: the drivers, built programs, the study's seed."""

    load: Loader
    programs: Programs
    seed: int


class Done(NamedTuple):
    """A part that ended: its text and its folder, or why there is no text."""

    part: Part
    folder: Path
    text: str
    why: str = ""


def performed(given: Given, wanted: Sequence[Part]) -> list[Done]:
    """All of these, in their order. Errors: `Missing` for what no part can do without; else it is a part's `why`."""
    raise NotImplementedError("studies: lands within the hour")
