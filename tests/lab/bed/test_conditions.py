# SPDX-License-Identifier: MIT
"""Conditions: what their names mean, that their text brings them back, and that nonsense is told."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from configtron.errors import BadInput
from configtron.lab.bed import families
from configtron.lab.bed.conditions import Condition, Way
from configtron.lab.bed.families import LEAST_QUEUE_BYTES, LEAST_SHALLOW_BYTES, named

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
    assert named("pantheon:14").up == Way(600, 10, kind="bursts", burst_packets=10)


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
     "emulated:0/20/1/10", "emulated:5/20/101/10", "emulated:5/20/1/10/trace", "emulated:5/20/1/10/poisson/1"],
)  # fmt: skip
def test_nonsense_is_told(name: str) -> None:
    with pytest.raises(BadInput):
        named(name)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"down": 3}', EVERY[0].to_json().replace("salt", "sugar")])
def test_text_that_is_no_condition_is_told(text: str) -> None:
    with pytest.raises(BadInput):
        Condition.from_json(text)


@pytest.mark.parametrize(
    "fields",
    [{"loss": 1.1}, {"rate_kbit": -1}, {"kind": "magic"}, {"kind": "poisson"}, {"kind": "trace"}, {"trace": "x"},
     {"queue_bytes": 1, "queue_packets": 1}, {"rate_kbit": 1, "kind": "bursts", "burst_packets": 0}],
)  # fmt: skip
def test_a_way_that_cannot_be_is_told(fields: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        Way(**fields)  # type: ignore[arg-type]
