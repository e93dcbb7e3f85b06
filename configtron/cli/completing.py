# SPDX-License-Identifier: MIT
"""What the shell completes beside options: target lists, runs, policies, drivers, profiles, prefixes, knobs."""

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
prefixes, addresses, measured = _offered("prefixes"), _offered("addresses"), _offered("measured")


def assignments(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Complete KNOB=VALUE. Bash takes that for three words and asks for the last one, after "=", alone."""
    found = _offered("settings")(ctx, param, "")
    typed = [word for word in ctx.params.get("words") or () if word != "="]
    knob = f"{typed[-1]}=" if typed and "=" not in typed[-1] else ""
    return [name.removeprefix(knob) for name in found if name.startswith(knob + begun)]


def assigned(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Complete a knob that can be set."""
    return list(dict.fromkeys(name.split("=")[0] for name in _offered("settings")(ctx, param, begun)))
