# SPDX-License-Identifier: MIT
"""Clocks and samples that are known; the study's facts on made figures; a tunnel in a guest."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.testbed.transits import Transits
from configtron.lab.testbed.tunnel import OVERHEAD_BYTES
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.errors import Mismatch
from configtron.studies import pantheontunnel
from configtron.studies.flows.clocks import ahead_ns, corrected
from configtron.studies.flows.spread import kolmogorov
from configtron.studies.flows.tunnelled import Tunnelled
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, UNKNOWN, Fact
from configtron.studies.pantheontunnel import AHEAD_NS, TunnelPlan, evaluated
from configtron.studies.registry.kinds import Arguments

MS = 1_000_000


def packets(way_ms: float, seed: int, ahead: int = 0, sent_ahead: int = 0) -> Transits:
    """A thousand packets over a way with a queue that is empty now and then; one in ten is lost."""
    chance = np.random.default_rng(seed)
    sent = np.arange(10_000, 11_000, dtype=np.int64) * MS
    late = (way_ms + chance.exponential(5, 1000).round()) * MS
    came = np.where(chance.random(1000) < 0.1, -1, sent + late.astype(np.int64) + ahead)
    return Transits(sent + sent_ahead, came, np.full(1000, 1500, np.int64))


@pytest.mark.parametrize("ahead", [0, 137 * MS, -2_000 * MS])
def test_a_clock_that_is_ahead_is_found_and_taken_off(ahead: int) -> None:
    forward, back = packets(30, 1, ahead), packets(30, 2, 0, ahead)
    assert ahead_ns(forward, back) == pytest.approx(ahead, abs=0.5 * MS)
    right, repaired = packets(30, 1), corrected(forward, ahead)
    assert all((one == two).all() for one, two in zip(right, repaired, strict=True))


def test_ways_that_differ_look_like_half_a_clock() -> None:
    """No exchange of packets can show this: it is the method's limit, and stated."""
    assert ahead_ns(packets(50, 1), packets(30, 2)) == pytest.approx(10 * MS, abs=0.5 * MS)


def test_a_direction_without_packets_shows_no_clock() -> None:
    none = packets(30, 1)._replace(arrived_ns=np.full(1000, -1))
    with pytest.raises(Mismatch, match="no packet arrived"):
        ahead_ns(packets(30, 2), none)


def test_distances_of_samples() -> None:
    """By hand: {1, 2, 3} and {3, 4, 5} are two thirds apart; twenty against twenty disjoint ones are 1 apart."""
    assert kolmogorov([1, 2, 3], [3, 4, 5])[0] == pytest.approx(2 / 3)
    assert kolmogorov(range(20), range(20, 40)) == (1.0, pytest.approx(0.0, abs=1e-6))
    assert kolmogorov(range(20), range(20)) == (0.0, 1.0)


def test_equal_distributions_have_small_p_as_often_as_p_says() -> None:
    chance = random.Random(1)
    ps = [
        kolmogorov([chance.gauss(0, 1) for _ in range(20)], [chance.gauss(0, 1) for _ in range(20)])[1]
        for _ in range(400)
    ]
    assert 0.1 < sum(p < 0.2 for p in ps) / 400 < 0.25
    other = [
        kolmogorov([chance.gauss(0, 1) for _ in range(20)], [chance.gauss(1.5, 1) for _ in range(20)])[1]
        for _ in range(100)
    ]
    assert sum(p < 0.2 for p in other) >= 95


def made(factor: float, seed: int = 1) -> list[Tunnelled]:
    """Twenty runs; inside, throughput is so many times what it is without."""
    chance, found = random.Random(seed), []
    for _ in range(20):
        plain, inside = chance.gauss(10, 0.2), chance.gauss(10, 0.2) * factor
        late, other = chance.gauss(50, 1), chance.gauss(50, 1)
        inner = inside * (1500 - OVERHEAD_BYTES) / 1500
        found.append(Tunnelled("cubic", plain, late, inner, other, inside, other, AHEAD_NS, other, other + 137))
    return found


def facts(runs: dict[str, list[Tunnelled]]) -> list[Fact]:
    return list(evaluated(TunnelPlan(), runs, {}, 1).facts)


def test_a_tunnel_that_slows_is_found() -> None:
    assert [one.verdict for one in facts({"a": made(1.0, 3)})] == [HOLDS] * 5
    slower = facts({"a": made(0.9, 3)})
    assert slower[0].verdict == PARTLY and "a Mbit/s" in slower[0].words


def test_a_clock_that_is_not_found_is_reported() -> None:
    wrong = [replace(one, estimate_ns=AHEAD_NS - 2 * MS) for one in made(1.0, 3)]
    assert facts({"a": wrong})[-1].verdict == ABSENT
    assert [one.verdict for one in facts({})] == [UNKNOWN] * 3


@pytest.mark.root
@pytest.mark.lab
def test_a_tunnel_in_a_guest(tmp_path: Path) -> None:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    of = pantheontunnel.run(Arguments(tmp_path, smoke=True, worker="configtron.studies.guests.worker"))
    assert of.whole
    *_, logs, clocks = of.facts
    assert (logs.verdict, clocks.verdict) == (HOLDS, HOLDS), (logs, clocks)
    more = 100 * OVERHEAD_BYTES / (1500 - OVERHEAD_BYTES)
    assert float(logs.words.split()[3]) == pytest.approx(more, abs=0.1)
    (rates,) = (row for row in of.tables[0].rows if row[1] == "Mbit/s")
    # cubic over a third of its path's buffer: most of 12 Mbit/s, with the tunnel as without
    assert all(isinstance(rate, float) and 6 < rate < 12.1 for rate in rates[2:4])
