# SPDX-License-Identifier: MIT
"""Harder networks in real guests: each kind of condition reads back and does what its name says; what servers see.

Effects that a rule predicts are compared with the rule; the others with the same network without the condition.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.lab.testbed import aqm, measure
from configtron.lab.testbed.families import named
from configtron.lab.testbed.model import shipped
from configtron.lab.testbed.shard import Orders
from configtron.model.errors import Missing
from configtron.model.nouns import Profile
from configtron.model.repeats import StoppingRule
from configtron.model.samples import Filled

pytestmark = [pytest.mark.root, pytest.mark.lab]
PLAIN = (("http_version", "h2"), ("initcwnd", 10), ("pacing", "pfifo_fast"), ("tcp_congestion_control", "cubic"))


def filled(folder: Path, name: str, site: str, loads: int = 2, **changed: str | int) -> Filled:
    settings = tuple((dict(PLAIN) | changed).items())
    orders = Orders(named(name), (Profile("p", settings),), (shipped()[site],), StoppingRule((loads,)), 1)
    found = measure.perform_one(orders, folder, measure.guests("configtron.service.shard_guest"))
    assert found.why == ""
    return found.filled()


def plts(found: Filled) -> list[float]:
    return [sample.plt_ms for sample in found.samples if sample.plt_ms is not None]


def test_a_policer_lets_a_page_through_that_its_bucket_holds(tmp_path: Path) -> None:
    """38 kB under a full bucket of 64 kB: handshakes, request, slow start, four round trips of 80 ms and little more;
    550 kB cannot be faster than what the bucket does not hold takes at 10 Mbit/s."""
    small = filled(tmp_path / "small", "policer:10/80/64000", "search", initcwnd=30)
    assert "rate 1250000 bucket 64000" in dict(small.network)["r2"]
    assert all(240 <= ms < 400 for ms in plts(small))
    large = filled(tmp_path / "large", "policer:10/80/64000", "reference")
    assert min(plts(large)) > 2 * 80 + (550_000 - 64_000) * 8 / 10_000
    # a queue delays, a policer does not: least and smoothed round trips are alike
    assert dict(large.features)["queue_ms"] < 3 and dict(large.features)["loss_run"] >= 1


def test_losses_come_in_runs(tmp_path: Path) -> None:
    bursty = filled(tmp_path / "b", "link:10/80/1,loss=3,runs=8", "shop", 4)
    assert "ge_r 536870912" in dict(bursty.network)["r2"]
    alone = filled(tmp_path / "a", "link:10/80/1,loss=3", "shop", 4)
    assert "ge_r" not in dict(alone.network)["r2"]
    assert dict(bursty.features)["loss_run"] > 2 * dict(alone.features)["loss_run"] >= 2


def test_a_window_limits_the_flight(tmp_path: Path) -> None:
    """32 kB a round trip of 150 ms: 550 kB take seventeen of them, but for what comes on other connections."""
    found = filled(tmp_path / "s", "link:20/150/1,window=32768", "reference")
    assert dict(found.features)["window_bytes"] <= 32_768 and min(plts(found)) > 1000
    wide = filled(tmp_path / "w", "link:20/150/1", "reference")
    assert dict(wide.features)["window_bytes"] > 65_536 and max(plts(wide)) < min(plts(found))


def test_gathered_acks_come_late(tmp_path: Path) -> None:
    found, even = (
        filled(tmp_path / str(n), f"link:20/40/1{option}", "reference") for n, option in enumerate((",acks=20", ""))
    )
    assert "slot_ns 20000000" in dict(found.network)["r1"] and "slot_ns" not in dict(even.network)["r1"]
    assert dict(found.features)["ack_gap_ms"] > 2 * dict(even.features)["ack_gap_ms"]


@pytest.mark.parametrize("kind", ["fq_codel", "cake", "pie"])
def test_a_managed_queue_stays_short(tmp_path: Path, kind: str) -> None:
    """Eight bandwidth-delay products beside a neighbour that fills them are 320 ms; managed, some ten."""
    aqm.built()
    managed = filled(tmp_path / kind, f"link:10/40/8,aqm={kind},neighbours=1", "search")
    assert f", {kind} " in dict(managed.network)["r2"]
    plain = filled(tmp_path / "plain", "link:10/40/8,neighbours=1", "search")
    assert max(plts(managed)) < 0.6 * min(plts(plain))
    assert dict(managed.features)["queue_ms"] < dict(plain.features)["queue_ms"]


def test_neighbours_lose_what_the_page_takes(tmp_path: Path) -> None:
    """At least half of its bytes, and of a full link not four times; the same orders give the same bytes."""
    one, same = (filled(tmp_path / name, "link:10/40/1,neighbours=1", "reference", 3) for name in ("one", "same"))
    assert one.samples == same.samples and one.features == same.features
    shares = [sample.neighbours_lost / sample.bytes for sample in one.samples if sample.neighbours_lost is not None]
    assert len(shares) == 3 and all(0.3 < share < 4 for share in shares)
    assert min(plts(one)) > max(plts(filled(tmp_path / "none", "link:10/40/1", "reference", 3)))


def test_chance_makes_repeats_differ(tmp_path: Path) -> None:
    """Where nothing else varies: within 6 % of rate and round trip; and a trace begins anywhere."""
    fixed, spread = (
        plts(filled(tmp_path / str(n), f"link:20/60/1{option}", "search", 6))
        for n, option in enumerate(("", ",spread=6"))
    )
    assert max(fixed) / min(fixed) < 1.05 and 1.01 < max(spread) / min(spread) < 1.2
    drawn = plts(filled(tmp_path / "drawn", "trace:commute@drawn+20", "search", 4))
    assert max(drawn) / min(drawn) > 1.05


def test_a_slow_stream_is_not_reset(tmp_path: Path) -> None:
    """1.8 MB at 0.2 Mbit/s take 73 s; a minute of patience for each stream ended them over HTTP/2."""
    found = filled(tmp_path, "link:0.2/400/4", "shop", 1)
    assert [sample.failed for sample in found.samples] == [""] and min(plts(found)) > 65_000


def test_an_unknown_queue_of_the_kernel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = Orders(named("link:10/40/8,aqm=pie"), (), (shipped()["search"],), StoppingRule((1,)), 1)
    monkeypatch.setattr(aqm, "lend", lambda kinds, folder: None)
    with pytest.raises(Missing, match="queue pie"):
        measure.perform_one(orders, tmp_path, measure.guests("configtron.service.shard_guest"))
