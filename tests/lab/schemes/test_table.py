# SPDX-License-Identifier: MIT
"""Every scheme of the table: its file's head and length, and that it uses a path, yields and repeats itself."""

from __future__ import annotations

import ast
import re

import numpy as np
import pytest

from configtron.lab.schemes.scheme import Scheme
from configtron.lab.schemes.table import OF_USER_SPACE, USER_SPACE_SCHEMES, made
from configtron.model.congestion import OF_LINUX
from tests.support import ROOT
from tests.support.scripted_path import FlowLog, ScriptedPath, Starting, run
from tests.support.sources import parsed

FOLDER = ROOT / "configtron/lab/schemes"
ESSAY = ("Question", "Method", "Stop when", "Reads as", "Fails as", "Differs", "Source")
MOST_LINES = 150
# The one that states what a scheme is, beside those that are one.
PROTOCOL = "scheme"


def files() -> dict[str, str]:
    """Files that define a scheme, with its class."""
    found = {}
    for file in FOLDER.glob("*.py"):
        classes = [node for node in parsed(file).body if isinstance(node, ast.ClassDef)]
        for one in classes:
            if any(isinstance(node, ast.FunctionDef) and node.name == "on_tick" for node in one.body):
                found[file.stem] = one.name
    return {stem: name for stem, name in found.items() if stem != PROTOCOL}


def scheme(name: str, seed: int = 1) -> Scheme:
    return made(name, np.random.default_rng(seed))


def test_each_file_is_a_row_and_each_row_a_file() -> None:
    rows = {type(scheme(name)).__module__.rpartition(".")[2]: type(scheme(name)).__name__ for name in OF_USER_SPACE}
    assert rows == files()
    assert all(row.source for row in USER_SPACE_SCHEMES)


def test_no_name_is_twice_nor_the_kernels() -> None:
    assert len(set(OF_USER_SPACE)) == len(OF_USER_SPACE) and not set(OF_USER_SPACE) & set(OF_LINUX)
    with pytest.raises(KeyError):
        scheme("cubic")


def test_each_opens_with_its_essay_and_is_short() -> None:
    for stem in files():
        text = (FOLDER / f"{stem}.py").read_text()
        head = ast.get_docstring(ast.parse(text)) or ""
        assert [word for word in ESSAY if not re.search(rf"^{word}\b", head, re.M)] == [], stem
        assert len(text.splitlines()) <= MOST_LINES, stem


def ran(name: str, path: ScriptedPath, seconds: float, flows: int = 1) -> list[FlowLog]:
    return run(path, [Starting(scheme(name, number), number * 0.5) for number in range(flows)], seconds)


@pytest.mark.parametrize("name", OF_USER_SPACE)
def test_each_uses_an_empty_path(name: str) -> None:
    found = ran(name, ScriptedPath(3.0, 0.02, 40), 12.0)[0].between(6, 12)
    assert found.mbit > 0.7 * 3.0 and found.loss < (0.15 if name == "allegro" else 0.06)


@pytest.mark.parametrize("name", OF_USER_SPACE)
def test_each_survives_silence(name: str) -> None:
    """Nothing arrives for two seconds; then the flow goes on."""
    path = ScriptedPath(3.0, 0.02, 50, lambda _, at: 4.0 <= at < 6.0)
    found = ran(name, path, 20.0)[0]
    assert found.between(4.6, 6).mbit == 0.0 and found.sender.lost >= 2
    assert found.between(15, 20).mbit > 0.1 * 3.0


@pytest.mark.parametrize("name", OF_USER_SPACE)
def test_the_same_seed_gives_the_same_packets(name: str) -> None:
    first, second = (ran(name, ScriptedPath(3.0, 0.02, 30), 4.0, flows=2) for _ in range(2))
    assert [log.packets for log in first] == [log.packets for log in second] and first[0].packets
