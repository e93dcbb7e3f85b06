# SPDX-License-Identifier: MIT
"""The row that registers a study of claims, and what such a study gets.

A study is a file of `studies/` with a row `STUDY`, and nothing else: `catalogue.py` lists the folder. Two kinds exist.
A `ClaimsStudy` (here) returns the claims of a paper, each with its figure and ours; it reads a measured tensor or runs
parts in lab hosts (`guests/parts.py`). A `SessionsStudy` (`simulated/points.py`) returns numbers over simulated worlds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from configtron.model.choices import NEEDS
from configtron.model.samples import Pairs
from configtron.model.tensor import Tensor
from configtron.studies.output.results import Evaluated

TENSOR, LAB, SESSIONS = NEEDS


class PartsProgress(NamedTuple):
    """Progress of a study: parts done, parts in all, the part that is running or has just ended."""

    done: int
    parts: int
    now: str = ""


@dataclass(frozen=True)
class Arguments:
    """Arguments of a study of claims.

    folder    of its parts, for this study alone; parts that are complete there are not run again
    jobs      guests at once
    cluster   address of a Dask scheduler whose workers run the parts; "" is this host
    smoke     run the smallest plan that shows something: seconds
    worker    the module that a guest runs (`guests/parts.py`)
    progress  called after each step
    used      called with the software of each complete part
    tensor    a measured tensor, for the studies that read one; `source` names it
    archive   keep every packet of each run beside its figures
    only      a pattern of names of runs (`PART/SCHEME`), as a shell's; "" is all
    """

    folder: Path
    seed: int = 1
    jobs: int = 1
    smoke: bool = False
    worker: str = ""
    progress: Callable[[PartsProgress], None] = lambda step: None
    used: Callable[[Pairs], None] = lambda software: None
    tensor: Tensor | None = None
    source: str = ""
    archive: bool = False
    only: str = ""
    cluster: str = ""


class Archive(NamedTuple):
    """What a study whose runs can be archived offers.

    estimate  arguments -> how large the packets of all its runs will be, in words
    write     arguments, folder, the study's name -> write the site of the runs that are complete; return how many
    """

    estimate: Callable[[Arguments], str]
    write: Callable[[Arguments, Path, str], int]


@dataclass(frozen=True)
class ClaimsStudy:
    """The row of a study that compares claims of a paper with measured figures.

    name      that of its file
    paper     the paper and its section or figure
    about     what it reproduces, one line
    duration  how long it takes, roughly, in words
    run       arguments -> results; errors: `BadInput`, `Missing`
    needs     TENSOR or LAB
    shipped   of one that needs a tensor: the shipped tensor that it reads where nothing else was measured
    archive   how its runs become a site, where it can
    """

    name: str
    paper: str
    about: str
    duration: str
    run: Callable[[Arguments], Evaluated]
    needs: str = LAB
    archive: Archive | None = None
    shipped: str = ""
