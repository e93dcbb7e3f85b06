# SPDX-License-Identifier: MIT
"""The sealed suite: fresh seeds, worlds that are what they say, constants that win nothing, a report of it all."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.sealed import choosers, distort, ground, table
from benchmarks.sealed import suite as sealed
from benchmarks.sealed.choosers import FAIR, Ours, chooser, roster
from benchmarks.sealed.families import FAMILIES, SITES, networks
from benchmarks.sealed.ground import Spec, made, rng_of, tensor
from benchmarks.sealed.play import DrawnWorld, difference, play
from benchmarks.sealed.rounds import Pages, Paths, times_ms
from configtron.learner import POLICIES, PREFERRED
from configtron.model.errors import BadInput
from configtron.model.grid import Grid, live_grid
from tests.support import ROOT

SEED, SMALL = 5, 24
GRID = live_grid()
FEW = (
    Spec("rounds 1, quick", "rounds", 1000, 1, networks=SMALL),
    Spec("measured, quick", "measured", 600, interval=50),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sealed")


@pytest.fixture(scope="module")
def played(folder: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Constants and learners on two small worlds."""
    rows = ("default", "static", "cell_optimum", "mab_nc", "linucb", "configtron")
    return {spec.name: {row: play(chooser(row, here), here) for row in rows}
            for spec in FEW for here in [made(spec, SEED, folder)]}  # fmt: skip


def test_a_seed_is_the_operating_systems_and_stays_with_its_folder(tmp_path: Path) -> None:
    seeds = {sealed.fresh(None, tmp_path / str(at))[0] for at in range(20)}
    assert len(seeds) == 20
    kept = sealed.fresh(None, tmp_path / "0")
    assert kept == sealed.fresh(kept[0], tmp_path / "0") == sealed.fresh(None, tmp_path / "0")
    assert sealed.fresh(7, tmp_path / "seven")[0] == 7
    with pytest.raises(BadInput, match="name another folder"):
        sealed.fresh(8, tmp_path / "seven")


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_worlds_are_their_seeds(family: str) -> None:
    one, again, other = (tensor(family, seed, 1, GRID, SITES[:3], 12) for seed in (3, 3, 4))
    assert np.array_equal(one.median_ms, again.median_ms)
    assert not np.array_equal(one.median_ms, other.median_ms)
    assert not np.array_equal(one.median_ms, tensor(family, 3, 2, GRID, SITES[:3], 12).median_ms)
    assert one.median_ms.shape == (12, 168, 3) and (one.median_ms > 0).all()


def test_nothing_of_the_formula_is_in_the_families() -> None:
    folder = ROOT / "benchmarks" / "sealed"
    for name in ("families.py", "rounds.py", "distort.py"):
        text = (folder / name).read_text()
        assert "analytic import" not in text and "learner.features" not in text and "sim.conditions" not in text


def test_the_best_static_of_classes_is_default_and_null_has_nothing_to_gain() -> None:
    here = tensor("classes", 3, 1, GRID, SITES, 120)
    mean = here.median_ms.mean(axis=(0, 2), dtype=np.float64)
    assert int(mean.argmin()) == GRID.default
    gain = 1.0 - here.best_ms / here.median_ms[:, GRID.default]
    assert np.median(gain) > 0.1 and (here.median_ms > 5 * here.median_ms[:, [GRID.default]]).any()
    none = tensor("null", 3, 1, GRID, SITES, 120)
    default = none.median_ms[:, [GRID.default]]
    assert np.array_equal(none.best_ms, default[:, 0])
    broken = np.any(none.median_ms > 5 * default, axis=(0, 2))
    assert 0 < broken.sum() <= 17 and not broken[GRID.default]


@pytest.mark.slow
def test_a_page_over_rounds_does_what_networks_do() -> None:
    page = Pages(np.array([[10.0, 60.0, 200.0]]), np.array([[1.0, 5.0, 20.0]]), np.array([0.05]), np.array([2]))

    def mean(rate: float, rtt_s: float, loss: float, buffer: float) -> Any:
        column = np.ones(40)
        paths = Paths(rate * column, rtt_s * column, loss * column, buffer * column, 2000.0 * column)
        return times_ms(np.random.default_rng(1), paths, page, GRID).mean(axis=(0, 2))

    usual, far = mean(2000, 0.05, 0, 100), mean(2000, 0.2, 0, 100)
    lossy, slow = mean(2000, 0.05, 0.03, 100), mean(200, 0.05, 0, 10)
    for worse in (far, lossy, slow):
        assert (worse > usual).all()
    assert usual[GRID.default] > 1e3 * 270 / 2000, "nothing is faster than the path"
    windows, control = GRID.column("initcwnd"), GRID.column("tcp_congestion_control")
    plain = (control == 0) & (GRID.column("http_version") == 0) & (GRID.column("pacing") == 0)
    rising = [far[plain & (windows == at)].mean() for at in range(3)]
    assert rising == sorted(rising, reverse=True), "1, 4 and 10 segments on a long path"
    assert lossy[control == 3].mean() < lossy[control == 1].mean(), "bbr does not heed single losses"


def test_networks_differ_and_are_possible() -> None:
    kbps, rtt_ms, loss = networks(np.random.default_rng(1), 400)
    assert (kbps > 0).all() and (rtt_ms > 0).all() and ((loss >= 0) & (loss <= 0.08)).all()
    assert np.corrcoef(np.log(kbps), np.log(rtt_ms))[0, 1] < -0.3 and 0.1 < (loss > 0).mean() < 0.5


@pytest.mark.parametrize("kind", distort.DISTORTIONS)
def test_a_distortion_is_what_it_says(kind: str) -> None:
    here = tensor("forest", 3, 1, GRID, SITES, 20)
    n = 6000
    bent, sessions, scale, instead = distort.world(kind, here, n, np.random.default_rng(2))
    reported = ~np.isnan(instead)
    off = np.std(np.log(sessions.seen.rtt_ms / bent.rtt_ms[sessions.condition]))
    assert off == pytest.approx(0.6, rel=0.1) if kind == "wrong" else kind == "stale" or off < 0.12
    if kind == "bots":
        assert 0.03 < reported.mean() < 0.07 and 0.08 < (reported | (scale > 4)).mean() < 0.14
        assert len(set(sessions.seen.prefix[reported].tolist())) < 0.3 * len(sessions.seen.prefixes)
    elif kind == "clocks":
        assert reported.mean() == pytest.approx(0.1, abs=0.02) and instead[reported].max() > 1e6
    else:
        assert not reported.any()
    if kind == "tails":
        assert 0.03 < (scale > 3).mean() < 0.1
    if kind == "diurnal":
        assert np.median(scale[n // 8 : n // 6]) > 1.1 * np.median(scale[: n // 20])
    if kind == "stale":
        late = slice(2 * n // 3, n)
        wrong = np.abs(np.log(sessions.seen.rtt_ms / bent.rtt_ms[sessions.condition]))[late] > 0.5
        assert 0.15 < wrong.mean() < 0.6
    if kind == "missing":
        same = bent.median_ms == bent.median_ms[:, [GRID.default]]
        assert 0.12 < same.mean() < 0.2


def test_reports_are_learned_from_but_not_judged(folder: Path) -> None:
    here = made(FEW[1], SEED, folder)
    wrong = replace(here, instead=np.ones(len(here.sessions)))
    assert play(chooser("static", here), here)["excess_ms"] == play(chooser("static", wrong), wrong)["excess_ms"]
    assert play(chooser("mab_nc", here), here)["excess_ms"] != play(chooser("mab_nc", wrong), wrong)["excess_ms"]


def test_everybody_updates_as_often(folder: Path) -> None:
    here = made(FEW[1], SEED, folder)
    ours = Ours("linucb", here, warm=False)
    play(ours, here)
    assert ours.made.updates_ == len(here.sessions) // here.interval


@pytest.mark.slow
def test_constants_win_nothing(played: dict[str, dict[str, dict[str, Any]]]) -> None:
    for rows in played.values():
        assert rows["default"]["first_over_default"] == 0.0 and rows["default"]["worse"] == 0.0
        assert rows["default"]["configurations"] == rows["static"]["configurations"] == 1
        assert rows["default"]["excess_ms"] > 2 * rows["linucb"]["excess_ms"], (
            "a policy that learns is ahead of one that does not"
        )
        assert rows["cell_optimum"]["excess_ms"] < rows["static"]["excess_ms"] < rows["default"]["excess_ms"]
    text = table.ahead("default", played)
    assert "on 0 of 2 worlds" in text and "behind on: rounds 1, quick" in text and "measured, quick" in text
    assert table.recommended(played) not in ("default", "static", "cell_optimum")
    assert "at most half of" in table.halved("default", played) and "on 0 of 2" in table.halved("default", played)


@pytest.mark.slow
def test_a_winner_is_reported_to_win_and_every_figure_is_there(played: dict[str, dict[str, dict[str, Any]]]) -> None:
    assert table.ahead("cell_optimum", played).startswith("`cell_optimum` is ahead of every learner on 2 of 2 worlds")
    text = table.page(played, "title", ("linucb",))
    for name, rows in played.items():
        assert f"### {name}" in text
        for row, one in rows.items():
            assert f"| {row} | {one['excess_ms']:.0f} |" in text
    assert "How much there is to gain" in text and "`linucb` is ahead" in text
    assert "was played on no world" in table.verdicts(played, ("thompson",))


def test_a_difference_is_paired() -> None:
    one = {"by_prefix": [10.0, 20.0, 30.0], "of_prefix": [1, 2, 3]}
    other = {"by_prefix": [9.0, 18.0, 27.0], "of_prefix": [1, 2, 3]}
    assert difference(one, other) == pytest.approx((1.0, 1.0, 1.0))
    assert difference(other, one)[0] == pytest.approx(-1.0)


def test_the_roster_has_everybody() -> None:
    rows = roster()
    assert {"default", "static", PREFERRED, f"{PREFERRED}, warm", "linucb", "mab_nc", *choosers.THEIRS} <= set(rows)
    assert {name for name in POLICIES if name.startswith("configtron")} <= set(rows) and FAIR in rows
    assert "configtron, warm" not in rows, "a warm start makes no difference to it"


@pytest.mark.slow
@pytest.mark.parametrize("row", choosers.THEIRS)
def test_other_libraries_play_and_learn(row: str, folder: Path) -> None:
    module = {"vw": "vowpalwabbit"}.get(row.split()[0], row.split()[0])
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is an extra")
    here = made(FEW[1], SEED, folder)
    found = play(chooser(row, here), here)
    assert found["configurations"] > 1
    assert found["last_half_ms"] < play(chooser("default", here), here)["last_half_ms"]


def test_a_run_is_resumed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--quick", "--seed", "5", "--folder", str(tmp_path), "--only", "measured", "--policy", "default"]
    report, document = tmp_path / "report.md", tmp_path / "learn.md"
    document.write_text(f"# Title\n{sealed.BEGIN}\nold\n{sealed.END}\nafter\n")
    assert sealed.main([*words, "-o", str(report), "--docs", str(document), "-j", "1"]) == 0
    assert "seed 5" in report.read_text() and "commit" in report.read_text() and "### measured" in report.read_text()
    text = document.read_text()
    assert text.startswith("# Title\n") and text.endswith(f"{sealed.END}\nafter\n") and "old" not in text
    monkeypatch.setattr(sealed, "perform", lambda task: pytest.fail("it was done before"))
    assert sealed.main([*words, "-o", str(report), "-j", "1"]) == 0


@pytest.mark.slow
def test_a_run_takes_several_processes(tmp_path: Path) -> None:
    words = ["-m", "benchmarks.sealed", "--quick", "--only", "measured", "--folder", str(tmp_path), "-j", "2"]
    rows = ["--policy", "default", "--policy", "static", "--candidate", "default"]
    done = subprocess.run([sys.executable, *words, *rows], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "2/2 rows, 0 min left" in done.stderr and "| static |" in done.stdout
    seed = json.loads((tmp_path / sealed.RUN).read_text())["seed"]
    assert f"seed {seed}" in done.stdout and f"seed {seed}" in done.stderr


def test_what_cannot_be_played_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1,2\n")
    words = ["--quick", "--seed", "5", "--folder", str(tmp_path / "run"), "--only", "bad.csv", "--world", str(bad)]
    assert sealed.main([*words, "--policy", "default", "-j", "1"]) == 1
    out, err = capsys.readouterr()
    assert "bad.csv" in out and "the header lacks" in out and "FAILED" in err and "Traceback" not in err
    with pytest.raises(BadInput, match="no lines"):
        sealed.into(bad, "text")


def test_a_brought_world_is_played(tmp_path: Path) -> None:
    file = ROOT / "fixtures" / "worlds" / "versions.csv"
    here = made(Spec(file.name, "file", 300, path=str(file)), SEED, tmp_path)
    found = play(chooser("static", here), here)
    assert found["sessions"] == 300 and found["excess_ms"] < found["default_ms"] and here.warm is None
    assert isinstance(here, DrawnWorld) and isinstance(here.tensor.grid, Grid)


@pytest.mark.slow
def test_worlds_are_kept_as_files_that_can_be_played_again(folder: Path) -> None:
    made(FEW[0], SEED, folder)
    assert sorted(path.name for path in (folder / "worlds").glob("*.npz"))
    again = ground.kept(folder, "rounds", SEED, 1, GRID, SITES, SMALL)
    assert np.array_equal(again.median_ms, tensor("rounds", SEED, 1, GRID, SITES, SMALL).median_ms)
    assert rng_of(1, "a").random() == rng_of(1, "a").random() != rng_of(1, "b").random()


def test_a_row_is_kept_whole_or_not_at_all(folder: Path, tmp_path: Path) -> None:
    task = (FEW[1], "default", SEED, tmp_path)
    assert sealed.perform(task) == "" and not list(tmp_path.glob("*.part"))
    kept = json.loads(sealed.file_of(task).read_text())
    assert kept["row"] == "default" and kept["found"]["sessions"] == 600
