# SPDX-License-Identifier: MIT
"""Clients of a capture as sessions: their own networks at their own times, cut where they change."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Context
from configtron.studies.sim.captured import captured, clients_of
from tests.support.worlds import small_tensor

TENSOR = small_tensor()


def line(at: float, prefix: str, rtt_ms: float, **more: object) -> str:
    context = {"prefix": prefix, "rtt_ms": rtt_ms, "bandwidth_kbps": 5000.0, "loss": 0.0, **more}
    return json.dumps({"schema": "configtron.context/1", "at": 1e9 + at, "context": context})


def lines() -> str:
    """One client at 20 ms and then at 200, one at 50 ms with a third of the contexts, one that nothing is known of."""
    rng = np.random.default_rng(1)
    spread = np.exp(0.05 * rng.standard_normal(120))
    near = [line(at, "192.0.2.0/24", (20 if at < 60 else 200) * spread[at]) for at in range(120)]
    far = [line(2.0 * at, "198.51.100.0/24", 50.0) for at in range(60)]
    dim = [json.dumps({"schema": "configtron.context/1", "at": 1e9, "context": {"prefix": "203.0.113.0/24"}})]
    return "\n".join([*near, *far, *dim, '{"schema":"configtron.watch/1","watch":1}', ""])


def test_clients_come_with_their_networks() -> None:
    found = captured(clients_of(lines()), TENSOR, 3000, np.random.default_rng(2))
    assert len(found) == 3000 and found.seen.prefixes == ("192.0.2.0/24", "198.51.100.0/24")
    assert np.mean(found.seen.prefix == 0) == pytest.approx(2 / 3, abs=0.05)
    one, other = found.seen.prefix == 0, found.seen.prefix == 1
    early, late = one & (found.at_s < 50), one & (found.at_s > 70)
    assert np.median(found.seen.rtt_ms[early]) == pytest.approx(20, rel=0.1)
    assert np.median(found.seen.rtt_ms[late]) == pytest.approx(200, rel=0.1)
    assert (found.seen.rtt_ms[other] == 50.0).all() and np.isinf(found.change_s[other]).all()
    assert found.at_s[0] == 0.0 and (np.diff(found.at_s) >= 0).all()
    # Until the change all of the first client's sessions know when it comes, afterwards none does.
    assert np.isfinite(found.change_s[early]).all() and np.isinf(found.change_s[late]).all()
    assert (found.at_s + found.change_s)[early] == pytest.approx((found.at_s + found.change_s)[early][0])
    assert (found.condition != found.after)[early].all() and set(found.seen.site) == {0, 1, 2}


def test_the_same_seed_draws_the_same() -> None:
    one, again, other = (captured(clients_of(lines()), TENSOR, 200, np.random.default_rng(seed)) for seed in (2, 2, 3))
    assert (one.at_s == again.at_s).all() and (one.seen.site == again.seen.site).all()
    assert (one.at_s != other.at_s).any()


def test_what_was_too_small_to_measure_is_unknown() -> None:
    known = "\n".join(line(at, "p", 5) for at in range(3))
    none = line(0, "q", 0.0) + "\n" + line(1, "q", 5, bandwidth_kbps=0) + "\n" + line(1, "q", 5, loss=None)
    found = captured(clients_of(known + "\n" + none), TENSOR, 20, np.random.default_rng(1))
    assert found.seen.prefixes == ("p",)


@pytest.mark.parametrize("rtt_ms", [0.0, -1.0])
def test_a_round_trip_of_nothing_is_none(rtt_ms: float) -> None:
    """As a packet capture may show it, which no reader of lines has looked at."""
    good = [(float(at), Context(5000.0, 40.0, 0.0, prefix="p")) for at in range(3)]
    none = (3.0, Context(5000.0, rtt_ms, 0.0, prefix="p"))
    found = captured({"p": [*good, none]}, TENSOR, 9, np.random.default_rng(1))
    assert (found.seen.rtt_ms == 40.0).all()
    with pytest.raises(BadInput, match="from the first time"):
        captured({"p": [*good, (1e15, good[0][1])]}, TENSOR, 9, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1: no JSON"),
        ("[" * 100_000, "line 1: no JSON"),
        ("[1]", "line 1: no context"),
        ('{"schema":"configtron.context/1","at":1,"context":[1]}', "line 1: no context"),
        (line(0, "p", 5, loss=10**400), "line 1: no context: loss must be a finite number"),
        (line(0, "p", math.nan), "line 1: no context: rtt_ms must be a finite number"),
        (line(math.inf, "p", 5), "line 1: no context: at must be a finite number"),
        (line(0, "p", -80), "line 1: round trip must be above 0"),
        (line(0, "p", 5, bandwidth_kbps=-5000), "line 1: bandwidth must be above 0"),
        (line(0, "p", 5) + "\n" + line(0, "p", 5, loss=5), "line 2: loss must be a share"),
        (line(0, "p", 5, loss=True), "line 1: no context: loss"),
        (line(0, "p", 5).replace('"p"', "[1]"), "line 1: the prefix must be text"),
        (line(0, "p", 5) + "\n" + line(-9e8, "p", 5), "line 2: .* from the first time"),
        ('\n{"schema":"configtron.context/1","at":1}', "line 2: no context"),
        ('{"schema":"configtron.context/1","at":1,"context":{"rtt_ms":"x"}}', "line 1"),
        ('{"schema":"configtron.context/1","at":1,"context":{"rtt_ms":5}}', "known at once"),
        ('{"schema":"configtron.watch/1"}', "known at once"),
    ],
)
def test_what_is_no_context_is_named(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        captured(clients_of(text, "x"), TENSOR, 10, np.random.default_rng(1), "x")
