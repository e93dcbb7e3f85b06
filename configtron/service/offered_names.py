# SPDX-License-Identifier: MIT
"""Names that a shell completes: target lists, runs, policies, drivers, profiles, knobs. The database is only read.

An error offers no names: a shell's Tab is no place for a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from configtron.model.errors import ConfigtronError

# As many of the latest runs as fit a screen.
RUNS = 20


def names_of(kind: str, db: Path) -> list[str]:
    """Return the names of a kind in `KINDS`; none where the database cannot be read or an extra is missing."""
    try:
        return list(KINDS[kind](db))
    except (ConfigtronError, ImportError, OSError):
        return []


def _lists(_: Path) -> Iterable[str]:
    from configtron.service.lists import bundled

    return bundled()


def _runs(db: Path) -> Iterable[str]:
    """Return `last` and the numbers of the latest runs, the newest first."""
    from configtron.db.store import Store

    with Store(db, read_only=True) as store:
        numbers = [str(run.id) for run in store.runs()]
    return ("last", *numbers[: -RUNS - 1 : -1])


def _policies(_: Path) -> Iterable[str]:
    from configtron.learner import POLICIES

    return POLICIES


def _learned(db: Path) -> Iterable[str]:
    from configtron.db.outcomes import Outcomes

    with Outcomes(db, read_only=True) as store:
        return [one.name for one in store.learners()]


def _either(db: Path) -> Iterable[str]:
    """Return the policies that go on, then those that can be made."""
    return dict.fromkeys((*names_of("learned", db), *names_of("policies", db)))


def _drivers(_: Path) -> Iterable[str]:
    from configtron.service import lease

    return lease.driver_names()


def _profiles(db: Path) -> Iterable[str]:
    from configtron.service import lease

    return lease.wanted(db).rules.profiles


def _prefixes(db: Path) -> Iterable[str]:
    from configtron.service import lease

    return [prefix for prefix, _, _ in lease.wanted(db).prefixes()]


def _addresses(db: Path) -> Iterable[str]:
    """Return the first address of each prefix."""
    return [prefix.split("/")[0] for prefix in _prefixes(db) if "/" in prefix]


def _settings(_: Path) -> Iterable[str]:
    """Return KNOB=VALUE of each knob that some driver takes; KNOB= where any number will do."""
    from configtron.model.knobs import KNOBS
    from configtron.tune.drivers import tables

    knobs = dict.fromkeys(knob for driver in tables().values() for knob in driver.reaches)
    return [f"{knob}={value}" for knob in knobs for value in KNOBS[knob].values or ("",)]


def _measured(_: Path) -> Iterable[str]:
    from configtron.model.knobs import MEASURED

    return [knob.name for knob in MEASURED]


KINDS: Mapping[str, Callable[[Path], Iterable[str]]] = MappingProxyType(
    {
        "lists": _lists,
        "runs": _runs,
        "policies": _policies,
        "learned": _learned,
        "either": _either,
        "drivers": _drivers,
        "profiles": _profiles,
        "prefixes": _prefixes,
        "addresses": _addresses,
        "settings": _settings,
        "measured": _measured,
    }
)
