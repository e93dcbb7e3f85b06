# SPDX-License-Identifier: MIT
"""Rows of `learn indigo`: a round of a training, a link's best window."""

from __future__ import annotations

from configtron.model.records import Json
from configtron.studies.indigo.training import IndigoTrained


def round_rows(found: IndigoTrained) -> list[dict[str, Json]]:
    """Return a row a round."""
    return [{"kind": "round", "seed": found.seed, **row} for row in found.rows]


def window_rows(found: IndigoTrained) -> list[dict[str, Json]]:
    """Return a row a link: its best window, packets."""
    return [{"kind": "window", "link": link, "best_window": best} for link, best in found.windows.items()]
