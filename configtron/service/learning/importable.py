# SPDX-License-Identifier: MIT
"""Let `--policy package.module:Class` name a class in a file of the current folder."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from configtron.model.packages import missing


def importable(names: Iterable[str]) -> None:
    """Search the current folder too, after all else, if one of the policies is a class to import."""
    from configtron.learner.imported import is_imported

    here = str(Path.cwd())
    if any(map(is_imported, names)) and here not in sys.path:
        sys.path.append(here)


def check_classes() -> None:
    """Check that the packages are there by which classes are made, hours before they are. Errors: `Missing`."""
    for module in ("scipy", "sklearn"):
        try:
            found = find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise missing(ModuleNotFoundError(name=module))
