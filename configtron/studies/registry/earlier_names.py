# SPDX-License-Identifier: MIT
"""Names of studies in earlier spellings of `replay study`: `tune evaluate` and `replay sessions --study`."""

from __future__ import annotations

from collections.abc import Sequence

from configtron.model.errors import BadInput
from configtron.model.records import Json
from configtron.studies.registry.catalogue import sessions_study_of

ALL = "all"
# The names under which `tune evaluate` knew its studies -> theirs.
EVALUATED = {
    "hotcloud": "hotcloud", "pantheon": "pantheon", "calibration": "calibration", "fairness": "fairness",
    "lessons": "lessons", "realism": "heterogeneity",
}  # fmt: skip
# The studies of `replay sessions --study all`, in its order.
SIMULATED = (
    "gains", "convergence", "arms", "managers", "updates", "features", "knobs", "starts", "explored", "trees", "drift",
    "classes", "realism",
)  # fmt: skip
EARLIER_LIST_COLUMNS = ("study", "paper", "about", "claim")


def evaluated(names: Sequence[str]) -> tuple[str, ...]:
    """Return the studies that `tune evaluate --study` named. Errors: `BadInput`."""
    if not names:
        raise BadInput(f"--study is wanted: {', '.join(EVALUATED)}, or {ALL}")
    _check(names, tuple(EVALUATED))
    return tuple(EVALUATED.values() if ALL in names else dict.fromkeys(EVALUATED[name] for name in names))


def simulated(names: Sequence[str]) -> tuple[str, ...]:
    """Return the studies that `replay sessions --study` named. Errors: `BadInput`."""
    if ALL in names:
        return SIMULATED
    _check(names, SIMULATED)
    return tuple(dict.fromkeys(names))


def _check(names: Sequence[str], known: Sequence[str]) -> None:
    if strange := [name for name in names if name not in (*known, ALL)]:
        raise BadInput(f"no study is called {strange[0]!r}; there is: {', '.join((*known, ALL))}")


def listed() -> list[dict[str, Json]]:
    """Return a row for each study of simulated sessions, as `replay sessions --study list` printed them."""
    return [
        {"kind": "study", "study": one.name, "paper": one.paper, "about": one.title, "claim": one.claim,
         "differs": one.differs}
        for one in map(sessions_study_of, SIMULATED)
    ]  # fmt: skip
