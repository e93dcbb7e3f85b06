# SPDX-License-Identifier: MIT
"""Types of options, beside those of Click. Light, since `--help` imports it."""

from __future__ import annotations

from math import isfinite
from typing import Any

import click


class NamedPath(click.Path):
    """A path that has a name: the empty one would be the folder itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; an empty name is refused."""
        if not value:
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


class Finite(click.FloatRange):
    """A range that contains neither infinity nor NaN."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert as `click.FloatRange`, and refuse what is not finite."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number
