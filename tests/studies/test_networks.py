# SPDX-License-Identifier: MIT
"""Networks that are brought: drawn jointly, by their weights, onto the conditions nearest to them."""

from __future__ import annotations

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.studies.sim.networks import csv_networks, placed
from configtron.studies.sim.sessions import Arrivals
from tests.support.worlds import small_tensor

TENSOR = small_tensor()
# Exactly the tensor's first and tenth, the second three times as often.
TWO = "\n".join(
    [
        "bandwidth_kbps,rtt_ms,loss,weight",
        *(f"{TENSOR.bandwidth_kbps[at]},{TENSOR.rtt_ms[at]},{TENSOR.loss[at]},{n}" for at, n in ((0, 1), (9, 3))),
    ]
)


def test_clients_have_these_networks_and_no_other() -> None:
    how = Arrivals(prefixes=2000, skew=0.0, change_share=0.3)
    found = placed(csv_networks(TWO), TENSOR, 8000, np.random.default_rng(3), how)
    assert set(found.condition) == set(found.after) == {0, 9}
    assert np.mean(found.condition == 9) == pytest.approx(0.75, abs=0.04)
    moved = np.isfinite(found.change_s)
    assert moved.mean() == pytest.approx(0.3, abs=0.02) and (found.after[~moved] == found.condition[~moved]).all()
    assert np.mean(found.after[moved] == 9) == pytest.approx(0.75, abs=0.04)
    assert np.abs(np.log(found.seen.rtt_ms / TENSOR.rtt_ms[found.condition])).max() < 0.5
    again = placed(csv_networks(TWO), TENSOR, 8000, np.random.default_rng(3), how)
    assert (again.at_s == found.at_s).all() and (again.condition == found.condition).all()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bandwidth_kbps,rtt_ms\n1,1\n", "lacks loss"),
        ("bandwidth_kbps,rtt_ms,loss\n", "no network"),
        ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,0\n", "no network"),
        ("bandwidth_kbps,rtt_ms,loss\n5,5,0\n0,5,0\n", "line 3: bandwidth"),
        ("bandwidth_kbps,rtt_ms,loss\n5,5,2\n", "line 2: loss must be"),
        ("bandwidth_kbps,rtt_ms,loss\n5,x,0\n", "line 2: rtt_ms is no number"),
        ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,-1\n", "line 2: weight must be"),
        ("bandwidth_kbps,rtt_ms,loss,weight\n5,5,0,1\n5,5,0,1e308\n5,5,0,1e308\n", "line 3: weight must be at most"),
        ("bandwidth_kbps,rtt_ms,loss\n1e308,5,0\n", "line 2: bandwidth must be .* at most"),
        ("bandwidth_kbps,rtt_ms,loss\n5,1e308,0\n", "line 2: round trip must be"),
        ("bandwidth_kbps,rtt_ms,loss,loss\n5,5,0,1\n", "line 1: two columns are called 'loss'"),
        ("bandwidth_kbps;rtt_ms;loss\n5;5;0\n", "lacks bandwidth_kbps, rtt_ms, loss"),
    ],
)
def test_what_is_no_network_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        csv_networks(text, "x")
