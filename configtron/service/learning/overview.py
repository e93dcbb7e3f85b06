# SPDX-License-Identifier: MIT
"""`learn status`: the logs of outcomes there are, and the policies that learn from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from configtron.db.outcomes import Learner, LogRow, Outcomes
from configtron.learner.saved import Safety, classes_in, features_in, recipe_of, safety_in, set_aside_in
from configtron.linux.xdg import MANAGERS_DB, SERVICES_DB, elsewhere
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput


class Metered(NamedTuple):
    """A log, and what it measured."""

    log: LogRow
    metric: str


@dataclass(frozen=True, slots=True)
class Reader:
    """A policy that learns. waiting: outcomes that it has not read; metric: of the logs that it reads, "" for any;
    error: why its state cannot be read, the rest is then unknown. set_aside: left out of its classes, by reason."""

    learner: Learner
    metric: str
    waiting: int
    error: str = ""
    classes: int | None = None
    splits: int | None = None
    features: tuple[str, ...] = ()
    set_aside: Mapping[str, int] = field(default_factory=dict)
    safety: Safety | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What a database has; all empty where there is none. not_taught: page loads that do not teach, by reason."""

    logs: tuple[Metered, ...] = ()
    learners: tuple[Reader, ...] = ()
    not_taught: Mapping[str, int] = field(default_factory=dict)


def remark(found: Status, db: Path) -> str:
    """Return which page loads do not teach, or that there is nothing and what brings it; "" otherwise."""
    if found.not_taught:
        reasons = ", ".join(f"{count} {why}" for why, count in found.not_taught.items())
        return f"page loads that are stored and do not teach: {reasons} (docs/learn.md)"
    if found.logs or found.learners:
        return ""
    if db == SERVICES_DB:
        return "no outcomes yet; what is in their way: configtron doctor, and the log: journalctl -u configtron-serve"
    if db == MANAGERS_DB:
        return "no outcomes yet; what is in their way shows on each agent's host: journalctl -u configtron-agent"
    nothing = "no outcomes yet; bring some: configtron learn import, configtron replay sessions --log"
    return nothing + elsewhere(db, "learn status")


def status(db: Path) -> Status:
    """Return the logs and policies of a database."""
    check_text("database", db)
    if not db.is_file():
        return Status()
    with Outcomes(db, read_only=True) as store:
        logs = tuple(Metered(log, store.metric_of(log.id)) for log in store.logs())
        return Status(logs, tuple(_readers(store)), store.not_taught())


def _readers(store: Outcomes) -> Iterator[Reader]:
    for one in store.learners():
        metric = store.metric_of(one.log) if one.log < 0 else ""
        yield _known(Reader(one, metric, store.count(one.log, one.position)))


def _known(plain: Reader) -> Reader:
    """Add what the policy's state says; of another version, the error: the others and the logs are shown even so."""
    one, known = plain.learner, plain
    try:
        classes, splits = classes_in(one.state)
        known = replace(plain, classes=classes, splits=splits)
        return replace(known, features=features_in(one.recipe), set_aside=set_aside_in(one.state),
                       safety=safety_in(one.state, recipe_of(one.recipe)))  # fmt: skip
    except BadInput as error:
        return replace(known, error=str(error))
