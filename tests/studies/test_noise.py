# SPDX-License-Identifier: MIT
"""Noise of page loads: the same at once and one by one, with its median, spread and tail."""

from __future__ import annotations

import numpy as np

from configtron.studies.sim.noise import NO_NOISE, Noise


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
