# SPDX-License-Identifier: MIT
"""The recipes in docs/recipes/, each followed to the letter in a copy of the sources, and followed but for one step."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT
from tests.support.waiting import GUEST_S

# A step of a recipe: a new file, lines before or after a line of a file, or a command that makes files.
STEP = re.compile(
    r"<!-- (?P<kind>file|add|run)(?:: (?P<path>\S+))?(?: (?P<where>before|after): (?P<line>[^\n]*?))? -->\n"
    r"```\w*\n(?P<text>.*?)\n```",
    re.S,
)
# A command of a recipe that checks what was added.
CHECK = re.compile(r"^    python -m (pytest .+)$", re.M)
# What a copy needs to run tests.
COPIED = (
    "benchmarks configtron db docs fingerprint fixtures kmod learner probe tests tune "
    "conftest.py setup.cfg pyproject.toml ruff.toml README.md CONTRIBUTING.md Makefile"
).split()


class Step(NamedTuple):
    kind: str
    path: str
    where: str
    line: str
    text: str


def steps(recipe: str) -> list[Step]:
    page = (ROOT / "docs" / "recipes" / f"{recipe}.md").read_text()
    return [Step(**{name: found[name] or "" for name in Step._fields}) for found in STEP.finditer(page)]


def copy(folder: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pcapng.gz")
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def follow(step: Step, folder: Path) -> None:
    if step.kind == "run":
        words = [sys.executable, *step.text.split()[1:]]
        subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=GUEST_S, check=True)
        return
    file = folder / step.path
    if step.kind == "file":
        assert not file.exists(), f"{step.path} is there already"
        file.write_text(step.text + "\n")
        return
    lines = file.read_text().splitlines()
    places = [number for number, line in enumerate(lines) if line.startswith(step.line)]
    assert len(places) == 1, f"{step.path} has {len(places)} lines {step.line!r}"
    at = places[0] + (step.where == "after")
    file.write_text("\n".join([*lines[:at], *step.text.splitlines(), *lines[at:], ""]))


def checked(recipe: str, folder: Path) -> subprocess.CompletedProcess[str]:
    page = (ROOT / "docs" / "recipes" / f"{recipe}.md").read_text()
    (command,) = CHECK.findall(page)
    words = [sys.executable, "-m", *command.split(), "-q", "-p", "no:cacheprovider"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=GUEST_S, check=False)


RECIPES = sorted(page.stem for page in (ROOT / "docs" / "recipes").glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_that_is_followed_passes_its_check(recipe: str, tmp_path: Path) -> None:
    copy(tmp_path)
    assert steps(recipe)
    for step in steps(recipe):
        follow(step, tmp_path)
    done = checked(recipe, tmp_path)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_without_its_last_step_fails_its_check(recipe: str, tmp_path: Path) -> None:
    copy(tmp_path)
    for step in steps(recipe)[:-1]:
        follow(step, tmp_path)
    assert checked(recipe, tmp_path).returncode != 0


# Recipes whose check names the place that lacks a step.
NAMED = ("congestion-control", "driver", "knob", "probe")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", NAMED)
def test_a_check_names_the_place_of_a_step_left_out(recipe: str, tmp_path: Path) -> None:
    copy(tmp_path)
    plan = [step for step in steps(recipe) if step.kind != "run"]
    before = {step.path: (tmp_path / step.path).read_text() for step in plan if step.kind == "add"}
    unnamed = []
    for left_out in plan:
        for step in plan:
            if step.kind == "file":
                (tmp_path / step.path).unlink(missing_ok=True)
        for path, text in before.items():
            (tmp_path / path).write_text(text)
        for step in plan:
            if step is not left_out:
                follow(step, tmp_path)
        done = checked(recipe, tmp_path)
        assert done.returncode != 0, f"without the step in {left_out.path} the check passes"
        # An import that fails names the module.
        module = left_out.path.removesuffix(".py").replace("/", ".")
        package, _, name = module.rpartition(".")
        failed = rf"cannot import name '{name}' from [^\n]*'configtron\.{package}'"
        places = (re.escape(left_out.path), re.escape(module), failed)
        if not re.search("|".join(places), done.stdout + done.stderr):
            unnamed.append(left_out.path)
    assert unnamed == []
