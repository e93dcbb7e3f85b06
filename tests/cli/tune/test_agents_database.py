# SPDX-License-Identifier: MIT
"""On a host that has joined a manager, `tune` without --db means the agent's database."""

from __future__ import annotations

import io
import os
import pwd
from pathlib import Path

import click
import pytest

from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.cli.settings import Settings, settings
from configtron.cli.tune.resolved import agents_database
from configtron.linux.xdg import JOINED, MANAGERS_DB, SERVICES_DB, default_db, elsewhere, services_database
from configtron.model.errors import DONE, USAGE
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


def test_an_agents_secret_is_no_word_of_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    enroll = ("learn", "manager", "enroll", "a", "--address", "tcp://192.0.2.1:5560", "--keys", str(tmp_path / "keys"))
    assert run(["--db", str(tmp_path / "a.db"), *enroll]) == DONE
    echo, line, pipe, _, *words = capsys.readouterr().out.split()
    assert (echo, pipe, words) == ("echo", "|", ["tune", "agent", "--join", "-"])
    joining = [*words[:2], "--user", pwd.getpwuid(os.getuid()).pw_name, "--folder", str(tmp_path / "agent"), "--join"]
    (tmp_path / "line").write_text(f"\ufeff\r\n {line}\n")
    for word, code, says in (
        ("-", DONE, "joined tcp://192.0.2.1:5560 as a"), (f"@{tmp_path / 'line'}", DONE, " as a; next"),
        (f"@{tmp_path / 'absent'}", USAGE, "No such file"), (f"@{tmp_path}", USAGE, "Is a directory"),
        ("@/dev/null", USAGE, "copy all of it"), (line[1:], USAGE, "copy all of it"),
    ):  # fmt: skip
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{line}\n"))
        assert run([*joining, word]) == code
        assert says in (err := capsys.readouterr().err) and err.count("\n") == 1
