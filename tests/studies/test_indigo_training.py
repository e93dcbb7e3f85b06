# SPDX-License-Identifier: MIT
"""`learn indigo` on paths in pure Python: rounds, folders, kills between any two writes; the lab in test_indigo_lab."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.schemes.indigo_network import IndigoWeights
from configtron.model.errors import BadInput, Refused
from configtron.service.campaign.runs import locked
from configtron.service.progress import Event, StepProgress
from configtron.studies.indigo import training
from configtron.studies.indigo.training import IndigoOptions, show_indigo, train_indigo
from configtron.studies.indigo.training_flows import (
    FlowFound,
    FlowOrder,
    RunFlows,
    arrays_bytes,
    arrays_of,
    found_bytes,
    found_of,
    orders_of,
)
from configtron.studies.indigo.training_paths import on_paths

FEW = 3


class Killed(BaseException):
    """The process is gone."""


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> IndigoOptions:
    """A training that ended, and its options."""
    found = IndigoOptions(tmp_path_factory.mktemp("indigo") / "whole", FEW, 1, 7, True)
    train_indigo(found, make_flows=on_paths)
    return found


def weights_file(folder: Path) -> bytes:
    return (folder / "indigo.npz").read_bytes()


@pytest.mark.slow
def test_a_training_shows_windows_and_a_row_a_round(options: IndigoOptions) -> None:
    found = show_indigo(options.folder)
    assert (found.seed, found.rounds, found.weights.hidden.shape) == (7, FEW, (32, 128))
    # 3 Mbit/s x 20 ms and 4 x 40 are 5 and 13.3 packets, and the one at the bottleneck
    assert [found.windows[f"emulated:{link}/0/300"] for link in ("3/10", "4/20")] == pytest.approx([6, 14.3], abs=1)
    assert [row["round"] for row in found.rows] == list(range(FEW))
    assert found.rows[0]["driver"] == "expert" and found.rows[0]["trained_agreement"] == 1.0
    assert all(row["driver"] == "learner" and 0 <= row["trained_agreement"] < 1 for row in found.rows[1:])  # type: ignore[operator]
    assert "calibrated_distance" in found.rows[-1] and "calibrated_distance" not in found.rows[0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes_and_another_gives_others(options: IndigoOptions, tmp_path: Path) -> None:
    for name, seed in (("again", 7), ("other", 8)):
        train_indigo(replace(options, folder=tmp_path / name, seed=seed), make_flows=on_paths)
    assert weights_file(tmp_path / "again") == weights_file(options.folder) != weights_file(tmp_path / "other")


@pytest.mark.slow
def test_a_training_that_is_killed_anywhere_ends_in_the_same_bytes(
    options: IndigoOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies before each of its writes becomes a file, once, and is started anew each time."""
    folder, died = tmp_path / "killed", set[str]()
    written = Path.rename

    def rename(path: Path, to: Path) -> Path:
        if path.parent == folder and (place := f"{to.name} {len(list(folder.glob('round*')))}") not in died:
            died.add(place)
            raise Killed
        return written(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    starts = 0
    while not (folder / "indigo.npz").exists():
        starts += 1
        try:
            train_indigo(replace(options, folder=folder), make_flows=on_paths)
        except Killed:
            continue
    # a start ended in the first search, others within the rounds, before and after a round's flows were stored
    assert starts == len(died) + 1 >= 2 * FEW + 2
    assert weights_file(folder) == weights_file(options.folder)


def test_what_has_ended_runs_no_flow(options: IndigoOptions) -> None:
    def none() -> RunFlows:
        raise AssertionError("flows were asked for")

    before = weights_file(options.folder)
    assert train_indigo(options, make_flows=none).rows == show_indigo(options.folder).rows
    assert weights_file(options.folder) == before


def test_another_training_in_the_folder_is_refused(options: IndigoOptions) -> None:
    others = {"seed 7": replace(options, seed=8), "rounds 3": replace(options, rounds=FEW + 1),
              "lab-rounds 1": replace(options, lab_rounds=2), "smoke True": replace(options, smoke=False)}  # fmt: skip
    for there, other in others.items():
        with pytest.raises(BadInput, match=f"with {there} is there"):
            train_indigo(other, make_flows=on_paths)
    with locked(options.folder, 1), pytest.raises(Refused):
        train_indigo(options, make_flows=on_paths)


def begun(options: IndigoOptions, folder: Path) -> IndigoOptions:
    """A training that was killed after the flows of its first round, in a folder of its own."""
    shutil.copytree(options.folder, folder)
    for name in ("state.npz", "indigo.npz", "round-001.npz", "round-002.npz"):
        (folder / name).unlink()
    return replace(options, folder=folder)


@pytest.mark.slow
def test_another_seed_is_refused_before_a_round_has_ended(options: IndigoOptions, tmp_path: Path) -> None:
    mine = begun(options, tmp_path / "begun")
    with pytest.raises(BadInput, match="with seed 7 is there"):
        train_indigo(replace(mine, seed=8), make_flows=on_paths)
    train_indigo(mine, make_flows=on_paths)
    assert weights_file(mine.folder) == weights_file(options.folder)


def test_a_folder_without_noted_options_goes_on_by_its_state(options: IndigoOptions, tmp_path: Path) -> None:
    shutil.copytree(options.folder, tmp_path / "earlier")
    (tmp_path / "earlier" / "training.json").unlink()
    mine = replace(options, folder=tmp_path / "earlier")
    with pytest.raises(BadInput, match="with seed 7 is there"):
        train_indigo(replace(mine, seed=8), make_flows=on_paths)
    assert train_indigo(mine, make_flows=on_paths).seed == 7


@pytest.mark.parametrize(
    "text", ["", "[1]", "{", '{"seed": 7}', '{"x": {}}', '{"x": {"a": 1}}', '{"x": {"4": "b"}}', '{"x": {"4": NaN}}']
)
def test_damaged_windows_or_options_are_named(options: IndigoOptions, tmp_path: Path, text: str) -> None:
    for name in ("windows.json", "training.json"):
        mine = begun(options, tmp_path / name / "folder")
        (mine.folder / name).write_text(text)
        with pytest.raises(BadInput, match=rf"{name}: damaged \(.*train in another folder"):
            train_indigo(mine, make_flows=on_paths)


def test_a_damaged_round_or_state_is_named(options: IndigoOptions, tmp_path: Path) -> None:
    whole = (options.folder / "state.npz").read_bytes()
    for number, data in enumerate((b"", whole[:5000], weights_file(options.folder), whole.replace(b"bias", b"bies"))):
        folder = tmp_path / str(number)
        shutil.copytree(options.folder, folder)
        (folder / "state.npz").write_bytes(data)
        with pytest.raises(BadInput, match=r"state.npz: damaged"):
            train_indigo(replace(options, folder=folder), make_flows=on_paths)
    mine = begun(options, tmp_path / "round")
    (mine.folder / "round-000.npz").write_bytes(weights_file(options.folder))
    with pytest.raises(BadInput, match=r"round-000.npz: damaged"):
        train_indigo(mine, make_flows=on_paths)


def test_weights_of_other_shapes_or_without_numbers_are_refused(options: IndigoOptions, tmp_path: Path) -> None:
    arrays = arrays_of(weights_file(options.folder))
    for name, part in {
        "hidden": np.zeros((2, 2)),
        "bias": np.full(128, np.nan),
        "readout_bias": np.zeros(5, int),
    }.items():
        (tmp_path / "indigo.npz").write_bytes(arrays_bytes({**arrays, name: part}))
        with pytest.raises(BadInput, match=rf"indigo.npz: damaged \(no weights: {name}"):
            show_indigo(tmp_path)


@pytest.mark.slow
def test_progress_counts_links_then_rounds(options: IndigoOptions, tmp_path: Path) -> None:
    events = list[Event]()
    train_indigo(replace(options, folder=tmp_path / "new", rounds=1, lab_rounds=0), events.append, on_paths)
    steps = [(one.what, one.done, one.total) for one in events if isinstance(one, StepProgress)]
    assert steps == [("best windows", 0, 4), ("best windows", 4, 4), ("indigo", 0, 1), ("indigo", 1, 1)]


@pytest.mark.slow
def test_the_network_drives_with_the_weights_of_its_round(options: IndigoOptions, tmp_path: Path) -> None:
    given = list[tuple[str, IndigoWeights | None]]()

    def noted() -> RunFlows:
        run = on_paths()

        def flows(orders: Sequence[FlowOrder], weights: IndigoWeights | None) -> list[FlowFound]:
            given.append((orders[0].kind, weights))
            return run(orders, weights)

        return flows

    found = train_indigo(replace(options, folder=tmp_path / "noted", rounds=2, lab_rounds=2), make_flows=noted)
    kinds = [kind for kind, _ in given]
    assert kinds == ["search", "expert", "learned", "learned"]
    driving, trying = (weights for kind, weights in given if kind == "learned")
    assert driving and trying and (driving.readout != trying.readout).any()
    assert (trying.readout == found.weights.readout).all()


def test_files_of_flows_come_back_and_others_are_refused() -> None:
    found = [
        FlowFound("link:1", np.ones((3, 5), np.float32), {}),
        FlowFound("x", np.zeros((0, 5), np.float32), {4: 0.5}),
    ]
    data = found_bytes(found)
    again = found_of(data)
    assert [(one.link, one.tried) for one in again] == [("link:1", {}), ("x", {4: 0.5})]
    assert (again[0].steps == found[0].steps).all() and found_bytes(again) == data
    for bad in (b"", b"PK\3\4", data[:90]):
        with pytest.raises(BadInput):
            found_of(bad)
    with pytest.raises(BadInput):
        orders_of('[{"kind": 1}]')


def test_a_folder_without_a_training_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="learn indigo train --folder"):
        show_indigo(tmp_path)
    (tmp_path / training.WEIGHTS_FILE).write_bytes(b"nothing")
    with pytest.raises(BadInput):
        show_indigo(tmp_path)
