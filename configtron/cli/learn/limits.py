# SPDX-License-Identifier: MIT
"""What the operator allows, by this command's options, the settings file and the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from configtron.tune.guard import Limits


def operator_limits() -> Limits:
    """Return what the operator allows: this command's own options, else those of `tune` in the settings file and the
    environment. Errors: `BadInput`."""
    from configtron.tune.guard import limits_of

    here = click.get_current_context()
    root, given = here.find_root(), here.params
    verb = root.command.get_command(root, "tune") if isinstance(root.command, click.Group) else None
    kept = {} if verb is None else verb.make_context("tune", [], parent=root, resilient_parsing=True).params
    bounds = given.get("bound") or kept.get("bound") or ()
    return limits_of(bounds, bool(given.get("allow_unfair") or kept.get("allow_unfair")))
