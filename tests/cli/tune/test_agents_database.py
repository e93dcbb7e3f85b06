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
    joined, agents = tmp_path / "manager.json", tmp_path / "agent.db"
    joined.touch()
    assert chosen(joined, agents) == default_db()
    agents.touch()
    assert capsys.readouterr().err == ""
    assert chosen(joined, agents) == agents
    assert f"{agents}: the database of this host's agent" in capsys.readouterr().err


def test_one_that_is_named_is_used_and_without_an_agent_the_users_own(tmp_path: Path) -> None:
    joined, agents = tmp_path / "manager.json", tmp_path / "agent.db"
    agents.touch()
    assert chosen(joined, agents) == default_db()
    joined.touch()
    assert chosen(joined, agents, tmp_path / "other.db") == tmp_path / "other.db"


def test_the_places_are_those_of_the_units() -> None:
    assert str(JOINED.parent) == AGENT_STATE and str(SERVICES_DB.parent) == STATE
    assert str(MANAGERS_DB.parent) == MANAGER_STATE


def test_the_services_database_is_named_where_the_user_has_named_none(tmp_path: Path) -> None:
    here, other = Path(__file__), tmp_path / "other.db"
    assert services_database(default_db(), here) == here and services_database(default_db(), other) is None
    assert services_database(other, here) is None and elsewhere(other, "learn status", here) == ""
    assert elsewhere(default_db(), "learn status", here).endswith(f": configtron --db {here} learn status")
