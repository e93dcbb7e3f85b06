# SPDX-License-Identifier: MIT
"""Every study by name: the files of `configtron/studies/` itself, each with its row `STUDY`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from configtron import studies
from configtron.model.errors import BadInput
from configtron.studies.registry.kinds import SESSIONS, ClaimsStudy
from configtron.studies.simulated.points import SessionsStudy

AnyStudy = ClaimsStudy | SessionsStudy


def names() -> tuple[str, ...]:
    """Return the names of all studies, sorted; imports none of them."""
    return tuple(sorted(found.name for found in iter_modules(studies.__path__) if not found.ispkg))


def study_of(name: str) -> AnyStudy:
    """Return the study of that name. Errors: `BadInput` for an unknown name, TypeError for a file without its row."""
    if name not in names():
        raise BadInput(f"no study is called {name!r}; there is: {', '.join(names())}")
    row = getattr(import_module(f"{studies.__name__}.{name}"), "STUDY", None)
    if not isinstance(row, ClaimsStudy | SessionsStudy):
        raise TypeError(f"configtron/studies/{name}.py: add a row STUDY = ClaimsStudy(...) or SessionsStudy(...)")
    if row.name != name:
        raise TypeError(f"configtron/studies/{name}.py: its row is named {row.name!r}; name it {name!r}, as the file")
    return row


def every(needs: Sequence[str] = ()) -> tuple[AnyStudy, ...]:
    """Return all studies that need one of these; without `needs`, all studies."""
    found = tuple(study_of(name) for name in names())
    return tuple(one for one in found if one.needs in needs) if needs else found


def sessions_study_of(name: str) -> SessionsStudy:
    """Return that study of simulated sessions. Errors: `BadInput` for another kind or an unknown name."""
    found = study_of(name)
    if not isinstance(found, SessionsStudy):
        raise BadInput(f"{name} is no study of simulated sessions")
    return found


def spelt_out(paper: str) -> str:
    """Return a paper's name in full where a study abbreviates it: CT is ConfigTron (2019), HC HotCloud (2017)."""
    return re.sub(r"\b(CT|HC)\b", lambda found: {"CT": "ConfigTron", "HC": "HotCloud"}[found[0]], paper)


def listed() -> list[dict[str, str]]:
    """Return a row a study: name, what it needs, paper and section, what it reproduces, about how long it takes."""
    return [
        {"study": one.name, "needs": one.needs, "paper": one.paper, "about": one.about, "duration": one.duration}
        for one in every()
    ]


def chosen(named: Sequence[str], needs: Sequence[str]) -> tuple[list[str], bool]:
    """Return the names of the chosen studies, and whether they are of simulated sessions. Errors: `BadInput` for a
    mixture: they print different tables."""
    found = list(dict.fromkeys((*named, *(one.name for one in (every(needs) if needs else ())))))
    sessions = [study_of(name).needs == SESSIONS for name in found]
    if len(set(sessions)) > 1:
        first, other = found[0], found[sessions.index(not sessions[0])]
        raise BadInput(f"{first} and {other} print different tables; run one command for each")
    return found, sessions[0]
