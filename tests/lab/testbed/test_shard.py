# SPDX-License-Identifier: MIT
"""A shard in a real guest: real kernel, servers and client. The same orders give the same bytes, refusals too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.lab.testbed import measure
from configtron.lab.testbed.families import named
from configtron.lab.testbed.layout import laid_out
from configtron.lab.testbed.measure import ShardResult
from configtron.lab.testbed.shard import Orders
from configtron.lab.testbed.studies import STUDIES
from configtron.model.nouns import Profile
from configtron.model.repeats import StoppingRule
from tests.lab.testbed.test_measure import PAGES

pytestmark = [pytest.mark.root, pytest.mark.lab]
WORKER = "configtron.service.shard_guest"
PLAIN = (("http_version", "h2"), ("initcwnd", 10), ("pacing", "pfifo_fast"), ("tcp_congestion_control", "cubic"))


def profile(**changed: str | int) -> Profile:
    settings = dict(PLAIN) | changed
    return Profile(" ".join(map(str, settings.values())), tuple(settings.items()))


def ended(orders: Orders, folder: Path) -> ShardResult:
    found = measure.perform_one(orders, folder, measure.guests(WORKER))
    assert found.why == ""
    return found


def small(condition: str = "hotcloud:5/150/2.5", seed: int = 1) -> Orders:
    """Two of the smoke study's sites, two configurations, as often as the rule wants."""
    layout = laid_out(STUDIES["smoke"].narrowed([condition], ["search", "blog"], (6, 12)), seed)
    chosen = (profile(), profile(tcp_congestion_control="bbr", http_version="http/1.1", initcwnd=30, pacing="fq"))
    return replace(layout.orders()[0], configurations=chosen)


def test_the_same_orders_give_the_same_bytes(tmp_path: Path) -> None:
    one, same, other = (ended(small(seed=seed), tmp_path / str(n)) for n, seed in enumerate((1, 1, 2)))
    assert one.text == same.text and one.software == same.software
    assert one.text != other.text
    filled = one.filled()
    assert dict(filled.network)["r2"].startswith("netem delay_ns 75000000 limit 100000 loss 107374182, tbf ")
    read_back = dict(filled.stacks[1].read_back)
    assert read_back == {"initcwnd": "30", "pacing": "fq", "tcp_congestion_control": "bbr"}
    assert {sample[:2] for sample in filled.samples} == {(n, site) for n in (0, 1) for site in ("search", "blog")}
    assert not any(sample.failed for sample in filled.samples)
    # a loss meets every configuration, but not every repeat
    plts = [sample.plt_ms for sample in filled.samples if (sample.configuration, sample.site) == (0, "blog")]
    assert len(plts) in (6, 12) and len(set(plts)) > 1


def test_a_configuration_that_cannot_be_is_not_measured(tmp_path: Path) -> None:
    """A congestion control that is not there, a knob that no driver sets: each its reason, and the next is measured."""
    bad = (profile(tcp_congestion_control="westwood"), profile(nagle=0), profile(tcp_congestion_control="vegas"))
    orders = Orders(named("hotcloud:5/50/0"), bad, PAGES[:1], StoppingRule((1,)), 1)
    filled = ended(orders, tmp_path).filled()
    assert [(stack.configuration, stack.reason) for stack in filled.stacks][1:] == [(1, "not-settable"), (2, "")]
    assert filled.stacks[0].reason in ("not-settable", "stack-not-as-asked")
    assert "westwood" in filled.stacks[0].words and "nagle" in filled.stacks[1].words
    assert dict(filled.stacks[2].read_back)["tcp_congestion_control"] == "vegas"
    assert {sample.configuration for sample in filled.samples} == {2}


def test_orders_that_are_none_are_reported(tmp_path: Path) -> None:
    """The guest's own error reaches the process that waits for it."""
    orders = replace(small(), server="lighthouse")
    found = measure.perform_one(orders, tmp_path, measure.guests(WORKER))
    assert found.text == "" and "lighthouse" in found.why
