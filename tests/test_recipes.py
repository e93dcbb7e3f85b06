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


RECIPES = {page.stem: page.read_text() for page in sorted((ROOT / "docs" / "recipes").glob("*.md"))}


def steps(recipe: str) -> list[Step]:
    found = STEP.finditer(RECIPES[recipe])
    return [Step(**{name: one[name] or "" for name in Step._fields}) for one in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.pcapng.gz")
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


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
    (command,) = CHECK.findall(RECIPES[recipe])
    words = [sys.executable, "-m", *command.split(), "-q", "-p", "no:cacheprovider"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=GUEST_S, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_that_is_followed_passes_its_check_and_fails_without_its_last_step(recipe: str, folder: Path) -> None:
    *most, last = steps(recipe)
    for step in most:
        follow(step, folder)
    assert checked(recipe, folder).returncode != 0
    follow(last, folder)
    done = checked(recipe, folder)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]


# Recipes whose check names the place that lacks a step.
NAMED = ("congestion-control", "driver", "knob", "probe")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", NAMED)
def test_a_check_names_the_place_of_a_step_left_out(recipe: str, folder: Path) -> None:
    plan = [step for step in steps(recipe) if step.kind != "run"]
    before = {step.path: (folder / step.path).read_text() for step in plan if step.kind == "add"}
    unnamed = []
    for left_out in plan:
        for step in plan:
            if step.kind == "file":
                (folder / step.path).unlink(missing_ok=True)
        for path, text in before.items():
            (folder / path).write_text(text)
        for step in plan:
            if step is not left_out:
                follow(step, folder)
        done = checked(recipe, folder)
        assert done.returncode != 0, f"without the step in {left_out.path} the check passes"
        # An import that fails names the module.
        module = left_out.path.removesuffix(".py").replace("/", ".")
        package, _, name = module.rpartition(".")
        failed = rf"cannot import name '{name}' from [^\n]*'configtron\.{package}'"
        places = (re.escape(left_out.path), re.escape(module), failed)
        if not re.search("|".join(places), done.stdout + done.stderr):
            unnamed.append(left_out.path)
    assert unnamed == []
