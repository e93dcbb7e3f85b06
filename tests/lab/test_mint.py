# SPDX-License-Identifier: MIT
"""Recordings for fixtures/: the same recipe gives the same bytes, and what is not right is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fixtures import mint
from fixtures.recipes import RECIPES

pytestmark = pytest.mark.lab
NAME = "delayed_ack/linux"


def minted(to: Path, name: str = NAME) -> dict[str, bytes]:
    recipes = mint.group(RECIPES[name])
    assert list(mint.mint(recipes, [name], to)) == [name]
    return {path.name: path.read_bytes() for path in (to / name).iterdir()}


def test_the_same_recipe_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = minted(tmp_path / "1"), minted(tmp_path / "2")
    assert set(first) == {mint.RECORDING, mint.ORIGIN, mint.expected.KEPT}
    assert first == second


def test_a_recipe_that_is_not_about_what_it_shows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(RECIPES[NAME], about=("tfo",))
    (line,) = mint.mint([wrong], [NAME], tmp_path)
    assert line.startswith(mint.WRONG) and "says nothing of tfo" in line
