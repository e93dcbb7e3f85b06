# SPDX-License-Identifier: MIT
"""Every study by name: the files of `configtron/studies/` itself, each with its row `STUDY`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from configtron import studies
from configtron.model.errors import BadInput
from configtron.studies.registry.kinds import SESSIONS, ClaimsStudy
from configtron.studies.registry.listing import names
from configtron.studies.simulated.points import SessionsStudy

AnyStudy = ClaimsStudy | SessionsStudy


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


def chosen(named: Sequence[str], needs: Sequence[str]) -> tuple[list[str], bool]:
    """Return the names of the chosen studies, and whether they are of simulated sessions. Errors: `BadInput` for a
    mixture: they print different tables."""
    found = list(dict.fromkeys((*named, *(one.name for one in (every(needs) if needs else ())))))
    sessions = [study_of(name).needs == SESSIONS for name in found]
    if len(set(sessions)) > 1:
        first, other = found[0], found[sessions.index(not sessions[0])]
        raise BadInput(f"{first} and {other} print different tables; run one command for each")
    return found, sessions[0]
