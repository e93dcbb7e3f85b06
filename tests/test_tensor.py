# SPDX-License-Identifier: MIT
"""The PLT-tensor's file: read back as written, the same bytes twice, and one clear line for what is none."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.grid import Grid, live_grid
from configtron.model.tensor import Tensor, read, write


def small(seed: int = 7) -> Tensor:
    """Two conditions, the live grid, three sites, two loads each."""
    grid = live_grid()
    repeats = np.random.default_rng(seed).uniform(500, 5000, (2, len(grid), 3, 2)).astype(np.float32)
    columns = (np.array([1000.0, 5000.0]), np.array([50.0, 250.0]), np.array([0.0, 0.025]))
    return Tensor(grid, ("news", "shop", "wiki"), ("a", "b"), *columns, np.median(repeats, axis=3), "lab",
                  (("seed", "7"),), repeats)  # fmt: skip


REPEATS: Any = small().repeats_ms


def packed(tensor: Tensor) -> bytes:
    file = io.BytesIO()
    write(tensor, file)
    return file.getvalue()


def test_what_is_written_is_read() -> None:
    tensor = small()
    back = read(io.BytesIO(packed(tensor)))
    for name in ("sites", "names", "source", "provenance"):
        assert getattr(back, name) == getattr(tensor, name)
    assert back.grid.profiles == tensor.grid.profiles and back.grid.default == tensor.grid.default
    for column in ("bandwidth_kbps", "rtt_ms", "loss", "median_ms", "repeats_ms"):
        assert (getattr(back, column) == getattr(tensor, column)).all()
    assert back.characteristics == {} and back.damage is back.damage_high is back.weight is None
    assert list(back.share) == [0.5, 0.5]


def test_equal_tensors_are_equal_bytes() -> None:
    assert packed(small()) == packed(small()) != packed(small(seed=8))


def test_nonsense_is_refused() -> None:
    good = packed(small())
    for bad in (b"", b"not a file", good[: len(good) // 2], good.replace(b"PK", b"QK"), pickle.dumps([1])):
        with pytest.raises(BadInput, match="no PLT-tensor") as raised:
            read(io.BytesIO(bad))
        assert "pickle" not in str(raised.value)


@pytest.mark.slow
def test_damage_is_refused_wherever_it_is() -> None:
    """Two bytes changed at a thousand places: the same tensor, or one line."""
    good, rng, refused = packed(small()), np.random.default_rng(1), 0
    for _ in range(1000):
        bad = bytearray(good)
        for at in rng.integers(len(good), size=2):
            bad[at] = rng.integers(256)
        try:
            read(io.BytesIO(bytes(bad)))
        except BadInput as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 300
    assert refused > 100


HELD: dict[str, Any] = dict(np.load(io.BytesIO(packed(small()))))


def cell(column: str, value: float) -> dict[str, object]:
    """A column with one other number."""
    changed = HELD[column].astype(np.float64)
    changed.flat[1] = value
    return {column: changed}


def header(**words: object) -> dict[str, object]:
    return {"header": np.array(json.dumps(json.loads(str(HELD["header"])) | words))}


def outside() -> Any:
    codes = HELD["configurations"].copy()
    codes[3, 1] = 6
    return codes


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"median_ms": np.array([{"a": 1}], dtype=object)}, "tensor"), ({"median_ms": np.array("fast")}, "tensor"),
        (cell("median_ms", 1e300), "tensor"), (cell("median_ms", -1.0), "tensor"),
        (cell("bandwidth_kbps", -5.0), "tensor"), (cell("rtt_ms", np.inf), "tensor"), (cell("loss", 1.5), "tensor"),
        ({"configurations": np.zeros((0, 5), dtype=np.int64)}, "tensor"),
        ({"configurations": outside()}, "outside its knob's list"), (header(sites=["news", 3, "wiki"]), "tensor"),
        (header(sites="abc"), "tensor"), (header(source=None), "tensor"),
        (header(knobs=[{"name": "initcwnd", "values": [-3, 10]}]), "takes a number from 1"),
        (header(knobs=[{"name": 5, "values": [1]}]), "tensor"),
        (header(knobs=[{"name": "mine", "values": [[1]]}]), "tensor"),
        (header(provenance=["seed", 7]), "no PLT-tensor"),
        (header(version=2), "tensor 1 is wanted, this is configtron-plt-tensor 2"),
        *(({"header": np.array(text)}, "no PLT-tensor") for text in ("[1, 2]", "5", '"x"', "null")),
        ({"loss": None}, "lacks loss"),
    ],
)  # fmt: skip
def test_a_column_or_a_header_that_is_none_is_refused(columns: dict[str, object], says: str) -> None:
    file = io.BytesIO()
    np.savez(file, **{name: column for name, column in (HELD | columns).items() if column is not None})
    with pytest.raises(BadInput, match=says) as raised:
        read(io.BytesIO(file.getvalue()))
    assert "pickle" not in str(raised.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"sites": ("one",)}, "its columns say"), ({"repeats_ms": REPEATS[..., 0]}, "repeats are"),
        ({"repeats_ms": REPEATS[:1]}, "repeats are"), ({"median_ms": -small().median_ms}, "not positive"),
        ({"characteristics": {"queue_ms": np.array([1.0])}}, "tensor:"),
        ({"characteristics": {"queue_ms": np.array([1.0, -1.0])}}, "tensor:"),
        ({"characteristics": {"delivery_share": np.array([1.0, 1.5])}}, "tensor:"),
        ({"characteristics": {"weather": np.array([1.0, 1.0])}}, "tensor:"),
        ({"damage": np.zeros((1, 1, 1), np.float32)}, "tensor:"), ({"weight": np.array([0.0, 0.0])}, "tensor:"),
        ({"weight": np.array([1.0, np.nan])}, "tensor:"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        replace(small(), **wrong)


def test_missing_cells_are_counted_and_never_best() -> None:
    tensor = small()
    holes = tensor.median_ms.copy()
    holes[0, holes[0, :, 0] == holes[0, :, 0].min(), 0] = np.nan
    holed = replace(tensor, median_ms=holes)
    assert holed.missing() > 0 and holed.best[0, 0] != tensor.best[0, 0]
    assert holed.best_ms[0, 0] > tensor.best_ms[0, 0]


def with_everything() -> Tensor:
    """The same with every optional column."""
    tensor = small()
    damage = np.linspace(0.9, 3.6, tensor.median_ms.size).reshape(tensor.median_ms.shape).astype(np.float32)
    damage[1] = np.nan
    known = {"queue_ms": np.array([3.0, 400.0]), "loss_run": np.array([np.nan, 8.0])}
    return replace(
        tensor, characteristics=known, damage=damage, damage_high=damage * np.float32(1.1), weight=np.array([1.0, 3.0])
    )


def test_characteristics_damage_and_weights_are_read_as_written() -> None:
    tensor = with_everything()
    back = read(io.BytesIO(packed(tensor)))
    for name, column in tensor.characteristics.items():
        assert np.array_equal(back.characteristics[name], column, equal_nan=True)
    for name in ("damage", "damage_high", "weight"):
        assert np.array_equal(getattr(back, name), getattr(tensor, name), equal_nan=True)
    assert packed(back) == packed(tensor) and list(back.share) == [0.25, 0.75]


def test_optional_columns_follow_their_conditions_and_configurations() -> None:
    tensor = with_everything()
    assert tensor.damage is not None
    last = tensor.of(np.array([1]))
    assert last.characteristics["queue_ms"] == [400.0] and last.weight == [3.0] and np.isnan(last.damage).all()
    assert last.context(0, 1) == replace(small().of(np.array([1])).context(0, 1), queue_ms=400.0, loss_run=8.0)
    assert tensor.context(0, 0).loss_run is None
    few = tensor.over(tensor.grid.only([5, tensor.grid.default]))
    assert few.damage is not None and (few.damage[0, 0] == tensor.damage[0, 5]).all()
    assert few.damage_high is not None and few.damage_high.shape == few.median_ms.shape
    assert few.characteristics.keys() == tensor.characteristics.keys() and few.weight is tensor.weight
    assert tensor.rated() is tensor


def test_a_site_or_a_configuration_with_two_columns_is_refused() -> None:
    tensor = small()
    sites = replace(tensor, sites=(*tensor.sites[:-1], tensor.sites[0]))
    with pytest.raises(BadInput, match=f"site '{tensor.sites[0]}' has two columns"):
        read(io.BytesIO(packed(sites)))
    twice = Grid(tensor.grid.knobs, (*tensor.grid.rows[:-1], tensor.grid.rows[0]))
    with pytest.raises(BadInput, match=f"configuration '{tensor.grid.profiles[0].name}' has two columns"):
        read(io.BytesIO(packed(replace(tensor, grid=twice))))
    assert read(io.BytesIO(packed(tensor))).sites == tensor.sites
