# SPDX-License-Identifier: MIT
"""`learn indigo`: training of the scheme `indigo` in the lab, and what a training came to.

A training owns a folder: its options (`training.json`), the best windows as they are found (`windows.json`), each
round's flows (`round-007.npz`), the weights and all that the next round depends on (`state.npz`), and at the end
`indigo.npz`. Each is renamed into place when it is whole. A training that was killed goes on where it was, by the same
command, and comes to the same bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from configtron.lab.schemes.indigo_network import WEIGHTS_FILE, IndigoWeights
from configtron.model.bounds import check_number, check_text, check_texts
from configtron.model.errors import BadInput
from configtron.model.records import Json, canonical
from configtron.model.samples import digest
from configtron.service.campaign.runs import locked
from configtron.service.progress import Progress, StepProgress, unheard
from configtron.studies.indigo.adam import AdamState
from configtron.studies.indigo.imitation import Driven, Learned, mean_of, rate_of, taught
from configtron.studies.indigo.lstm_gradient import drawn_weights
from configtron.studies.indigo.training_flows import (
    FlowFound,
    FlowOrder,
    RunFlows,
    arrays_bytes,
    arrays_of,
    found_bytes,
    found_of,
    in_guest,
    weights_in,
    weights_of,
)
from configtron.studies.indigo.training_links import TrainingLink, links, links_of_round, other_links
from configtron.studies.indigo.training_paths import on_paths
from configtron.studies.indigo.window_search import best_window

OPTIONS, WINDOWS, STATE = "training.json", "windows.json", "state.npz"
Read = TypeVar("Read")
# What makes one training another.
SAME = ("seed", "rounds", "lab_rounds", "smoke")
MOST_ROUNDS = 1000
# The links that are not learned from are tried after every so many rounds, and after the last.
TRY_EVERY = 5
# A boot costs as much as the search over a slow link; a killed training searches so many anew at most.
SEARCHED_AT_ONCE = 4
# Bits of a flow's seed: what netem's generator takes.
SEED_DIGITS = 12


@dataclass(frozen=True, slots=True)
class IndigoOptions:
    """folder: of the training, which goes on if it has begun; rounds: of DAgger, the last `lab_rounds` of them in the
    lab, those before on paths in pure Python; seed: of weights, batches and chance on links; smoke: on two links only,
    which shows the way and trains nothing of use."""

    folder: Path
    rounds: int = 40
    lab_rounds: int = 3
    seed: int = 1
    smoke: bool = False

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("rounds", self.rounds, 1, MOST_ROUNDS, whole=True)
        check_number("lab_rounds", self.lab_rounds, 0, self.rounds, whole=True)
        check_number("seed", self.seed, 0, 2**32 - 1, whole=True)


class IndigoTrained(NamedTuple):
    """weights: of the scheme; seed, rounds: of the training; windows: the best one by link; rows: a round each."""

    weights: IndigoWeights
    seed: int
    rounds: int
    windows: dict[str, int]
    rows: list[dict[str, Json]]


class _State(NamedTuple):
    """What the next round depends on, and the rows so far."""

    learned: Learned
    rows: list[dict[str, Json]]


def train_indigo(
    options: IndigoOptions, progress: Progress = unheard, make_flows: Callable[[], RunFlows] = in_guest
) -> IndigoTrained:
    """Train, or go on with a training. Errors: `Missing` without the lab, `BadInput` for another training's folder."""
    with locked(options.folder, 1, "training"):
        return _Training(options, progress, make_flows).run()


def show_indigo(folder: Path | None = None) -> IndigoTrained:
    """Return what a training came to, or how the weights of this package were trained. Errors: `BadInput`."""
    if folder is None:
        return _trained_of(files("configtron.lab.schemes").joinpath(WEIGHTS_FILE).read_bytes())
    check_text("folder", folder)
    done, begun = folder / WEIGHTS_FILE, folder / STATE
    if not done.exists() and not begun.exists():
        raise BadInput(f"{folder}: no training has ended a round there: configtron learn indigo train --folder FOLDER")
    path = done if done.exists() else begun
    return _whole(path, lambda: _trained_of(path.read_bytes()))


def _whole(path: Path, read: Callable[[], Read]) -> Read:
    """Return what `read` makes of a file. Errors: `BadInput` for one that is damaged, with its name and the way on."""
    try:
        return read()
    except (BadInput, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"{path}: damaged ({why}); train in another folder") from error
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def _trained_of(data: bytes) -> IndigoTrained:
    about, weights = _about(data), weights_of(data)
    try:
        return IndigoTrained(weights, about["seed"], about["rounds"], about["windows"], about["rows"])
    except (KeyError, TypeError) as error:
        raise BadInput(f"weights without an account of their training: {error}") from error


def _about(data: bytes) -> Any:
    try:
        return json.loads(arrays_of(data)["about"].tobytes())
    except (KeyError, ValueError) as error:
        raise BadInput(f"weights without an account of their training: {error}") from error


def _state_of(data: bytes) -> _State:
    """Return a stored state. Errors: `BadInput`, `KeyError` for what is none."""
    about, arrays = _about(data), arrays_of(data)
    weights, means, squares = (
        IndigoWeights(*(part.astype(np.float32) for part in weights_in(arrays, prefix)))
        for prefix in ("", "mean_", "square_")
    )
    return _State(Learned(weights, AdamState(means, squares, about["steps"])), about["rows"])


class _Training:
    def __init__(self, options: IndigoOptions, progress: Progress, make_flows: Callable[[], RunFlows]) -> None:
        self._options, self._folder, self._progress = options, options.folder, progress
        self._make = make_flows
        self._run_flows: RunFlows | None = None
        self._windows: dict[str, dict[int, float]] = {}

    def _flows(self, orders: Sequence[FlowOrder], weights: IndigoWeights | None = None) -> list[FlowFound]:
        """Run flows; what runs them is made when the first are to run."""
        if self._run_flows is None:
            self._run_flows = self._make()
        return self._run_flows(orders, weights)

    def _in_lab(self, number: int) -> bool:
        return number >= self._options.rounds - self._options.lab_rounds

    def run(self) -> IndigoTrained:
        """Find windows, then the rounds that are missing."""
        self._begin()
        state = self._stored()
        self._find_windows()
        rounds = self._options.rounds
        self._report("indigo", len(state.rows), rounds, "rounds")
        for number in range(len(state.rows), rounds):
            state = self._round(number, state)
            _write(self._folder / STATE, self._bytes(state, with_adam=True))
            self._report("indigo", number + 1, rounds, "rounds")
        data = self._bytes(state, with_adam=False)
        _write(self._folder / WEIGHTS_FILE, data)
        return _trained_of(data)

    def _report(self, what: str, done: int, total: int, things: str) -> None:
        self._progress(StepProgress(done, total, what, things))

    def _begin(self) -> None:
        """Note the options of a training that begins. Errors: `BadInput` for another training's folder."""
        path, own = self._folder / OPTIONS, {name: getattr(self._options, name) for name in SAME}
        if path.exists():
            there = _whole(path, lambda: {name: json.loads(path.read_text())[name] for name in SAME})
        elif (self._folder / STATE).exists():
            # a folder of a version that noted them in the state alone
            there = _whole(self._folder / STATE, lambda: {name: _about(self._state_bytes())[name] for name in SAME})
        else:
            _write(path, canonical(own).encode())
            return
        if other := [f"{name.replace('_', '-')} {there[name]}" for name in SAME if there[name] != own[name]]:
            words = ", ".join(other)
            raise BadInput(f"{self._folder}: a training with {words} is there; go on with it, or name another folder")

    def _state_bytes(self) -> bytes:
        return (self._folder / STATE).read_bytes()

    def _stored(self) -> _State:
        """Return the last whole state; the first if there is none. Errors: `BadInput` for a damaged one."""
        if (self._folder / STATE).exists():
            return _whole(self._folder / STATE, lambda: _state_of(self._state_bytes()))
        weights = drawn_weights(np.random.default_rng(self._options.seed))
        return _State(Learned(weights, AdamState.begun(weights)), [])

    def _bytes(self, state: _State, *, with_adam: bool) -> bytes:
        about: dict[str, Json] = {
            "seed": self._options.seed, "rounds": self._options.rounds, "lab_rounds": self._options.lab_rounds,
            "smoke": self._options.smoke,
            "steps": state.learned.adam.steps,
            "windows": {link: int(self._best(link)) for link in self._windows}, "rows": list(state.rows),
        }  # fmt: skip
        arrays = {name: part.astype(np.float32) for name, part in state.learned.weights._asdict().items()}
        if with_adam:
            for prefix, parts in (("mean_", state.learned.adam.means), ("square_", state.learned.adam.squares)):
                arrays |= {prefix + name: part for name, part in parts._asdict().items()}
        return arrays_bytes(arrays | {"about": np.frombuffer(canonical(about).encode(), np.uint8)})

    def _find_windows(self) -> None:
        """Search the best window of each link that has none yet, a few at a time."""
        smoke = self._options.smoke
        path, every = self._folder / WINDOWS, [*links(smoke), *other_links(smoke)]
        if path.exists():
            self._windows = _whole(path, lambda: _windows_of(path.read_text()))
        self._report("best windows", len(self._windows), len(every), "links")
        waiting = [link for link in every if link.name not in self._windows]
        for at in range(0, len(waiting), SEARCHED_AT_ONCE):
            some = waiting[at : at + SEARCHED_AT_ONCE]
            orders = [FlowOrder("search", one.name, one.seconds, self._seed("search", one.name)) for one in some]
            self._windows |= {found.link: dict(found.tried) for found in self._flows(orders)}
            form: dict[str, Json] = {
                name: {str(one): power for one, power in tried.items()} for name, tried in self._windows.items()
            }
            _write(path, canonical(form).encode())
            self._report("best windows", len(self._windows), len(every), "links")

    def _best(self, link: str) -> float:
        return float(best_window(self._windows[link]))

    def _seed(self, *words: object) -> int:
        return int(digest(str(self._options.seed), *map(str, words))[:SEED_DIGITS], 16)

    def _round(self, number: int, state: _State) -> _State:
        """Drive flows, learn from all, try the other links now and then."""
        newest = self._driven(number, state.learned.weights)
        earlier = [flow for at in range(number) for flow in self._read(at)]
        rng = np.random.default_rng((self._options.seed, number))
        rate = rate_of(number, self._options.rounds)
        learned = taught(state.learned, newest, earlier or newest, rate, rng)
        row: dict[str, Json] = {
            "round": number, "driver": "learner" if number else "expert",
            "where": "lab" if self._in_lab(number) else "path", "flows": len(newest),
            "loss": round(learned.loss, 4), **_figures("trained", newest),
        }  # fmt: skip
        if (number + 1) % TRY_EVERY == 0 or number + 1 == self._options.rounds:
            tried = self._try(number, learned.weights)
            row |= _figures("untrained", tried["untrained"]) | _figures("calibrated", tried["calibrated"])
        return _State(learned, [*state.rows, row])

    def _driven(self, number: int, weights: IndigoWeights) -> list[Driven]:
        """Return a round's flows; those of a round that was cut off after them are there already."""
        if not self._of_round(number).exists():
            kind = "learned" if number else "expert"
            orders = [self._order(kind, link, number) for link in links_of_round(number, self._options.smoke)]
            flows = self._flows if self._in_lab(number) else on_paths()
            _write(self._of_round(number), found_bytes(flows(orders, weights)))
        return self._read(number)

    def _try(self, number: int, weights: IndigoWeights) -> dict[str, list[Driven]]:
        others = other_links(self._options.smoke)
        run = self._flows if self._in_lab(number) else on_paths()
        found = run([self._order("learned", link, number) for link in others], weights)
        flows = [(link.kind, self._of(one)) for link, one in zip(others, found, strict=True)]
        return {kind: [flow for one, flow in flows if one == kind] for kind in ("untrained", "calibrated")}

    def _order(self, kind: str, link: TrainingLink, number: int) -> FlowOrder:
        return FlowOrder(kind, link.name, link.seconds, self._seed(number, link.name), self._best(link.name))

    def _of_round(self, number: int) -> Path:
        return self._folder / f"round-{number:03}.npz"

    def _read(self, number: int) -> list[Driven]:
        path = self._of_round(number)
        return _whole(path, lambda: [self._of(one) for one in found_of(path.read_bytes())])

    def _of(self, found: FlowFound) -> Driven:
        return Driven(found.link, self._best(found.link), found.steps)


def _windows_of(text: str) -> dict[str, dict[int, float]]:
    """Return power by window, by link. Errors: `ValueError`, `AttributeError`, `TypeError` for what is none."""
    stored = json.loads(text)
    found = {link: {int(one): float(power) for one, power in tried.items()} for link, tried in stored.items()}
    if not all(tried and all(map(math.isfinite, tried.values())) for tried in found.values()):
        raise ValueError("a link without a window, or without its power")
    return found


def _figures(kind: str, flows: Sequence[Driven]) -> dict[str, Json]:
    long = [flow for flow in flows if len(flow.steps) > 1]
    return {
        f"{kind}_agreement": round(mean_of([flow.agreement for flow in long]), 4),
        f"{kind}_distance": round(mean_of([flow.distance for flow in long]), 4),
    }


def _write(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, also when power fails."""
    begun = path.with_name(f"{path.name}.begun")
    with begun.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    begun.rename(path)
