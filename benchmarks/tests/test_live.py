# SPDX-License-Identifier: MIT
"""The live experiment: planted gains are found, none is claimed where nothing matters, the same seed replays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.live import rivals
from benchmarks.live.__main__ import BEGIN, END, into_page
from benchmarks.live.fleet import Run, run
from benchmarks.live.judge import Judged, compared, judged_of, mean_interval
from benchmarks.live.scenario import Scenario, guarded, indifferent, measured, settings_at, world_of
from configtron.learner.map_text import map_text

TENSOR = measured()
GRID = guarded(TENSOR)
SMALL = Scenario(
    seed=5, epochs=5, prefixes=5, clients=30, loads=300, change=3, harmful=4, lost=2, lost_for=1, restart=3
)


def played(policy: str = "mab_nc", scenario: Scenario = SMALL, tensor=TENSOR) -> tuple[Run, object]:  # type: ignore[no-untyped-def]
    world = world_of(tensor, scenario)
    return run(policy, world, GRID, scenario, begin_with=300, classes=6, features="few"), world


def test_the_measured_world_has_no_gaps_and_the_guard_keeps_bbr_out() -> None:
    assert not np.isnan(TENSOR.median_ms).any() and len(TENSOR.names) == 14
    assert settings_at(TENSOR.grid, TENSOR.grid.default) == "cubic/10"
    assert {settings_at(GRID, at).split("/")[0] for at in range(len(GRID))} == {"cubic", "reno", "vegas"}


@pytest.mark.slow
def test_the_same_seed_replays_bit_for_bit() -> None:
    (one, _), (two, _) = played(), played()
    assert [map_text(each) for each in one.maps] == [map_text(each) for each in two.maps]
    for first, second in zip(one.loads, two.loads, strict=True):
        assert (first.plt_ms == second.plt_ms).all()


@pytest.mark.slow
def test_what_is_planted_happens() -> None:
    found, world = played()
    assert len(found.changed) == SMALL.prefixes and found.harmful >= 0 and found.slow[4] == {found.harmful: 3.0}
    assert not found.slow[3] and not found.left_out and found.outcomes == SMALL.epochs * SMALL.loads


def judged(gain: float, seed: int, clients: int = 400) -> Judged:
    """Loads of clients that differ by half an e-fold, of which the tuned ones are so much faster."""
    rng = np.random.default_rng(seed)
    client = rng.integers(clients, size=20 * clients)
    held = (np.arange(clients) % 2)[client]
    ln = 7.0 + (0.5 * rng.standard_normal(clients))[client] + 0.3 * rng.standard_normal(len(client))
    ln += np.where(held == 1, 0.0, np.log1p(-gain))
    nothing = np.zeros(len(client), dtype=np.int64)
    return Judged(client, nothing, np.exp(ln), held, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_a_gain_is_found_and_its_interval_holds_it(share: float) -> None:
    found = compared(judged(0.3, 1), share)
    assert found.low < 0.3 < found.high and found.low > 0.0
    alarms = sum(not one.low <= 0.0 <= one.high for one in (compared(judged(0.0, seed), share) for seed in range(20)))
    assert alarms <= 4


def test_intervals_are_by_client_and_not_by_load() -> None:
    """Each client's loads are alike: what is known is as much as there are clients."""
    rng = np.random.default_rng(2)
    values = np.repeat(rng.standard_normal(50), 100)
    mean, low, high = mean_interval(values, np.repeat(np.arange(50), 100))
    assert mean == pytest.approx(values.mean()) and high - low > 3.0 / np.sqrt(50)


@pytest.mark.slow
def test_rivals_are_judged_on_the_same_loads_by_the_same_chance() -> None:
    quiet = replace(SMALL, harmful=0, change=0)
    found, world = played(scenario=quiet)
    epochs, among = range(quiet.epochs), rivals.configurations(world, GRID)  # type: ignore[arg-type]
    own = rivals.instead(world, found, epochs, lambda epoch, made: made.configuration)  # type: ignore[arg-type]
    for epoch in epochs:
        assert own[epoch] == pytest.approx(found.loads[epoch].plt_ms)
    gains = {}
    for at in among:
        times = rivals.static_times(world, found, epochs, int(at))  # type: ignore[arg-type]
        gains[int(at)] = rivals.ln_gain(world, found, epochs, times)[0].mean()  # type: ignore[arg-type]
    static = rivals.static_of(world, found, epochs, among)  # type: ignore[arg-type]
    assert gains[static] == max(gains.values()) and gains[TENSOR.grid.default] == 0.0


@pytest.mark.slow
def test_nothing_is_gained_where_nothing_matters() -> None:
    found, world = played("thompson", replace(SMALL, epochs=4).quiet(), indifferent(TENSOR))
    loads = judged_of(found.loads, world.clients.continent[world.clients.prefix])  # type: ignore[attr-defined]
    ms = [rivals.static_times(world, found, range(4), world.tensor.grid.default)[at] for at in range(4)]  # type: ignore[arg-type, attr-defined]
    assert loads.plt_ms == pytest.approx(np.concatenate(ms))


def test_tables_are_written_between_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "loop.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    into_page(page, "new\n")
    assert page.read_text() == f"before\n{BEGIN}\n```\nnew\n```\n{END}\nafter\n"
    (tmp_path / "none.md").write_text("no marks")
    with pytest.raises(SystemExit, match="there is no"):
        into_page(tmp_path / "none.md", "new\n")
