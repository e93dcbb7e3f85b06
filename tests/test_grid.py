# SPDX-License-Identifier: MIT
"""The grid: the paper's 768, the 168 that act differently, and one way from profile to row."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.grid import DEAD, Dead, Grid, live_grid, paper_grid
from configtron.model.knobs import TUNABLE
from configtron.model.nouns import Profile


def test_the_papers_grid_is_table_1() -> None:
    grid = paper_grid()
    assert len(grid) == 768
    assert dict(grid.profiles[grid.default].settings) == {knob.name: knob.default for knob in TUNABLE}


def test_what_differs_is_168() -> None:
    assert len(np.unique(paper_grid().canonical())) == len(live_grid()) == 168


def test_dead_knobs_are_knobs_and_say_why() -> None:
    names = {knob.name: knob for knob in TUNABLE}
    assert all(dead.knob in names and dead.reason for dead in DEAD)
    assert all(not dead.where or dead.value in names[dead.where].values for dead in DEAD)


def test_bbr_is_paced_once() -> None:
    grid = live_grid()
    bbr = grid.column("tcp_congestion_control") == 3
    assert set(grid.column("pacing")[bbr]) == {0} and set(grid.column("pacing")[~bbr]) == {0, 1}


def test_canonical_is_a_projection() -> None:
    grid = paper_grid()
    once = grid.canonical()
    assert (once[once] == once).all()
    assert (grid.canonical((Dead("http_version", "planted"),)) != np.arange(768)).sum() == 384


@pytest.mark.parametrize("grid", [paper_grid(), live_grid()])
def test_profiles_lead_back(grid: Grid) -> None:
    assert [grid.index(profile) for profile in grid.profiles] == list(range(len(grid)))
    assert len({profile.name for profile in grid.profiles}) == len(grid)


def test_what_a_profile_leaves_out_is_default() -> None:
    assert paper_grid().index(Profile("x", (("initcwnd", 30),))) != paper_grid().default
    grid = live_grid()
    profile = grid.profiles[grid.index(Profile("any", (("initcwnd", 30),)))]
    assert dict(profile.settings)["tcp_congestion_control"] == "cubic"


@pytest.mark.parametrize(
    ("grid", "settings"),
    [
        (live_grid(), (("initcwnd", 11),)),
        (live_grid(), (("unheard_of", 1),)),
        (Grid(TUNABLE, paper_grid().rows[:5]), (("initcwnd", 30),)),
    ],
)
def test_foreign_profiles_are_refused(grid: Grid, settings: tuple[tuple[str, int], ...]) -> None:
    with pytest.raises(BadInput, match=f"none of the grid's {len(grid)}"):
        grid.index(Profile("foreign", settings))


def test_a_dead_knob_is_taken_for_its_default() -> None:
    grid = paper_grid().without((*DEAD, Dead("tcp_autocorking", "seen to do nothing")))
    assert len(grid) == 84
    plain = grid.index(Profile("a", (("initcwnd", 30), ("tcp_congestion_control", "bbr"))))
    words = (("initcwnd", 30), ("pacing", "fq"), ("tcp_autocorking", 0), ("tcp_congestion_control", "bbr"))
    assert grid.index(Profile("b", (*words, ("tcp_low_latency", 1)))) == plain
    cubic = grid.index(Profile("c", (("initcwnd", 30), ("pacing", "fq"))))
    assert cubic not in (plain, grid.index(Profile("d", (("initcwnd", 30),))))
    with pytest.raises(BadInput, match="none of the grid's"):
        grid.index(Profile("e", (("initcwnd", 5), ("tcp_autocorking", 0))))
    assert [grid.index(profile) for profile in grid.profiles] == list(range(84))
