# SPDX-License-Identifier: MIT
"""The closed loop's learner: its propensities are the kernel's, what fails looks slow, and a kill changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import cast

import numpy as np
import pytest

from configtron.learner.closed_loop import LoopLearner, LoopOptions
from configtron.learner.live_rows import (
    MOST_PER_UNIT,
    NO_ARM,
    NO_CLASS,
    NO_MAP,
    NO_TIME,
    OTHER_PROPENSITY,
    OVER_UNIT,
    WORST_MS,
    drawn_of,
)  # fmt: skip
from configtron.learner.map_making import MapOptions
from configtron.learner.map_text import map_text
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from tests.support.live_world import LiveWorld, clients_of
from tests.support.worlds import small_tensor

KEY = bytes(range(16))
WHOLE_TENSOR = small_tensor(conditions=6)
# What a kernel sets: one version of HTTP, and no corking.
TENSOR = WHOLE_TENSOR.over(WHOLE_TENSOR.grid.only(
    at for at, profile in enumerate(WHOLE_TENSOR.grid.profiles)
    if ("http_version", "http/1.1") in profile.settings and ("tcp_autocorking", 1) in profile.settings
))  # fmt: skip
EPOCH_NS = 600 * 10**9


def world(seed: int = 1, loads: int = 400) -> LiveWorld:
    clients = clients_of({"near": {0: 1, 1: 1}, "far": {2: 1, 3: 1}}, 3, 40, np.random.default_rng(seed))
    return LiveWorld(TENSOR, clients, seed, loads=loads)


def learner(**more: object) -> LoopLearner:
    given: dict[str, object] = {"policy": "mab_nc", "begin_with": 600, "classes": 4, "features": "few"} | more
    return LoopLearner(LoopOptions(TENSOR.grid, map=MapOptions(holdback=0.25), **given), 1, KEY)  # type: ignore[arg-type]


def lived(one: LoopLearner, here: LiveWorld, epochs: range) -> list[FleetMap]:
    maps = []
    for epoch in epochs:
        fleet_map, _ = one.turn(epoch * EPOCH_NS)
        maps.append(fleet_map)
        one.take(here.epoch(epoch, fleet_map).rows)
    return maps


@pytest.fixture(scope="module")
def lived_learner() -> LoopLearner:
    one = learner()
    lived(one, world(), range(5))
    return one


def test_nothing_is_drawn_before_there_are_classes() -> None:
    one = learner()
    maps = lived(one, world(), range(3))
    assert not maps[0].mixes and not maps[1].mixes and maps[2].mixes and maps[2].prefixes
    assert [one.version for one in maps] == [1, 2, 3] and one.outcomes_ == 1200 and not one.left_out_


def test_kernels_that_report_no_bandwidth_are_learned_from() -> None:
    """As BPF programs without the kernel's type information: every row lacks it."""
    one, here = learner(), world()
    for epoch in range(5):
        fleet_map, _ = one.turn(epoch * EPOCH_NS)
        one.take([row._replace(bandwidth_kbps=None) for row in here.epoch(epoch, fleet_map).rows])
    assert fleet_map.mixes and fleet_map.prefixes and len(set(fleet_map.prefixes.values())) > 1
    again = learner()
    again.restore(one.save())
    assert again.alike_ and again.save() == one.save()


@pytest.mark.parametrize("unknown", ["rtt_ms", "loss"])
def test_without_a_known_network_every_client_keeps_default(unknown: str) -> None:
    one, here = learner(begin_with=100), world(loads=150)
    for epoch in range(4):
        fleet_map, _ = one.turn(epoch * EPOCH_NS)
        one.take([row._replace(**{unknown: None}) for row in here.epoch(epoch, fleet_map).rows])  # type: ignore[arg-type]
        assert not fleet_map.mixes
    assert one.outcomes_ == 600 and len(one.waiting_) == 400
    assert lived(one, here, range(5, 7))[1].mixes


@pytest.mark.slow
def test_propensities_are_the_draws(lived_learner: LoopLearner) -> None:
    """Of every load: what the policy learns is the share of units that the kernel gives this profile to."""
    here, fleet_map = world(loads=4000), lived_learner.map
    assert fleet_map is not None
    made = here.epoch(9, fleet_map)
    default = TENSOR.grid.profiles[TENSOR.grid.default]
    drawn = [cast(tuple[Profile, float], drawn_of(row, fleet_map, default)) for row in made.rows]
    assert not [one for one in drawn if isinstance(one, str)]
    # Shares of units, by class and profile, against the propensities: binomial, five standard deviations.
    units: dict[tuple[str, int], tuple[str, float]] = {}
    for row, one, client in zip(made.rows, drawn, made.client, strict=True):
        units[row.class_name, int(client)] = (str(TENSOR.grid.index(one[0])), one[1])
    for name in {name for name, _ in units}:
        some = [found for (of, _), found in units.items() if of == name]
        for profile, propensity in set(some):
            share = sum(one == profile for one, _ in some) / len(some)
            assert abs(share - propensity) <= 5.0 * np.sqrt(propensity / len(some)) + 1e-9


def test_what_each_client_of_a_class_could_have_drawn_adds_up(lived_learner: LoopLearner) -> None:
    fleet_map, default = lived_learner.map, TENSOR.grid.profiles[TENSOR.grid.default]
    assert fleet_map is not None
    for name, mix in fleet_map.mixes.items():
        row = OutcomeRow("web0", "b", 1, 1, "news", "10.0.0.0/24", "u", 900.0, 1, fleet_map.version, 4, name)
        found = {}
        for arm in (*range(len(mix)), None):
            one = drawn_of(row._replace(arm=arm, held=arm is None), fleet_map, default)
            assert not isinstance(one, str)
            found[one[0].settings] = one[1]
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)


def changed(row: OutcomeRow, **how: object) -> OutcomeRow:
    return row._replace(**how)  # type: ignore[arg-type]


def test_rows_that_do_not_count_are_counted_by_reason(lived_learner: LoopLearner) -> None:
    one = learner()
    one.restore(lived_learner.save())
    fleet_map = one.turn(5 * EPOCH_NS)[0]
    row = next(row for row in world().epoch(5, fleet_map).rows if row.arm is not None)
    before = one.outcomes_
    one.take([
        changed(row, teaches=False, why_not="near-turn"), changed(row, class_name="nowhere", map_version=77),
        changed(row, class_name="nowhere"), changed(row, arm=9), changed(row, propensity=0.5),
        changed(row, plt_ms=None), changed(row, plt_ms=float("nan")), changed(row, plt_ms=-1.0),
    ])  # fmt: skip
    reasons = Counter({"near-turn": 1, NO_MAP: 1, NO_CLASS: 1, NO_ARM: 1, OTHER_PROPENSITY: 1, NO_TIME: 3})
    assert one.left_out_ - lived_learner.left_out_ == reasons and one.outcomes_ == before
    one.take([changed(row, sequence=at) for at in range(MOST_PER_UNIT + 5)])
    assert one.left_out_[OVER_UNIT] == 5 and one.outcomes_ == before + MOST_PER_UNIT


def test_a_load_that_never_ended_counts_as_the_slowest(lived_learner: LoopLearner) -> None:
    one = learner()
    one.restore(lived_learner.save())
    fleet_map = one.turn(5 * EPOCH_NS)[0]
    row = next(row for row in world().epoch(5, fleet_map).rows if row.arm is not None)
    taken = one.take([changed(row, plt_ms=None, failure="tcp"), changed(row, plt_ms=10 * WORST_MS)])
    assert [outcome.plt_ms for outcome in taken] == [WORST_MS, WORST_MS]


@pytest.mark.slow
def test_a_profile_that_ends_connections_is_not_drawn_any_more() -> None:
    """Its loads that do end are the fastest of all."""
    one, here = learner(policy="thompson", begin_with=400), world(loads=600)
    maps = lived(one, here, range(6))
    weight = Counter({name: parts for mix in maps[-1].mixes.values() for name, parts in mix if name != "default"})
    bad = weight.most_common(1)[0][0]
    for epoch in range(6, 9):
        fleet_map, _ = one.turn(epoch * EPOCH_NS)
        rows = here.epoch(epoch, fleet_map).rows
        one.take([changed(row, plt_ms=None, failure="tcp") if row.profile == bad else row for row in rows])
    last = one.turn(9 * EPOCH_NS)[0]
    assert sum(parts for mix in last.mixes.values() for name, parts in mix if name == bad) == 0


@pytest.mark.slow
def test_a_kill_at_any_turn_changes_nothing() -> None:
    """Saved and restored at every turn and after every batch, or never: the same maps, byte for byte."""
    for name in ("thompson", "default"):
        whole = learner(policy=name)
        maps = lived(whole, world(loads=250), range(5))
        here, state, found = world(loads=250), learner(policy=name).save(), []
        for epoch in range(5):
            one = learner(policy=name)
            one.restore(state)
            fleet_map, _ = one.turn(epoch * EPOCH_NS)
            found.append(map_text(fleet_map))
            another = learner(policy=name)
            another.restore(one.save())
            rows = here.epoch(epoch, fleet_map).rows
            another.take(rows[:150])
            another.restore(another.save())
            another.take(rows[150:])
            state = another.save()
        assert found == [map_text(one) for one in maps]
        assert state == whole.save()


@pytest.mark.slow
def test_a_prefix_that_changes_its_network_changes_its_class() -> None:
    one, here = learner(), world()
    lived(one, here, range(4))
    here.clients = here.clients.moved(np.array([0]), np.array([3]))
    moved = []
    for epoch in range(4, 7):
        fleet_map, some = one.turn(epoch * EPOCH_NS)
        moved += some
        one.take(here.epoch(epoch, fleet_map).rows)
    mine = [event for event in moved if event.prefix == here.clients.prefix_name(0)]
    assert len(mine) == 1 and mine[0].before != mine[0].now
    assert 1 <= mine[0].outcomes <= 8 and 0.0 < mine[0].seconds <= 600.0
    assert [event for event in moved if event.prefix != here.clients.prefix_name(0)] == []


def test_another_text_is_refused() -> None:
    with pytest.raises(BadInput, match="no state of a closed loop"):
        learner().restore('{"map":[]}')
    with pytest.raises(BadInput, match="16 bytes"):
        LoopLearner(LoopOptions(TENSOR.grid), 1, b"short")


def test_a_profile_keeps_what_is_off_its_default(lived_learner: LoopLearner) -> None:
    fleet_map = lived_learner.map
    assert fleet_map is not None and fleet_map.profiles["default"] == Profile("default")
    for name, profile in fleet_map.profiles.items():
        at = TENSOR.grid.index(profile)
        assert name == "default" or (at != TENSOR.grid.default and 0 < len(profile.settings) < len(TENSOR.grid.knobs))
