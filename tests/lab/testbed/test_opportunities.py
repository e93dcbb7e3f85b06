# SPDX-License-Identifier: MIT
"""When played links let packets pass: exact in the mean, the same for the same salt, Mahimahi's files as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.lab.testbed import opportunities
from configtron.lab.testbed.conditions import LinkDirection
from configtron.lab.testbed.opportunities import Opportunities, of, parse, read
from configtron.model.errors import BadInput


def drawn(way: LinkDirection, salt: int = 1) -> Opportunities:
    found = of(way, salt, read)
    assert found
    return found


@pytest.mark.parametrize("kind", ["constant", "poisson"])
@pytest.mark.parametrize("rate", [120, 570, 2640, 12_000, 100_420])
def test_the_mean_is_the_rate(kind: str, rate: float) -> None:
    found = drawn(LinkDirection(rate, kind=kind))
    # a draw holds whole packets only, and so does a period of an even link
    assert found.rate_kbit == pytest.approx(rate, rel=1e-3)
    assert list(found.at_us) == sorted(found.at_us) and 0 <= found.at_us[0] and found.at_us[-1] < found.period_us


def test_bursts_come_at_once() -> None:
    assert drawn(LinkDirection(600, kind="bursts", burst_packets=10)) == Opportunities((0,) * 10, 200_000)
    assert drawn(LinkDirection(120, kind="bursts")) == Opportunities((0,), 100_000)


def test_chance_is_the_salts() -> None:
    way = LinkDirection(2640, kind="poisson")
    assert drawn(way) == drawn(way) != drawn(way, 2)


def test_poisson_gaps_vary_as_they_should() -> None:
    """The gaps of a Poisson process have a standard deviation equal to their mean; even ones have none."""
    moments = drawn(LinkDirection(2640, kind="poisson")).at_us
    gaps = [later - sooner for sooner, later in zip(moments, moments[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1, abs=0.05)


def test_no_rate_is_no_limit() -> None:
    assert of(LinkDirection(), 1, read) is None


def test_mahimahis_format() -> None:
    found = parse("0\n1\n1\n250\n1000\n", "t")
    assert found == Opportunities((0, 1000, 1000, 250_000, 1_000_000), 1_000_000)
    assert found.rate_kbit == 60


@given(st.lists(st.integers(0, 50), min_size=1, max_size=9), st.integers(0, 400), st.integers(0, 400))
def test_counting_is_that_of_a_long_list(moments: list[int], start: int, more: int) -> None:
    found = Opportunities(tuple(sorted(moments)), 51)
    long = [period * 51 + moment for period in range(20) for moment in sorted(moments)]
    assert found.between(start, start + more) == sum(start <= moment < start + more for moment in long)


@pytest.mark.parametrize("text", ["", "0\n", "x", "3\n2\n", "-1\n", "1.5\n", "١\n", "1\n\n2\n", "9999999999\n"])
def test_what_is_no_trace_is_reported(text: str) -> None:
    with pytest.raises(BadInput, match="t"):
        parse(text, "t")


def test_an_absent_trace_is_reported_with_those_there_are() -> None:
    with pytest.raises(BadInput, match="no trace 'nowhere.down'"):
        of(LinkDirection(kind="trace", trace="nowhere.down"), 1, opportunities.read)
