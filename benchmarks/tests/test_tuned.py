# SPDX-License-Identifier: MIT
"""The judgement of make demo-tune, and the arithmetic of benchmarks.tune: what must be seen as wrong is."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from benchmarks import tune
from benchmarks.cpu_outside import Meter
from benchmarks.tuned.inside import AFTER, AS_WANTED, PAIR, UNTOUCHED
from benchmarks.tuned.judged import by_gateway, table, wrong
from benchmarks.tuned.page import Sight
from benchmarks.tuned.place import CLIENTS, Client, congestion
from benchmarks.tuned.place import UNTOUCHED as PLAIN
from benchmarks.tuned.remains import differences
from configtron.model.nouns import Observation, Target, Trace

BLOCK = {"connections": 100, "wall_ns": 1_000, "cpu_ns": 500, "p50_ns": 10, "p99_ns": 30}


def sight(wanted: tuple[str, int], seen: tuple[str, int]) -> Sight:
    return Sight(wanted, seen[0], Observation("icw", seen[1], grade="C"), Trace("t", Target("s"), "c", "rwin"))


def visit(tuned: bool) -> dict[str, Sight]:
    wants = {client.name: client.tuned if tuned else PLAIN for client in CLIENTS}
    return {name: sight(want, want) for name, want in wants.items()}


def played() -> tuple[dict[str, Any], dict[str, dict[str, Sight]]]:
    """A demonstration of one driver in which all is as wanted."""
    scene = {"name": "route", "steps": [("apply", "", 0)], "written_by_plan": [], "left": []}
    found = {"restless": [], "wished": [], "scenes": [scene], "left_by_gateway": []}
    seen = {UNTOUCHED: visit(False), "route": visit(True), AFTER.format("route"): visit(False)}
    for name in PAIR:
        choice = next(client.congestion for client in CLIENTS if client.name == name)
        seen[AS_WANTED.format(name)] = {client.name: sight(PLAIN, (choice, 10)) for client in CLIENTS}
    return found, seen


def test_all_as_wanted() -> None:
    found, seen = played()
    assert wrong(found, seen) == []
    assert "!" not in table(seen)
    assert [row[-1] for row in by_gateway(found, seen)] == ["both right", "yes", "no", "no"]


@pytest.mark.parametrize("place", ["restless", "left_by_gateway"])
def test_what_changes_by_itself_is_reported(place: str) -> None:
    found, seen = played()
    found[place].append("routes: left behind: x")
    assert len(wrong(found, seen)) == 1


@pytest.mark.parametrize("place", ["written_by_plan", "left"])
def test_what_a_scene_leaves_is_reported(place: str) -> None:
    found, seen = played()
    found["scenes"][0][place].append("routes: left behind: x")
    assert ["route" in line for line in wrong(found, seen)] == [True]


def test_a_failed_step_is_reported() -> None:
    found, seen = played()
    found["scenes"][0]["steps"].append(("verify", "differs", 1))
    assert wrong(found, seen) == ["route: exit code 1 of: verify\ndiffers"]


@pytest.mark.parametrize("watch", [UNTOUCHED, "route", AFTER.format("route")])
def test_a_client_that_got_something_else_is_reported(watch: str) -> None:
    found, seen = played()
    bent = copy.copy(seen[watch])
    bent["cable"] = sight(bent["cable"].wanted, ("reno", 7))
    seen[watch] = bent
    (line,) = wrong(found, seen)
    assert line.startswith(f"{watch}: cable got reno 7") and table(seen).count("!") == 1


def test_a_gateway_that_distinguishes_clients_is_reported() -> None:
    found, seen = played()
    watch = AS_WANTED.format(PAIR[0])
    seen[watch] = {**seen[watch], PAIR[1]: sight(PLAIN, ("vegas", 10))}
    assert len(wrong(found, seen)) == 1


def test_clients_want_what_shows_a_driver_from_none() -> None:
    wants = [client.tuned for client in CLIENTS if client.congestion]
    assert len(set(wants)) == len(wants) and PLAIN not in wants
    assert Client("a", "192.0.2.0/24", 1).tuned == PLAIN


def test_snapshots_are_compared_both_ways() -> None:
    before, after = {"routes": ["a", "b"], "pins": []}, {"routes": ["b", "c"], "pins": []}
    assert differences(before, after) == ["routes: left behind: c", "routes: gone: a"]
    assert differences(before, before) == []


def test_ss_is_read_by_client() -> None:
    sockets = (
        "0 0 10.9.0.2:80 192.0.2.2:4242 ts sack cubic wscale:7,7 rto:220 rtt:20/10\n"
        "0 0 [::ffff:10.9.0.2]:80 [::ffff:198.51.100.2]:42 ts sack ecn bbr wscale:7,7\n"
        "0 0 [2001:db8:9::2]:80 [2001:db8:6::2]:42 reno wscale:7,7\n"
    )
    addresses = ("192.0.2.2", "198.51.100.2", "2001:db8:6::2", "192.0.2.3")
    assert [congestion(sockets, address) for address in addresses] == ["cubic", "bbr", "reno", "-"]


def test_worse_is_above_one() -> None:
    slow = {"connections": 100, "wall_ns": 1_100, "cpu_ns": 600, "p50_ns": 20, "p99_ns": 15}
    assert tune.worse(slow, BLOCK) == pytest.approx((1.1, 2.0, 0.5, 1.2))
    rounds = [{**BLOCK, "round": n, "role": "untouched"} for n in range(9)]
    rounds += [{**slow, "round": n, "role": "tuned"} for n in range(9)]
    assert [ratio.middle for ratio in tune.ratios(rounds, "tuned")] == pytest.approx([1.1, 2.0, 0.5, 1.2])


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    chance, held = random.Random(1), 0
    for _ in range(2000):
        found = tune.interval([chance.expovariate(1) for _ in range(60)])
        held += found.low <= 0.6931 <= found.high
    # 95 % at least, for it can only be widened; 98 % would be far too wide.
    assert 0.94 < held / 2000 < 0.98


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(1.0, 1.02, "holds"), (1.02, 1.05, "undecided"), (1.04, 1.05, "missed")]
)
def test_verdicts(low: float, high: float, verdict: str) -> None:
    ratio = tune.Ratio((low + high) / 2, low, high)
    even = tune.Ratio(1, 0.99, 1.01)
    assert tune.verdict("ebpf", [even, even, even, ratio]).startswith(verdict)
    # Each figure counts: one that misses, or leaves it open, is the verdict.
    for place in range(4):
        figures = [even] * 4
        figures[place] = ratio
        assert tune.verdict("ebpf", figures).startswith(verdict)
    assert tune.verdict("route", [ratio] * 4) == ""


def test_processor_time_is_read_between_samples() -> None:
    meter = Meter()
    meter._at, meter._used = [1.0, 2.0, 4.0], [100, 200, 300]
    assert meter.used_ns(1.5, 3.0) == pytest.approx(100)
    with pytest.raises(ValueError):
        meter.used_ns(1.5, 4.5)
