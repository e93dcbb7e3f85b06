# SPDX-License-Identifier: MIT
"""Policies that choose a configuration for each client, and the checks that judge them. Names are imported when first
used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from configtron.learner.engines import ENGINES, GRID
    from configtron.learner.registry import POLICIES, PREFERRED, policy, row_of, untaken
    from configtron.learner.setting import Setting
    from configtron.learner.table_policy import PolicyRow, TablePolicy

__all__ = [
    "ENGINES",
    "GRID",
    "POLICIES",
    "PREFERRED",
    "PolicyRow",
    "Setting",
    "TablePolicy",
    "policy",
    "row_of",
    "untaken",
]

_MODULES = {
    **dict.fromkeys(("ENGINES", "GRID"), "engines"),
    **dict.fromkeys(("POLICIES", "PREFERRED", "policy", "row_of", "untaken"), "registry"),
    **dict.fromkeys(("PolicyRow", "TablePolicy"), "table_policy"),
    "Setting": "setting",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
