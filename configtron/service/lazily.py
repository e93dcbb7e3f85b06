# SPDX-License-Identifier: MIT
"""Names of a package that are imported when they are first used.

`from configtron.service import campaign` costs next to nothing; `campaign.run` then imports what a run needs, and
`campaign.open_runs` no more than the database. Functions are handed out behind the boundary (`boundary.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from configtron.service.boundary import bounded


def lazily(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return a module's `__getattr__` for a table: name -> the module of `package` that defines it."""

    def find(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name] if "." in modules[name] else f"{package}.{modules[name]}"
        return bounded(getattr(import_module(module), name))

    return find
