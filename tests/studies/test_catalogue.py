# SPDX-License-Identifier: MIT
"""Every study is a file with its row, runs in a quick form, and is loaded by no other command."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.cli.outermost import run
from configtron.model.choices import LAB, NEEDS, SESSIONS, TENSOR
from configtron.model.errors import DONE, PARTIAL
from configtron.studies.registry import catalogue, listing
from configtron.studies.registry.sessions_run import SMOKE_SEEDS
from tests.support import ROOT
from tests.support.sources import parsed
from tests.support.studies.quick import quick, quick_in_guests

SMOKE_TENSOR = str(ROOT / "fixtures" / "tensor" / "smoke.npz")
FILES = sorted(file for file in (ROOT / "configtron/studies").glob("*.py") if file.stem != "__init__")


def lacks(file: Path) -> list[str]:
    """Return what a study's file lacks, each with the file's name."""
    tree, name = parsed(file), f"configtron/studies/{file.name}"
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    if "STUDY" not in [getattr(target, "id", "") for target in assigned]:
        return [f"{name}: no row STUDY; a file that several studies share belongs in a package of configtron/studies/"]
    try:
        row = catalogue.study_of(file.stem)
    except TypeError as error:
        return [str(error)]
    fields = ("paper", "about", "duration")
    found = [f"{name}: its row has no {field}" for field in fields if not getattr(row, field)]
    if not (ast.get_docstring(tree) or "").startswith(f"The study `{file.stem}`"):
        found.append(f'{name}: begin its docstring with "The study `{file.stem}`"')
    return found


def test_every_file_is_a_study(tmp_path: Path) -> None:
    assert [words for file in FILES for words in lacks(file)] == []
    assert {one.needs for one in catalogue.every()} == set(NEEDS) and len(FILES) == len(listing.names()) > 18
    assert [one.name for one in catalogue.every((TENSOR,))] == ["heterogeneity", "hotcloud"]
    file = tmp_path / "cat.py"
    file.write_text('"""The study `cat`."""\n')
    assert lacks(file)[0].startswith("configtron/studies/cat.py: no row STUDY")


def test_the_list_is_that_of_the_rows_and_imports_no_study() -> None:
    rows = [(one.name, one.needs, one.paper, one.about, one.duration) for one in catalogue.every()]
    assert [tuple(row.values()) for row in listing.listed()] == rows
    program = (
        "import sys\nfrom configtron.cli.outermost import run\nrun(['replay', 'study', '--list', '-o', '/dev/null'])\n"
        "print(len([name for name in sys.modules if name.split('.')[0] == 'configtron']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) < 60


def names(needs: str) -> list[str]:
    return [one.name for one in catalogue.every((needs,))]


# Their quick forms take half a minute and more each; test_simulated runs their parts.
LONG = {"classes", "features", "gains", "realism", "starts", "trees"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names(SESSIONS) if name not in LONG])
def test_a_study_of_sessions_runs_in_a_quick_form(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("configtron.studies.sim.world.CONDITIONS", 40)
    assert quick(name, tmp_path) == DONE
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) > 1 and {row["study"] for row in rows} == {name}
    assert max(row["worlds"] for row in rows) == SMOKE_SEEDS and (tmp_path / "x.html").stat().st_size > 5000


@pytest.mark.parametrize("name", names(TENSOR))
def test_a_study_of_a_tensor_runs_in_a_quick_form(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the shipped tensor, which has few networks: heterogeneity lacks most of its 46."""
    assert quick(name, tmp_path, "--tensor", SMOKE_TENSOR) == (PARTIAL if name == "heterogeneity" else DONE)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row["kind"] == "fact"] and (tmp_path / "x.html").stat().st_size > 5000


# Their own tests run their quick forms, and see what these show.
SEEN = {"calibration", "fairness", "pantheon", "pantheonchanges", "pantheontunnel"}


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.parametrize("name", [name for name in names(LAB) if name not in SEEN])
def test_a_study_of_the_lab_runs_in_a_quick_form(name: str, tmp_path: Path) -> None:
    assert quick_in_guests(name, tmp_path).whole


@pytest.mark.parametrize(
    "words",
    ["import configtron", "run(['--help'])", "run(['replay', '--help'])", "run(['replay', 'study', '--help'])",
     "run(['tune', '--help'])", "run(['replay', 'sessions', '--help'])"],
)  # fmt: skip
def test_no_other_command_loads_a_study(words: str) -> None:
    program = (
        "import sys\nfrom configtron.cli.outermost import run\n"
        f"{words}\nprint([name for name in sys.modules if name.startswith('configtron.studies')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.strip() == "[]"


def test_the_table_of_studies_spells_papers_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "study", "--list"]) == DONE
    table = capsys.readouterr().out
    assert "ConfigTron Fig. 6b" in table and not re.search(r"\b(CT|HC)\b", table)
