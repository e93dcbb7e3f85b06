# SPDX-License-Identifier: MIT
"""The options of the command that is running, as the lease engine takes them."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.output import say, warn
from configtron.cli.settings import settings
from configtron.linux.xdg import JOINED, SERVICES_DB
from configtron.model.choices import MAX_PREFIXES
from configtron.model.errors import DONE
from configtron.model.tuning import Place

if TYPE_CHECKING:
    from configtron.service.lease import LeaseOptions, Notice
    from configtron.tune.guard import Limits


def agents_database(joined: Path = JOINED, database: Path = SERVICES_DB) -> None:
    """Take the agent's database where this host has an agent and no --db is given: in root's own, what the agent has
    in force is in no journal, and a rollback would take it away."""
    root = click.get_current_context().find_root()
    if root.params.get("db") is None and os.access(joined, os.R_OK) and os.access(database, os.W_OK):
        root.obj = replace(settings(), db=database)
        say(f"{database}: the database of this host's agent; for another: configtron --db FILE tune")


def given(name: str, otherwise: Any = None) -> Any:
    """Return an option's value: the command's own, else that of `tune`, else `otherwise`."""
    ctx: click.Context | None = click.get_current_context()
    while ctx is not None:
        value = ctx.params.get(name)
        if value not in (None, ()):
            return value
        ctx = ctx.parent
    return otherwise


def place() -> Place:
    """Return where to act. Errors: `BadInput` for a listener that is none."""
    from configtron.service.lease.options import cgroup_path
    from configtron.tune.listeners import listeners_text

    listen = listeners_text(given("listen", ())) if given("listen", ()) else ""
    return Place(given("netns", ""), given("interface", ""), cgroup_path(given("cgroup", "")), listen)


def lease_options() -> LeaseOptions:
    """Return the options of the command that is running, as the lease engine takes them. Errors: `BadInput`."""
    from configtron.service.lease import AUTO, LeaseOptions

    shares = (given("holdback", 0.0), given("canary", 1.0))
    return LeaseOptions(settings().db, given("driver", AUTO), place(), limits(), *shares)


def show_notice(notice: Notice) -> None:
    """Print a notice of the engine; a quiet command drops those that are not warnings."""
    (warn if notice.level > logging.INFO else say)(notice.text)


def say_stored(what: str) -> int:
    """Print what was stored, and that the stack is as before; return the exit code."""
    say(f"{what}; the stack changes at the next: configtron tune apply")
    return DONE


def limits() -> Limits:
    """Return what the operator allows. Errors: `BadInput`."""
    from configtron.tune.guard import limits_of

    return limits_of(given("bound", ()), bool(given("allow_unfair", False)), given("max_prefixes", MAX_PREFIXES))
