# SPDX-License-Identifier: MIT
"""Options of the lease engine, and the notices that it sends its caller while it works."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from configtron.linux.mounts import mounts
from configtron.model.bounds import check_number, check_texts
from configtron.model.choices import LEASE_S as LEASE_S
from configtron.model.tuning import Place
from configtron.tune.guard import Limits


def cgroup_path(name: str) -> str:
    """Return a control group as a place names it, "" for the root: of its path in the file system (as findmnt, bpftool
    and systemd print it), or in the hierarchy (as `systemctl` prints it). No file of it is looked for."""
    inner = f"/{name.strip('/')}"
    for one in mounts("cgroup2"):
        if f"{inner}/".startswith(f"{one.folder}/"):
            inner = inner.removeprefix(one.folder)
    return inner if inner.strip("/") else ""


# Let the engine choose the driver.
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class LeaseOptions:
    """The place to act at, the driver, and the operator's limits.

    database  file with wanted rules and journal (`configtron.db.tuning`); made if absent
    driver    name of a driver; `AUTO`: the one in force here, else the first that reaches every wanted knob
    limits    bounds for single knobs, the largest number of prefixes, whether unfair profiles pass
    holdback  share of prefixes that keep the untouched stack, always the same ones, 0 to 1
    canary    share of prefixes that change now, 0 to 1
    """

    database: Path
    driver: str = AUTO
    place: Place = Place()
    limits: Limits = field(default_factory=Limits)
    holdback: float = 0.0
    canary: float = 1.0

    def __post_init__(self) -> None:
        """Check texts and shares. Errors: `BadInput`."""
        check_texts(self)
        check_number("holdback", self.holdback, 0, 1)
        check_number("canary", self.canary, 0, 1)


@dataclass(frozen=True, slots=True)
class Notice:
    """One line for the operator. Commands in it are written `configtron tune ...`, without `--db`.

    level  of `logging`: `INFO`, which a quiet caller drops, or `WARNING`
    """

    text: str
    level: int = logging.INFO


OnNotice = Callable[[Notice], None]


def ignore(_: Notice) -> None:
    """Drop a notice."""
