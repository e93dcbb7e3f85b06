# SPDX-License-Identifier: MIT
"""Small things of the command line: names that are nearly right, what the shell completes, lists in every form."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from configtron.cli.outermost import run
from configtron.cli.root import root
from configtron.db.store import Store
from configtron.model.checks import DOCTOR_COLUMNS
from configtron.model.errors import CONDITION, DONE
from configtron.service.campaign.tally import RunTally
from tests.support.learn_command import Typed

Spoken = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("home")


def offered(*words: str, begun: str = "") -> list[str]:
    complete = ShellComplete(root, {}, "configtron", "_CONFIGTRON_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), begun)]


def test_lists_runs_and_options_are_completed(home: Path) -> None:
    assert offered("probe", "show") == []
    with Store(home / "XDG_DATA_HOME" / "configtron" / "configtron.db") as store:
        for _ in range(12):
            store.begin_run("{}")
    assert offered("probe", "show")[:4] == ["last", "12", "11", "10"]
    assert offered("probe", "diff", "3", begun="1") == ["12", "11", "10", "1"]
    assert offered("probe", "--resume", begun="12") == ["12"] == offered("replay", "packets", "--run", begun="12")
    assert offered("probe", "lists", begun="al") == ["alexa-top1k"] == offered("probe", begun="al")
    assert {"run", "show", "alexa-top1k"} <= set(offered("probe"))
    assert offered("probe", begun="--see") == ["--seed"] == offered("probe", "a.example", begun="--see")
    assert "--help" in offered("probe", begun="--h")


@pytest.mark.slow
def test_policies_are_completed(filled: Typed, tmp_path: Path) -> None:
    assert filled("learn", "run", "--policy", "mab_nc", "--name", "mine", "--classes", "5")[0] == DONE
    db = ("--db", str(tmp_path / "l.db"))
    assert offered(*db, "learn", "evaluate", "--policy", begun="m") == ["mine"]
    assert offered(*db, "learn", "run", "--policy", begun="m") == ["mine", "mab_nc"]
    assert "thompson" in offered("replay", "sessions", "--policy")
    assert offered("--db", str(tmp_path / "none"), "learn", "drop", "--policy") == []


def test_profiles_prefixes_and_knobs_are_completed(home: Path) -> None:
    for words in (["profile", "set", "far", "initcwnd=20"], ["prefix", "set", "192.0.2.0/24", "far"]):
        assert run(["tune", *words]) == DONE
    assert (
        offered("tune", "profile", "show") == ["far"] == offered("tune", "prefix", "set", "198.51.100.0/24", begun="f")
    )
    assert offered("tune", "prefix", "drop", begun="192") == ["192.0.2.0/24"]
    assert offered("tune", "prefix", "show") == ["192.0.2.0"]
    change = ("tune", "profile", "set", "far")
    assert offered(*change, begun="initcwnd=1") == ["initcwnd=1", "initcwnd=10", "initcwnd=16"]
    assert offered(*change, begun="max_p") == ["max_pacing_rate="]
    # As bash parts a word at "=".
    assert offered(*change, "initcwnd", "=", begun="3") == ["30"] == offered(*change, "initcwnd", "=")[-1:]
    assert "nagle=0" in offered(*change, "initcwnd", "=", "30", "initcwnd=4")
    assert offered(*change, "--drop", begun="init") == ["initcwnd", "initrwnd"]
    assert offered("probe", "show", "1", "--knob", begun="icw") == ["icw", "icw_tls", "icw_formula"]


@pytest.mark.parametrize(
    ("words", "schema", "first"),
    [
        (("lists",), "configtron.lists/1", ("list", "alexa-top1k")),
        (("lists", "@alexa-top1k"), "configtron.targets/1", ("host", "")),
        (("regions",), "configtron.regions/1", ("name", "here")),
    ],
)
def test_lists_speak_every_form(words: tuple[str, ...], schema: str, first: tuple[str, str], capsys: Spoken) -> None:
    assert run(["probe", *words]) == DONE
    plain = capsys.readouterr().out.splitlines()
    assert run(["probe", *words, "-f", "jsonl"]) == DONE
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert run(["probe", *words, "-f", "csv"]) == DONE
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(plain) == len(lines) == len(rows) and {line.pop("schema") for line in lines} == {schema}
    assert lines == rows
    name, value = first
    assert rows[0][name] == plain[0].split("\t")[0] == (value or plain[0])


@pytest.mark.parametrize(("form", "head"), [("table", "state check found"), ("csv", ",".join(DOCTOR_COLUMNS))])
def test_a_doctor_has_columns_for_people_and_for_programs(form: str, head: str, capsys: Spoken) -> None:
    assert run(["probe", "doctor", "-f", form]) in (DONE, CONDITION)
    assert " ".join(capsys.readouterr().out.splitlines()[0].split()) == head


def test_a_target_that_may_not_be_probed_is_no_connection_without_answer() -> None:
    shown: list[Any] = []
    tally = RunTally(1, SimpleNamespace(record=lambda *_: None), 1, shown.append)  # type: ignore[arg-type]
    tally.keep([SimpleNamespace(trace_id="a", ending="blocked", frames=0)])  # type: ignore[list-item]
    tally.keep([SimpleNamespace(trace_id="b", ending="no-synack", frames=3)])  # type: ignore[list-item]
    assert [(one.calls, one.failed) for one in shown] == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("target", "noted"),
    [("127.0.0.1", False), ("localhost:8080", False), ("http://127.0.0.9/x", False), ("[::1]:443", False),
     ("127.0.0.0/30", False), ("192.0.2.1", True), ("127.example.com", True), ("localhost.example.com", True)],
)  # fmt: skip
def test_no_contact_is_needed_to_probe_this_host(target: str, noted: bool, capsys: Spoken) -> None:
    run(["probe", "--dry-run", "--allow", "127.0.0.0/8", "--allow", "192.0.2.0/24", target])
    assert ("no --contact" in capsys.readouterr().err) is noted
