# SPDX-License-Identifier: MIT
"""The analytic tensor: the same bits from the same seed, physics the right way round, and medians like the sources'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies.sim.analytic import analytic, idiosyncratic, mis_specified
from configtron.studies.sim.conditions import DEFAULT_MEDIAN_MS, PANTHEON, RTT_P75_MS, Conditions, draw
from configtron.studies.sim.pages import pages
from tests.support import ROOT
from tests.support.sources import imports


def one(kbps: float, rtt: float, loss: float, queue: float = 100.0) -> Conditions:
    return Conditions(*(np.array([value]) for value in (kbps, rtt, loss, queue)))


def clean(condition: Conditions) -> Tensor:
    return analytic(np.random.default_rng(1), conditions=condition, own_ln=0.0)


def ms(tensor: Tensor, site: int = 8, **settings: object) -> float:
    wanted = {"tcp_congestion_control": "cubic", "initcwnd": 10, "http_version": "http/1.1", "pacing": "pfifo_fast"}
    wanted |= {"tcp_autocorking": 1} | settings
    at = next(i for i, profile in enumerate(tensor.grid.profiles) if dict(profile.settings) == wanted)
    return float(tensor.median_ms[0, at, site])


def test_physics_is_the_right_way_round() -> None:
    far, lossy, whole = (clean(one(*of)) for of in ((50_000, 200, 0.0, 500), (20_000, 100, 0.02, 300),
                                                    (20_000, 100, 0.0, 300)))  # fmt: skip
    assert ms(far, initcwnd=1) > ms(far) > ms(far, initcwnd=30) and ms(far, http_version="h2") < ms(far)
    assert ms(lossy, tcp_congestion_control="bbr", http_version="h2") < ms(lossy, http_version="h2")
    assert ms(lossy, tcp_congestion_control="reno", http_version="h2") >= ms(lossy, http_version="h2")
    # loss costs h2 more than six connections
    h2, six = (ms(lossy, http_version=one) / ms(whole, http_version=one) for one in ("h2", "http/1.1"))
    assert h2 > six > 1.0
    shallow = clean(one(2_000, 40, 0.0, 10))
    assert ms(shallow, initcwnd=30) > ms(shallow, initcwnd=30, pacing="fq")
    for worse, better in ((one(1e3, 80, 0.0), one(1e4, 80, 0.0)), (one(1e4, 300, 0.0), one(1e4, 30, 0.0))):
        assert (clean(worse).median_ms > clean(better).median_ms).all()


@pytest.mark.parametrize("shape", DEFAULT_MEDIAN_MS)
def test_default_takes_as_long_as_in_the_paper(shape: str) -> None:
    worlds = ((rng, draw(shape, 300, rng)) for rng in map(np.random.default_rng, range(4)))
    tensors = [analytic(rng, conditions=conditions) for rng, conditions in worlds]
    medians = [np.median(tensor.median_ms[:, tensor.grid.default]) for tensor in tensors]
    assert np.mean(medians) == pytest.approx(DEFAULT_MEDIAN_MS[shape], rel=0.12)


@pytest.mark.parametrize("shape", DEFAULT_MEDIAN_MS)
def test_round_trips_are_as_long_as_in_the_paper(shape: str) -> None:
    """CT 6.2: 75th percentiles above 100 ms for Pantheon and MAWI, 34 ms for FCC and CAIDA."""
    least, most = RTT_P75_MS[shape]
    p75 = float(np.percentile(draw(shape, 50_000, np.random.default_rng(1)).rtt_ms, 75))
    assert p75 > least if most is None else p75 == pytest.approx(most, rel=0.02)


def test_the_best_beats_default_by_a_sixth() -> None:
    tensor = analytic(np.random.default_rng(2))
    gain = 1.0 - tensor.best_ms / tensor.median_ms[:, tensor.grid.default]
    assert 0.14 < np.median(gain) < 0.21 and 0.3 < np.percentile(gain, 95) < 0.5
    most = np.bincount(tensor.best.ravel()).max() / tensor.best.size
    assert most < 0.25, "one configuration is best nearly everywhere: nothing to learn"


def test_variants_are_other_worlds_and_the_same_seed_is_the_same_tensor() -> None:
    plain, again, other = (analytic(np.random.default_rng(seed)).median_ms for seed in (5, 5, 4))
    assert plain.shape == (300, 168, 12) and (plain == again).all() and (plain != other).any()
    first, own, wrong = (make(np.random.default_rng(5)) for make in (analytic, idiosyncratic, mis_specified))
    assert (first.bandwidth_kbps == own.bandwidth_kbps).all() and (wrong.bandwidth_kbps != first.bandwidth_kbps).all()
    assert 0.05 < np.log(own.median_ms / first.median_ms).std() < 0.15
    assert dict(own.provenance)["variant"] == "idiosyncratic" and own.source == "analytic"


def test_no_learner_reads_the_formula() -> None:
    formula = {f"configtron.studies.sim.{name}" for name in ("analytic", "pages", "conditions")}
    files = [*(ROOT / "learner").rglob("*.py"), *(ROOT / "configtron/studies/policies").rglob("*.py")]
    assert len(files) > 20
    assert [file for file in files if formula & set(imports(Path(file).read_text()))] == []


def test_shapes_are_by_name() -> None:
    rng = np.random.default_rng(1)
    assert sum(path.share for path in PANTHEON) == pytest.approx(1.0)
    with pytest.raises(BadInput, match="there is: spread"):
        draw("moon", 3, rng)
    with pytest.raises(BadInput, match="1 to 12"):
        pages(13)
    assert len(pages(3).names) == 3 and (np.diff(pages(12).kilobytes) > 0).all()
    fcc, mawi = draw("fcc", 5000, rng), draw("mawi", 5000, rng)
    assert np.median(mawi.rtt_ms) > 2 * np.median(fcc.rtt_ms)
    assert np.corrcoef(np.log(fcc.bandwidth_kbps), np.log(fcc.rtt_ms))[0, 1] < -0.2
