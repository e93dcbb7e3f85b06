# SPDX-License-Identifier: MIT
"""Indigo: `learn indigo` on paths in pure Python (rounds, folders, kills between any two writes), the gradient of its
network, the expert and the best window; flows in the lab's guest."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.schemes.indigo import Indigo
from configtron.lab.schemes.indigo_network import (
    ACTIONS,
    INPUTS,
    IndigoWeights,
    LearnedAction,
    StepState,
    network_inputs,
)
from configtron.model.errors import BadInput, Refused
from configtron.service.campaign.runs import locked
from configtron.service.progress import Event, StepProgress
from configtron.studies.indigo import training, training_flows
from configtron.studies.indigo.adam import AdamState, adam_step
from configtron.studies.indigo.lstm_gradient import SequenceBatch, drawn_weights, gradient, objective, scores
from configtron.studies.indigo.training import IndigoOptions, show_indigo, train_indigo
from configtron.studies.indigo.training_paths import on_paths
from configtron.studies.indigo.window_expert import ExpertAction, FixedWindow, NotedAction, expert_actions
from configtron.studies.indigo.window_search import best_window, next_windows
from tests.support.scripted_path import ScriptedPath, Starting, run

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
    def none() -> training_flows.RunFlows:
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
def test_another_seed_is_refused_before_a_round_has_ended_and_without_noted_options(
    options: IndigoOptions, tmp_path: Path
) -> None:
    mine = begun(options, tmp_path / "begun")
    shutil.copytree(options.folder, tmp_path / "earlier")
    (tmp_path / "earlier" / "training.json").unlink()
    for one in (mine, replace(options, folder=tmp_path / "earlier")):
        with pytest.raises(BadInput, match="with seed 7 is there"):
            train_indigo(replace(one, seed=8), make_flows=on_paths)
        assert train_indigo(one, make_flows=on_paths).seed == 7
    assert weights_file(mine.folder) == weights_file(options.folder)


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
    with pytest.raises(BadInput, match="learn indigo train --folder"):
        show_indigo(tmp_path)
    file, arrays = tmp_path / training.WEIGHTS_FILE, training_flows.arrays_of(weights_file(options.folder))
    file.write_bytes(b"nothing")
    with pytest.raises(BadInput):
        show_indigo(tmp_path)
    for name, part in (
        ("hidden", np.zeros((2, 2))), ("bias", np.full(128, np.nan)), ("readout_bias", np.zeros(5, int)),
    ):  # fmt: skip
        file.write_bytes(training_flows.arrays_bytes({**arrays, name: part}))
        with pytest.raises(BadInput, match=rf"indigo.npz: damaged \(no weights: {name}"):
            show_indigo(tmp_path)


@pytest.mark.slow
def test_the_network_drives_with_the_weights_of_its_round(options: IndigoOptions, tmp_path: Path) -> None:
    given, events = list[tuple[str, IndigoWeights | None]](), list[Event]()

    def noted() -> training_flows.RunFlows:
        run = on_paths()

        def flows(
            orders: Sequence[training_flows.FlowOrder], weights: IndigoWeights | None
        ) -> list[training_flows.FlowFound]:
            given.append((orders[0].kind, weights))
            return run(orders, weights)

        return flows

    mine = replace(options, folder=tmp_path / "noted", rounds=2, lab_rounds=2)
    found = train_indigo(mine, events.append, make_flows=noted)
    assert [kind for kind, _ in given] == ["search", "expert", "learned", "learned"]
    driving, trying = (weights for kind, weights in given if kind == "learned")
    assert driving and trying and (driving.readout != trying.readout).any()
    assert (trying.readout == found.weights.readout).all()
    steps = [(one.what, one.done, one.total) for one in events if isinstance(one, StepProgress)]
    assert steps == [("best windows", 0, 4), ("best windows", 4, 4), *(("indigo", at, 2) for at in range(3))]


def test_files_of_flows_come_back_and_others_are_refused() -> None:
    found = [training_flows.FlowFound("link:1", np.ones((3, 5), np.float32), {}),
             training_flows.FlowFound("x", np.zeros((0, 5), np.float32), {4: 0.5})]  # fmt: skip
    data = training_flows.found_bytes(found)
    again = training_flows.found_of(data)
    assert [(one.link, one.tried) for one in again] == [("link:1", {}), ("x", {4: 0.5})]
    assert (again[0].steps == found[0].steps).all() and training_flows.found_bytes(again) == data
    for bad in (b"", b"PK\3\4", data[:90]):
        with pytest.raises(BadInput):
            training_flows.found_of(bad)
    with pytest.raises(BadInput):
        training_flows.orders_of('[{"kind": 1}]')


# Of a central difference; its error is of the order of the step's square.
STEP = 1e-5


def weights_of(seed: int) -> IndigoWeights:
    """Weights of which none is zero."""
    rng = np.random.default_rng(seed)
    drawn = drawn_weights(rng, np.float64)
    return IndigoWeights(*(part + rng.normal(0, 0.2, part.shape) for part in drawn))


def batch_of(seed: int, steps: int = 5, count: int = 3) -> SequenceBatch:
    rng = np.random.default_rng(seed)
    counts = np.ones((steps, count), bool)
    counts[steps - 2 :, 0] = False
    return SequenceBatch(rng.normal(size=(steps, count, INPUTS)), rng.integers(0, len(ACTIONS), (steps, count)), counts)


def difference(weights: IndigoWeights, batch: SequenceBatch, part: int, at: tuple[int, ...]) -> float:
    values = []
    for sign in (1, -1):
        moved = [one.copy() for one in weights]
        moved[part][at] += sign * STEP
        values.append(objective(IndigoWeights(*moved), batch))
    return (values[0] - values[1]) / (2 * STEP)


@pytest.mark.parametrize(("steps", "every"), [(5, 97), pytest.param(4, 1, marks=pytest.mark.slow)])
def test_slopes_are_differences(steps: int, every: int) -> None:
    """Some of each part, or all 5541 of them, as many as Indigo has."""
    weights, batch = weights_of(4), batch_of(5, steps=steps, count=2)
    found = gradient(weights, batch).parts
    assert sum(part.size for part in found) == 5541
    for part, slopes in enumerate(found):
        for at in list(np.ndindex(*slopes.shape))[::every]:
            assert slopes[at] == pytest.approx(difference(weights, batch, part, at), rel=1e-4, abs=1e-8), (part, at)


def test_steps_that_are_not_there_count_for_nothing() -> None:
    weights, batch = weights_of(6), batch_of(7)
    other = batch._replace(actions=np.where(batch.counts, batch.actions, 0))
    assert (other.actions != batch.actions).any()
    both = [gradient(weights, one) for one in (batch, other)]
    assert both[0].loss == both[1].loss and both[0].agreement == both[1].agreement
    assert all((one == two).all() for one, two in zip(both[0].parts, both[1].parts, strict=True))


def test_a_flow_chooses_as_its_row_of_a_batch() -> None:
    """One step at a time with memory, beside whole sequences at once."""
    rng, weights = np.random.default_rng(8), weights_of(9)
    steps = np.column_stack([rng.uniform(0, 300, 40), rng.uniform(0, 100, (40, 2)), rng.uniform(2, 900, 40),
                             rng.integers(0, len(ACTIONS), 40)])  # fmt: skip
    whole = scores(weights, network_inputs(steps)[:, None])[:, 0].argmax(-1)
    choose = LearnedAction(weights)
    found = [choose(StepState(*row[:4].tolist(), int(row[4]))) for row in steps]
    assert found == whole.tolist() and len(set(found)) > 1
    again = LearnedAction(weights)
    without_memory = [LearnedAction(weights)(StepState(*row[:4].tolist(), int(row[4]))) for row in steps]
    assert without_memory != found and again(StepState(*steps[0, :4].tolist(), int(steps[0, 4]))) == found[0]


def test_inputs_distinguish_a_flow_by_its_window_and_its_last_action() -> None:
    one = network_inputs(np.array([10.0, 5.0, 5.0, 40.0, 1.0]))
    assert network_inputs(np.array([10.0, 5.0, 5.0, 80.0, 1.0]))[3] - one[3] == pytest.approx(1 / 4)
    assert one[4:].tolist() == [0, 1, 0, 0, 0] and np.isfinite(network_inputs(np.zeros(5) + [0, 0, 0, 2, 0])).all()


def test_adam_takes_the_steps_that_its_paper_has() -> None:
    """The first step is of the size of the rate, whatever the slope; a constant slope keeps it so."""
    weights = IndigoWeights(*(np.zeros_like(part) for part in weights_of(1)))
    slopes = IndigoWeights(*(np.full_like(part, 1e-4 * (-1) ** at) for at, part in enumerate(weights)))
    state = AdamState.begun(weights)
    for steps in (1, 2, 3):
        weights, state = adam_step(weights, slopes, state, 0.01)
        for at, part in enumerate(weights):
            assert part == pytest.approx(np.full_like(part, -0.01 * steps * (-1) ** at), rel=1e-3)


def test_a_network_learns_what_needs_memory() -> None:
    """The action is the number that the first input had two steps before."""
    rng = np.random.default_rng(10)
    inputs = np.zeros((12, 30, INPUTS), np.float32)
    signs = rng.integers(0, 2, (12, 30))
    inputs[..., 0] = 2 * signs - 1
    actions = np.roll(signs, 2, axis=0)
    counts = np.ones((12, 30), bool)
    counts[:2] = False
    batch, weights = SequenceBatch(inputs, actions, counts), drawn_weights(rng)
    state, first = AdamState.begun(weights), gradient(weights, batch)
    for _ in range(120):
        weights, state = adam_step(weights, gradient(weights, batch).parts, state, 0.02)
    last = gradient(weights, batch)
    assert first.loss > log(2) > 0.2 > last.loss and last.agreement > 0.97 > first.agreement


def searched(power: dict[int, float] | None, path: ScriptedPath | None = None) -> tuple[int, int]:
    """The best window of a given curve, or of a path; and how many windows were run."""
    tried: dict[int, float] = {}
    while windows := next_windows(tried):
        assert not set(windows) & set(tried)
        tried.update({one: power[one] if power else power_on(path, one) for one in windows})
    return best_window(tried), len(tried)


def power_on(path: ScriptedPath | None, window: int) -> float:
    assert path
    log = run(path, [Starting(FixedWindow(window))], 1.5)[0]
    late = np.percentile([one.rtt_s for one in log.packets if one.acknowledged > 0.7], 95)
    return log.between(0.7, 1.5).mbit / (late - path.delay_s)


@pytest.mark.parametrize("best", [2, 3, 9, 83, 1000, 5000])
def test_the_peak_of_a_curve_is_found(best: int) -> None:
    found, runs = searched({one: min(one / best, best / one) for one in range(2, 5001)})
    assert abs(found - best) <= max(1, 0.05 * best) and runs <= 30


@pytest.mark.parametrize(("mbit", "delay_s"), [(4.0, 0.02), (8.0, 0.01), (2.0, 0.04)])
def test_the_best_window_of_a_path_is_what_it_holds(mbit: float, delay_s: float) -> None:
    """Bandwidth times round trip, and the packet at the bottleneck: from the path's figures, which the search lacks."""
    found, _ = searched(None, ScriptedPath(mbit, delay_s, 300))
    holds = mbit * 1e6 * 2 * delay_s / 8 / 1500 + 1
    assert found == pytest.approx(holds, rel=0.1, abs=1.1)


def test_a_short_queue_hides_no_peak() -> None:
    """Beyond path and queue (661 and 94 packets) a window only loses packets: the power no longer falls."""
    power = {one: min(one, 661) / max(661, min(one, 755)) for one in range(2, 5001)}
    found, runs = searched(power)
    assert found == pytest.approx(661, rel=0.05) and runs <= 30


def test_the_expert_takes_the_action_that_comes_nearest() -> None:
    windows = np.array([12.0, 90.0, 100.0, 104.0, 105.0, 106.0, 240.0, 55.0, 4.0, 2.0])
    assert expert_actions(windows, 100.0).tolist() == [4, 3, 2, 2, 2, 1, 0, 4, 3, 3]
    # by the definition, one action at a time
    for window, action in zip(windows, expert_actions(windows, 100.0), strict=True):
        after = [abs(min(max(one(window), 2.0), 5000.0) - 100.0) for one in ACTIONS]
        assert after[action] == min(after)


def test_the_expert_brings_a_flow_to_the_best_window_and_its_states_are_noted() -> None:
    noted = NotedAction(ExpertAction(40.0))
    log = run(ScriptedPath(8.0, 0.03, 300), [Starting(Indigo(noted))], 3.0)[0]
    steps = noted.steps()
    assert abs(steps[-1, 3] - 40) <= 5 and (steps[-20:, 4] == 2).all()
    assert log.between(1, 3).mbit == pytest.approx(8.0, rel=0.05)
    # one step each 10 ms at most, and at this rate at least each 12 ms
    assert 3.0 / 0.012 * 0.9 < len(steps) <= 300


def test_a_step_has_the_rates_and_the_delay_of_its_path() -> None:
    """A window of twice what the path holds: rate, sending rate, and a queue of half the round trip."""
    noted = NotedAction(lambda state: 2)
    scheme = Indigo(noted)
    scheme.window = 80.0
    path = ScriptedPath(8.0, 0.03, 300)
    run(path, [Starting(scheme)], 3.0)
    last = noted.steps()[-50:].mean(0)
    assert last[1] == pytest.approx(8.0, rel=0.03) and last[2] == pytest.approx(8.0, rel=0.05)
    # 80 packets take 120 ms, of which 60 are the path's and 1.5 the packet's own
    assert last[0] == pytest.approx(80 * 1.5 - 60 - 1.5, abs=1.6) and last[3] == 80.0


LINK = "emulated:4/20/0/300"
# 4 Mbit/s times 40 ms, and half of the packet at the bottleneck, which is on its way or not.
HOLDS = 4e6 * 0.04 / 8 / 1500 + 0.5


@pytest.mark.lab
@pytest.mark.root
def test_the_lab_and_the_path_agree() -> None:
    run, weights = training_flows.in_guest(), drawn_weights(np.random.default_rng(1))
    orders = [training_flows.FlowOrder("search", LINK, 1.0, 1), training_flows.FlowOrder("expert", LINK, 2.0, 1, 20.0),
              training_flows.FlowOrder("learned", LINK, 1.0, 1)]  # fmt: skip
    lab, path = run(orders, weights), on_paths()(orders, weights)
    assert [best_window(found[0].tried) for found in (lab, path)] == pytest.approx([HOLDS, HOLDS], abs=1.0)
    for expert in (lab[1].steps, path[1].steps):
        later = expert[len(expert) // 2 :]
        # ten packets and ten more: six too many for the link, which is full then
        assert (later[:, 3] == 20).all() and later[:, 1].mean() == pytest.approx(4.0, rel=0.12)
    assert 0.8 < len(lab[1].steps) / len(path[1].steps) < 1.25 and len(lab[2].steps) > 10
    # Virtual time, and chance by the orders' seeds. A boot's flows share its clock, so that all orders are repeated.
    assert training_flows.found_bytes(run(orders, weights)) == training_flows.found_bytes(lab)
