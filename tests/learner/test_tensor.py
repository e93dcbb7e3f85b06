"""The PLT-tensor's file: read back as written, the same bytes twice, and one clear line for what is none."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest

from configtron.errors import BadInput
from configtron.learner.sim.noise import NO_NOISE, Noise
from configtron.learner.sim.tensor import Tensor, read, write
from tests.learner.worlds import small_tensor


def packed(tensor: Tensor) -> bytes:
    file = io.BytesIO()
    write(tensor, file)
    return file.getvalue()


def test_what_is_written_is_read() -> None:
    tensor = small_tensor()
    tensor = replace(tensor, repeats_ms=np.repeat(tensor.median_ms[..., None], 2, axis=3))
    back = read(io.BytesIO(packed(tensor)))
    assert (back.sites, back.names, back.source, back.provenance) == (
        tensor.sites,
        tensor.names,
        tensor.source,
        tensor.provenance,
    )
    assert back.grid.profiles == tensor.grid.profiles and back.grid.default == tensor.grid.default
    for column in ("bandwidth_kbps", "rtt_ms", "loss", "median_ms", "repeats_ms"):
        assert (getattr(back, column) == getattr(tensor, column)).all()


def test_equal_tensors_are_equal_bytes() -> None:
    assert packed(small_tensor()) == packed(small_tensor()) != packed(small_tensor(seed=8))


def test_nonsense_is_refused() -> None:
    good = packed(small_tensor())
    for bad in (b"", b"not a file", good[: len(good) // 2], good.replace(b"PK", b"QK")):
        with pytest.raises(BadInput, match="no PLT-tensor"):
            read(io.BytesIO(bad))


def test_other_versions_and_missing_columns_are_named() -> None:
    with np.load(io.BytesIO(packed(small_tensor()))) as columns:
        held = {name: columns[name] for name in columns.files}
    file = io.BytesIO()
    np.savez(file, **{name: held[name] for name in held if name != "loss"})
    with pytest.raises(BadInput, match="lacks loss"):
        read(io.BytesIO(file.getvalue()))
    held["header"] = np.array(str(held["header"]).replace('"version": 1', '"version": 2'))
    file = io.BytesIO()
    np.savez(file, **held)
    with pytest.raises(BadInput, match="tensor 1 is wanted, this is configtron-plt-tensor 2"):
        read(io.BytesIO(file.getvalue()))


def test_a_value_outside_its_knobs_list_is_refused() -> None:
    with np.load(io.BytesIO(packed(small_tensor()))) as columns:
        held = {name: columns[name] for name in columns.files}
    held["configurations"] = held["configurations"].copy()
    held["configurations"][3, 1] = 6
    file = io.BytesIO()
    np.savez(file, **held)
    with pytest.raises(BadInput, match="outside its knob's list"):
        read(io.BytesIO(file.getvalue()))


def test_columns_must_fit() -> None:
    tensor = small_tensor()
    with pytest.raises(BadInput, match="its columns say"):
        replace(tensor, sites=("one",))
    with pytest.raises(BadInput, match="not positive"):
        replace(tensor, median_ms=-tensor.median_ms)


def test_missing_cells_are_counted_and_never_best() -> None:
    tensor = small_tensor()
    holes = tensor.median_ms.copy()
    holes[0, holes[0, :, 0] == holes[0, :, 0].min(), 0] = np.nan
    holed = replace(tensor, median_ms=holes)
    assert holed.missing() > 0 and holed.best[0, 0] != tensor.best[0, 0]
    assert holed.best_ms[0, 0] > tensor.best_ms[0, 0]


def test_noise_is_the_same_at_once_and_one_by_one() -> None:
    one, many, noise = np.random.default_rng(7), np.random.default_rng(7), Noise()
    single = np.concatenate([noise.factors(1, one) for _ in range(500)])
    assert (single == noise.factors(500, many)).all()


def test_noise_has_its_median_spread_and_tail() -> None:
    factors = Noise().factors(200_000, np.random.default_rng(1))
    assert abs(float(np.median(factors)) - 1.0) < 0.03
    body = Noise(tail_share=0.0).factors(200_000, np.random.default_rng(1))
    assert abs(float(np.log(body).std()) - 0.12) < 0.002
    assert 0.004 < float((factors > 1.8).mean()) < 0.02
    assert (NO_NOISE.factors(5, np.random.default_rng(1)) == 1.0).all()
