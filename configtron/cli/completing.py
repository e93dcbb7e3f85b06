# SPDX-License-Identifier: MIT
"""What the shell completes beside options: target lists, runs, policies. The database is only read, nothing is sent.

Whatever goes wrong completes nothing: a shell's Tab is no place for an error.
"""

from __future__ import annotations

from pathlib import Path

import click

from configtron.model.errors import ConfigtronError

# As many of the latest runs as fit a screen.
RUNS = 20


def lists(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return names of the bundled target lists."""
    from configtron.service.lists import bundled

    return [name for name in bundled() if name.startswith(begun)]


def runs(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return numbers of the latest runs, the newest first, and `last`."""
    from configtron.db.store import Store

    try:
        with Store(_path(ctx), read_only=True) as store:
            numbers = [str(run.id) for run in store.runs()]
    except (ConfigtronError, OSError):
        return []
    return [name for name in ("last", *numbers[: -RUNS - 1 : -1]) if name.startswith(begun)]


def policies(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """Return names of `learn policies`."""
    try:
        from configtron.learner import POLICIES
    except ImportError:
        return []
    return [name for name in POLICIES if name.startswith(begun)]


def learned(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return names of `learn status`."""
    try:
        from configtron.db.outcomes import Outcomes

        with Outcomes(_path(ctx), read_only=True) as store:
            return [one.name for one in store.learners() if one.name.startswith(begun)]
    except (ConfigtronError, ImportError, OSError):
        return []


def either(ctx: click.Context, param: click.Parameter, begun: str) -> list[str]:
    """Policies that go on, and those that can be made."""
    return list(dict.fromkeys((*learned(ctx, param, begun), *policies(ctx, param, begun))))


def _path(ctx: click.Context) -> Path:
    """Return the database of the command line that is being completed."""
    from configtron.cli.settings import default_db

    return Path(ctx.find_root().params.get("db") or default_db())
