# SPDX-License-Identifier: MIT
"""The maker that learns: one map an epoch, whatever numbers a manager gives it, and nothing that is barred."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LEAD_S, LoopMapMaker
from configtron.learner.map_making import MapOptions
from configtron.learner.map_text import map_text
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.map_maker import class_by_map
from tests.support.live_world import LiveWorld, clients_of
from tests.support.worlds import small_tensor

WHOLE_TENSOR = small_tensor(conditions=4)
TENSOR = WHOLE_TENSOR.over(WHOLE_TENSOR.grid.only(
    at for at, profile in enumerate(WHOLE_TENSOR.grid.profiles)
    if ("http_version", "http/1.1") in profile.settings and ("tcp_autocorking", 1) in profile.settings
))  # fmt: skip
EPOCH_S, LATE_S = 600, 595


def maker(key: bytes = bytes(16)) -> LoopMapMaker:
    options = LoopOptions(TENSOR.grid, "mab_nc", MapOptions(holdback=0.2), begin_with=300, classes=3, features="few")
    return LoopMapMaker(options, key)


def world(loads: int = 300) -> LiveWorld:
    clients = clients_of({"all": {at: 1 for at in range(4)}}, 4, 40, np.random.default_rng(3))
    return LiveWorld(TENSOR, clients, 3, loads=loads)


def free(profile: Profile) -> str:
    return ""


def only_cubic(profile: Profile) -> str:
    return "only cubic here" if "tcp_congestion_control" in dict(profile.settings) else ""


def numbered(one: FleetMap | None, version: int) -> FleetMap:
    """As a manager publishes it."""
    assert one is not None
    return replace(one, term=7, version=version)


def test_one_map_an_epoch_shortly_before_it_begins() -> None:
    one = maker()
    made = [at for at in range(0, 4 * EPOCH_S) if one.make(at * 10**9, free) is not None]
    assert made == [0, *(round(epoch * EPOCH_S - LEAD_S) for epoch in (1, 2, 3, 4))]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_was_set_back_does_not_end_the_making_of_maps(restarted: bool) -> None:
    """A host whose clock had begun in another year made no map until that year came, also after a restart."""
    one = maker()
    assert one.make(1_000_000 * EPOCH_S * 10**9, free) is not None
    if restarted:
        former, one = one, maker()
        one.restore(former.save())
    # Within an epoch there is one map, also where the clock was set by seconds.
    assert one.make((999_999 * EPOCH_S + 100) * 10**9, free) is None
    made = [at for at in range(0, 2 * EPOCH_S, 5) if one.make((1_000 * EPOCH_S + at) * 10**9, free) is not None]
    assert made == [0, EPOCH_S - LEAD_S, 2 * EPOCH_S - LEAD_S]


@pytest.mark.slow
def test_rows_of_a_manager_s_own_numbers_are_learned() -> None:
    """Also those of the map before: agents turn at the epoch, so late rows are of an earlier one."""
    one, here = maker(), world()
    before = numbered(one.make(0, free), 40)
    for epoch in range(1, 6):
        now = numbered(one.make((epoch * EPOCH_S - 5) * 10**9, free), 40 + 3 * epoch)
        late, fresh = here.epoch(epoch, before).rows[:30], here.epoch(epoch, now).rows
        one.observe([row._replace(unit=row.unit + "late") for row in late])
        one.observe(fresh)
        before = now
    assert one.learner.outcomes_ == 5 * 330 and not one.learner.left_out_


@pytest.mark.slow
def test_what_is_barred_is_not_drawn() -> None:
    for late in (False, True):
        one, here, seen = maker(), world(), []
        for epoch in range(5):
            fleet_map = numbered(
                one.make(epoch * EPOCH_S * 10**9, free if late and epoch < 3 else only_cubic), epoch + 1
            )
            one.observe(here.epoch(epoch, fleet_map).rows)
            seen.append([profile for profile in fleet_map.profiles.values() if only_cubic(profile)])
        assert not seen[-1] and not seen[-2] and any(seen) is late


@pytest.mark.slow
def test_a_restored_maker_makes_the_same_map_and_keeps_its_key() -> None:
    one, here = maker(bytes(range(16))), world()
    for epoch in range(3):
        one.observe(here.epoch(epoch, numbered(one.make(epoch * EPOCH_S * 10**9, free), epoch + 1)).rows)
    other = maker()
    other.restore(one.save())
    assert other.make(2 * EPOCH_S * 10**9, free) is None
    first, second = (each.make(3 * EPOCH_S * 10**9, free) for each in (one, other))
    assert first is not None and second is not None and map_text(first) == map_text(second)
    assert first.key == second.key == bytes(range(16))
    with pytest.raises(BadInput, match="no state of a learner"):
        maker().restore('{"map":[]}')


def test_an_unlisted_prefix_has_the_class_of_its_outcomes_or_its_round_trip() -> None:
    one, here = maker(), world(loads=60)
    assert one.classes() == {} and class_by_map(one.learner.map, {}, "10.0.0.0/24", 20_000) == ""
    for epoch in range(8):
        one.observe(here.epoch(epoch, numbered(one.make(epoch * EPOCH_S * 10**9, free), epoch + 1)).rows)
    fleet_map = one.learner.map
    assert fleet_map is not None and fleet_map.bands
    known = one.classes()
    unlisted = next(prefix for prefix in known if prefix not in fleet_map.prefixes)
    assert class_by_map(fleet_map, known, unlisted, 0) == known[unlisted] in fleet_map.mixes
    by_band = {rtt_us: class_by_map(fleet_map, known, "192.0.2.0/24", rtt_us) for rtt_us in (1, 30_000, 200_000, 10**6)}
    assert set(by_band.values()) - {""} <= {band.class_name for band in fleet_map.bands} and any(by_band.values())
    assert class_by_map(fleet_map, known, "192.0.2.0/24", 0) == ""
