# SPDX-License-Identifier: MIT
"""What the shell completes beside options: target lists, runs, policies, drivers, profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click


def _offered(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
        from configtron.linux.xdg import default_db
        from configtron.service.offered_names import names_of

        found = names_of(kind, Path(ctx.find_root().params.get("db") or default_db()))
        return [name for name in found if name.startswith(begun)]

    return names


lists, runs, policies, learned = _offered("lists"), _offered("runs"), _offered("policies"), _offered("learned")
either, drivers, profiles = _offered("either"), _offered("drivers"), _offered("profiles")
