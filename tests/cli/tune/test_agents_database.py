# SPDX-License-Identifier: MIT
"""On a host that has joined a manager, `tune` without --db means the agent's database."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from configtron.cli.root import root
from configtron.cli.settings import Settings, settings
from configtron.cli.tune.resolved import agents_database
from configtron.linux.xdg import JOINED, MANAGERS_DB, SERVICES_DB, default_db, elsewhere, services_database
from configtron.tune.fleet_units import AGENT_STATE, MANAGER_STATE
from configtron.tune.units import STATE


def chosen(joined: Path, agents: Path, given: Path | None = None) -> Path:
    context = click.Context(root, obj=Settings(given or default_db()))
    context.params["db"] = given
    with context:
        agents_database(joined, agents)
        return settings().db


def test_the_agents_database_is_the_default_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an agent, or a database of it, it is the user's own; one that is named is used."""
    joined, agents, absent = tmp_path / "manager.json", tmp_path / "agent.db", tmp_path / "absent"
    joined.touch()
    agents.touch()
    assert chosen(joined, absent) == chosen(absent, agents) == default_db()
    assert chosen(joined, agents, tmp_path / "other.db") == tmp_path / "other.db"
    assert capsys.readouterr().err == ""
    assert chosen(joined, agents) == agents
    assert f"{agents}: the database of this host's agent" in capsys.readouterr().err


def test_the_services_database_is_named_where_the_user_has_named_none(tmp_path: Path) -> None:
    assert str(JOINED.parent) == AGENT_STATE and str(SERVICES_DB.parent) == STATE
    assert str(MANAGERS_DB.parent) == MANAGER_STATE
    here, other = Path(__file__), tmp_path / "other.db"
    assert services_database(default_db(), here) == here and services_database(default_db(), other) is None
    assert services_database(other, here) is None and elsewhere(other, "learn status", here) == ""
    assert elsewhere(default_db(), "learn status", here).endswith(f": configtron --db {here} learn status")
