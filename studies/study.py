# SPDX-License-Identifier: MIT
"""What a study is, and which there are.

A study is a module of this package with a function `run(given) -> Evaluated` and a row in `STUDIES`. Where it needs
guests it makes `Part`s and hands them to `parts.performed`, which keeps what is whole, resumes, and tells how far it
is; what runs in the guest is a function `perform` of a module of its own. What comes out is judged by pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from configtron.model.errors import BadInput
from configtron.model.samples import Pairs
from configtron.model.tensor import Tensor
from configtron.studies.results import Evaluated


class Step(NamedTuple):
    """How far a study is: parts done of so many; what is done now."""

    done: int
    parts: int
    now: str = ""


@dataclass(frozen=True)
class Given:
    """What a study is told.

    folder   where its parts lie and stay, for itself alone; parts that are whole there are not run again
    jobs     guests at once
    smoke    the smallest run that shows something: seconds
    worker   the module that a guest runs (parts.py)
    tell     called with each step; its caller prints
    used     called with what each whole part ran on, whenever that was
    tensor   what was measured, for the studies that read it; named by `source`
    """

    folder: Path
    seed: int = 1
    jobs: int = 1
    smoke: bool = False
    worker: str = ""
    tell: Callable[[Step], None] = lambda step: None
    used: Callable[[Pairs], None] = lambda software: None
    tensor: Tensor | None = None
    source: str = ""


class Study(NamedTuple):
    """One row: the module of this package that has `run`, a line on what it is, and whether it reads a tensor."""

    module: str
    about: str
    reads_tensor: bool = False


STUDIES: Mapping[str, Study] = {
    "hotcloud": Study("hotcloud", "best over default by condition and site, from a measured tensor", True),
    "pantheon": Study("pantheon", "every congestion control over emulated paths: throughput, delay, loss"),
    "calibration": Study("calibration", "an emulator's parameters found by Bayesian optimisation"),
    "fairness": Study("fairness", "five cubic flows and one tested flow over shallow buffers: Jain's index"),
    "lessons": Study("lessons", "why ICW helps here and HTTP/2 loses there, from captures"),
    "realism": Study("heterogeneity", "published figures of 46 harder networks beside a measured tensor's", True),
}


def study_of(name: str) -> Study:
    """The row of that name. Errors: `BadInput`."""
    if name not in STUDIES:
        raise BadInput(f"no study is called {name!r}; there is: {', '.join(STUDIES)}")
    return STUDIES[name]


def run(name: str, given: Given) -> Evaluated:
    """Run a study. Errors: `BadInput`, `Missing`, those of its parts."""
    found: Evaluated = import_module(f"configtron.studies.{study_of(name).module}").run(given)
    return found
