# SPDX-License-Identifier: MIT
"""Conditions: what their names mean, that their text brings them back, and that nonsense is reported."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from configtron.lab.testbed import families, realism
from configtron.lab.testbed.conditions import Condition, LinkDirection
from configtron.lab.testbed.families import LEAST_QUEUE_BYTES, LEAST_SHALLOW_BYTES, named
from configtron.model.errors import BadInput

EVERY = (*families.hotcloud(), *families.access(), *families.pantheon(), named("trace:commute@30+25"))


def test_there_are_as_many_as_the_papers_have() -> None:
    assert (len(families.hotcloud()), len(families.pantheon())) == (48, 18)
    assert len({(c.down, c.up) for c in families.hotcloud()}) == 48
    # HotCloud'17, section 2: 0.3, 1, 5 Mbit/s; 0, 1, 2.5, 5 %; 50, 150, 250, 500 ms, each with each
    grid = {(c.down.rate_kbit, c.down.loss, c.rtt_ms) for c in families.hotcloud()}
    assert grid == set(product((300, 1000, 5000), (0, 0.01, 0.025, 0.05), (50, 150, 250, 500)))
    assert len({condition.salt for condition in EVERY}) == len(EVERY)


@pytest.mark.parametrize("condition", [*EVERY, named("access:4g;2:access:3g;5.5:pantheon:1")], ids=lambda c: c.name)
def test_text_brings_it_back(condition: Condition) -> None:
    assert Condition.from_json(condition.to_json()) == condition
    assert condition.name in condition.to_json()


def test_a_name_means_what_it_says() -> None:
    one = named("hotcloud:1/150/2.5")
    assert (one.down.rate_kbit, one.rtt_ms, one.down.loss, one.up.loss) == (1000, 150, 0.025, 0)
    assert one.down.queue_bytes == LEAST_QUEUE_BYTES and named("hotcloud:5/500/0").down.queue_bytes == 312_500
    trace = named("trace:commute@30+25")
    assert (trace.down.trace, trace.up.trace) == ("commute.down", "commute.up")
    assert (trace.up.offset_s, trace.rtt_ms) == (30, 50)
    assert [named(f"trace:{file}").down.trace for file in ("walk", "/a+b@c/d@2", "./x+y+3")] == [
        "walk.down", "/a+b@c/d.down", "./x+y.down",
    ]  # fmt: skip


def test_a_shallow_buffer_is_a_part_of_the_path() -> None:
    whole, tenth, least = (named(f"access:cable{part}").down.queue_bytes for part in ("", "/10", "/100"))
    # 5 Mbit/s and 28 ms are 17.5 kB
    assert (whole, tenth, least) == (LEAST_QUEUE_BYTES, LEAST_SHALLOW_BYTES, LEAST_SHALLOW_BYTES)
    assert named("access:4g/3").down == replace(named("access:4g").down, queue_bytes=round(9e6 / 8 * 0.170 / 3))


def test_losses_are_on_pantheons_bulk_direction_only() -> None:
    first = named("pantheon:1")
    assert (first.down.loss, first.down.queue_packets, first.up.loss, first.up.queue_packets) == (0.0477, 14, 0, 0)
    assert [named(f"pantheon:{n}").up.queue_packets for n in (7, 12)] == [1, 1]
    assert named("pantheon:14").up == LinkDirection(600, 10, kind="bursts", burst_packets=10)


HARDER = (
    "link:20/60/0.1", "policer:5/50/16000,spread=6", "link:10/80/1,loss=3,runs=8", "link:10/80/1,loss=3,outage=120",
    "link:10/40/1,neighbours=4,weight=2", "link:20/100/1,window=65536", "link:20/40/1,acks=20", "link:10/40/8,aqm=cake",
    "trace:commute@drawn+20", "link:25/600/1,loss=0.5,up=3", "access:4g,weight=3",
)  # fmt: skip


@pytest.mark.parametrize("name", HARDER)
def test_harder_networks_come_back_from_their_text(name: str) -> None:
    assert Condition.from_json(named(name).to_json()) == named(name)


def test_options_mean_what_they_say() -> None:
    # 20 Mbit/s times 60 ms are 150 kB; a tenth
    assert named("link:20/60/0.1").down.queue_bytes == 15_000
    assert named("link:1/10/0.1").down.queue_bytes == LEAST_SHALLOW_BYTES
    bursty = named("link:10/80/1,loss=3,runs=8").down
    assert (bursty.loss, bursty.loss_run, bursty.is_played) == (0.03, 8, False)
    assert named("link:10/80/1,loss=3,outage=120").is_played and named("policer:5/50/16000").down.bucket_bytes == 16_000
    one = named("link:20/100/1,window=65536,neighbours=0,weight=0.5")
    assert (one.window_bytes, one.weight) == (65_536, 0.5)
    assert (named("link:20/40/1,acks=20").up.slot_ms, named("link:10/40/8,aqm=pie").aqms) == (20, ("pie",))
    assert named("link:25/600/1,up=3").up.rate_kbit == 3000 and named("trace:walk@drawn").down.offset_drawn


def test_a_load_draws_its_rate_and_round_trip() -> None:
    """The same under every configuration, within what was asked, another for another seed or condition."""
    around = named("link:10/40/1,spread=6")
    every = [around.drawn(seed) for seed in range(200)]
    assert around.drawn(3) == every[3] and named("link:10/40/1").drawn(3) == named("link:10/40/1")
    for values, middle in (([one.down.rate_kbit for one in every], 10_000), ([one.rtt_ms for one in every], 40)):
        assert 0.94 * middle <= min(values) < 0.95 * middle and 1.05 * middle < max(values) <= 1.06 * middle
    assert replace(around, salt=1).drawn(3).rtt_ms != every[3].rtt_ms


def test_the_realism_set_is_named() -> None:
    assert len({named(row.condition) for row in realism.ROWS}) == len(realism.ROWS) == 46
    assert set(realism.DAMAGE) <= {row.condition for row in realism.ROWS if named(row.condition).neighbours}


def test_only_uneven_links_are_played() -> None:
    assert [c.name for c in EVERY if c.is_played] == [f"pantheon:{n}" for n in (1, 2, 3, 13, 14)] + [EVERY[-1].name]
    assert named("access:4g;2:pantheon:1").is_played and not named("access:4g;2:access:3g").is_played


def test_changes_stand_in_order() -> None:
    steps = named("access:4g;2:access:3g;5.5:access:dsl").steps
    assert [(step.at_s, step.down.rate_kbit) for step in steps] == [(2, 1600), (5.5, 1500)]
    with pytest.raises(BadInput, match="order"):
        named("access:4g;5:access:3g;2:access:dsl")


@pytest.mark.parametrize(
    "name",
    ["", "hotcloud", "hotcloud:1/2", "hotcloud:a/b/c", "access:5g",
     "access:3g/0", "access:3g/x", "access:3g/nan", "pantheon:19", "pantheon:0", "pantheon:x", "trace:",
     "trace:a@.", "access:4g;access:3g", "access:4g;x:access:3g", "hotcloud:1/50/101", "hotcloud:-1/50/0",
     "hotcloud:nan/50/0", "hotcloud:inf/50/0", "emulated:5/20/1", "emulated:5/20/1/0", "emulated:5/20/1/10.5",
     "hotcloud:0/50/0", "access:4g;-1:access:3g", "access:4g;nan:access:3g", "access:4g;inf:access:3g",
     "link:1/1", "link:1/1/0", "policer:5/50/100", "policer:0/50/9000", "link:1/50/1,runs=8", "link:1/50/1,aqm=red",
     "trace:commute,runs=3", "link:1/50/1,what=1", "link:1/50/1,window=x", "access:4g;2:access:3g,neighbours=1",
     "link:1/50/1,neighbours=5", "link:1/50/1,neighbours=1,window=9000", "link:1/50/1,spread=100",
     "link:1/50/1,weight=0", "link:1/50/1,loss=3,runs=0.5", "link:1/50/1,loss=60,runs=1", "policer:1/50/9000,aqm=pie",
     "emulated:0/20/1/10", "emulated:5/20/101/10", "emulated:5/20/1/10/trace", "emulated:5/20/1/10/poisson/1"],
)  # fmt: skip
def test_nonsense_is_reported(name: str) -> None:
    with pytest.raises(BadInput):
        named(name)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"down": 3}', EVERY[0].to_json().replace("salt", "sugar")])
def test_text_that_is_no_condition_is_reported(text: str) -> None:
    with pytest.raises(BadInput):
        Condition.from_json(text)


@pytest.mark.parametrize(
    "fields",
    [{"loss": 1.1}, {"rate_kbit": -1}, {"kind": "magic"}, {"kind": "poisson"}, {"kind": "trace"}, {"trace": "x"},
     {"queue_bytes": 1, "queue_packets": 1}, {"rate_kbit": 1, "kind": "bursts", "burst_packets": 0}],
)  # fmt: skip
def test_a_way_that_cannot_be_is_reported(fields: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        LinkDirection(**fields)  # type: ignore[arg-type]
