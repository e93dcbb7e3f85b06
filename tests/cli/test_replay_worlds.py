# SPDX-License-Identifier: MIT
"""`configtron replay sessions --world`: worlds of the user's own, several at once, written out and played again."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.db.replays import Replays
from configtron.model.errors import DONE
from configtron.studies.sim import simulation
from configtron.studies.sim.session_job import Job, begin_job
from tests.cli.test_replay_sessions import declined
from tests.support import ROOT
from tests.support.learn_command import Typed, rows, shown

EXAMPLE = ROOT / "fixtures" / "worlds" / "versions.csv"
FEW = ("--classes", 5, "--update", 10)


@pytest.mark.slow
def test_a_row_a_world_and_policy(typed: Typed) -> None:
    files = ("--world", EXAMPLE, "--world", "small.npz", "--policy", "default", "--policy", "static")
    code, out, err = typed("replay", "sessions", *files, "--sessions", 300, *FEW, "-f", "jsonl")
    made = rows(out)
    assert code == DONE and [(row["world"], row["policy"]) for row in made] == [
        (str(EXAMPLE), "default"), (str(EXAMPLE), "static"), ("small.npz", "default"), ("small.npz", "static"),
    ]  # fmt: skip
    assert all(row["sessions"] == 300 for row in made)
    assert made[1]["excess_ms"]["value"] < made[0]["excess_ms"]["value"]
    assert "versions.csv: 1 cells without one load as under Default" in err
    code, out, _ = typed("replay", "sessions", "--world", "small.npz", "--policy", "default", "--sessions", 50)
    assert code == DONE and "small.npz" in out and "world" in out.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["npz", "csv"])
def test_what_is_written_plays_alike(typed: Typed, tmp_path: Path, form: str) -> None:
    made = ("--tensor", "small.npz", "--sessions", 400, "--seed", 3)
    code, out, err = typed("replay", "sessions", "--world-out", f"w.{form}", *made)
    assert code == DONE and out == "" and f"w.{form}" in err
    back = ("--source", "w.sessions.csv") if form == "csv" else ()
    how = ("--policy", "mab_nc", "--seed", 3, *FEW)
    worlds = ("--world", f"w.{form}", *back), made[:4]
    ours, before = (shown(typed, "replay", "sessions", *world, *how)[0] for world in worlds)
    assert ours.pop("world") == f"w.{form}" and ours["sessions"] == 400
    if form == "npz":
        assert ours == before
    assert ours["excess_ms"]["value"] == pytest.approx(before["excess_ms"]["value"], rel=0.2)


@pytest.mark.slow
def test_a_file_of_a_world_is_cut_or_taken_whole(typed: Typed) -> None:
    typed("replay", "sessions", "--world-out", "w.npz", "--tensor", "small.npz", "--sessions", 120)
    for asked, had in (((), 120), (("--sessions", 70), 70), (("--sessions", 500), 120)):
        (made,) = shown(typed, "replay", "sessions", "--world", "w.npz", "--policy", "default", *asked, *FEW)
        assert made["sessions"] == had


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--world", "absent.csv"), "absent.csv"),
        (("--world", "bad.csv"), "bad.csv: the header lacks"),
        (("--world", "small.npz", "--tensor", "analytic"), "leave --tensor out"),
        (("--world", "small.npz", "--rate", "3"), "leave --rate out"),
        (("--world", "small.npz", "--world", "small.npz", "--world-out", "x.npz"), "one world"),
        (("--world-out", "x.txt"), ".npz or .csv"),
        (("--world-out", "x.npz", "--policy", "default"), "leave --policy out"),
        (("--world-out", "no/such/x.npz", "--tensor", "small.npz", "--sessions", "5"), "no/such/x.npz"),
    ],
)
def test_what_cannot_be_is_one_line(typed: Typed, tmp_path: Path, words: tuple[str, ...], printed: str) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    declined(typed, printed, "replay", "sessions", *words)


def test_a_replay_begun_before_there_were_worlds_goes_on(typed: Typed, tmp_path: Path) -> None:
    options = simulation.SessionOptions(tensor="small.npz", count=60, classes=5)
    form = simulation.origins_of(options)[0].form()
    del form["world"], form["distort"]
    how = {"interval_s": 10.0, "delay_s": 5.0, "pops": "global", "batch": 50, "keep_log": False}
    with Replays(tmp_path / "l.db") as book:
        begin_job(book, Job(simulation.KIND, {"origin": form, "policies": ["default"], **how}, 1))
    (found,) = shown(typed, "replay", "sessions", "--resume")
    assert found["sessions"] == 60 and "world" not in found
