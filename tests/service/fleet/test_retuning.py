# SPDX-License-Identifier: MIT
"""Which open connections follow a class change, and with which profile, by an enforcement that only listens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address

from configtron.fleet.map_document import SignedMap
from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.errors import ConfigtronError, Missing
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.applier import Applier
from configtron.service.fleet.retuning import TRIES, ClassRetuning
from configtron.service.lease.retuning import Choice, RetuneCount, SocketTarget
from configtron.tune.drivers.pidfd_options import OpenClient
from tests.support.applied_maps import EPOCH_S, HUMANS, KEY, MAP, NS, START_NS, TURN_NS, Recorded, loaded, made

MOVED = "198.51.3.0/24"
CHANGED = replace(MAP, version=2, prefixes={**MAP.prefixes, MOVED: "far"})
CLIENTS = ["198.51.3.1", "198.51.3.200", "198.51.4.1", "203.0.2.1", "8.8.8.8"]


class Asked:
    """Keeps what connections were to get; `later`: cookies that the next call leaves for the one after."""

    def __init__(self, clients: Iterable[str] = CLIENTS) -> None:
        self.clients = [OpenClient(at, at, 80, ip_address(one)) for at, one in enumerate(clients)]
        self.calls: list[dict[str, SocketTarget]] = []
        self.later: frozenset[int] = frozenset()
        self.refuses: ConfigtronError | None = None

    def retune(self, choose: Choice, profiles: Iterable[Profile], until_s: float) -> RetuneCount:
        if self.refuses:
            raise self.refuses
        found = choose(self.clients)
        self.calls.append({str(self.clients[cookie].address): target for cookie, target in found.items()})
        later, self.later = self.later, frozenset()
        return RetuneCount(len(found), len(found) - len(later), later=later)


def retuning(
    first: FleetMap, second: FleetMap, draws: bool, asked: Asked, humans: Rules | None = None
) -> tuple[Applier, ClassRetuning, SignedMap]:
    """Return an applier with a second map in force, and what follows it."""
    one = Applier(Recorded(draws), KEY.verify_key, humans or Rules(), humans)
    following = ClassRetuning(one, asked)
    base = made(first)
    assert not loaded(one, base).result.error and not one.take_reclassed(), "no prefix had a class before"
    assert not loaded(one, second_map := made(second), 1.0).result.error and not one.take_reclassed()
    one.tick(2.0, TURN_NS)
    following.add(one.take_reclassed())
    return one, following, second_map


def drawn(fleet_map: FleetMap, client: str, class_name: str) -> Profile:
    mix = Mix(*zip(*fleet_map.mixes[class_name], strict=True))
    plan = Plan(Key.of(fleet_map.key), TURN_NS // NS // EPOCH_S, 0, fleet_map.holdback)
    arm = draw(plan, mix, unit_of(client)).arm
    return Profile("untouched") if arm is None else fleet_map.profiles[mix.profiles[arm]]


def test_connections_of_the_changed_prefix_get_what_new_ones_would() -> None:
    two = replace(CHANGED, mixes={**MAP.mixes, "far": (("slow", 32_768), ("fast", 32_768))}, holdback=20_000)
    clients = [f"198.51.3.{at}" for at in range(1, 60)]
    asked = Asked([*clients, "198.51.4.1"])
    _, following, _ = retuning(replace(two, version=1, prefixes=MAP.prefixes), two, True, asked)
    assert following.turn() is not None
    (found,) = asked.calls
    assert set(found) == set(clients)
    assert all(target[:3] == (MOVED, "near", "far") for target in found.values())
    assert {one: target.profile.settings for one, target in found.items()} == {
        one: drawn(two, one, "far").settings for one in clients
    }
    assert len({target.profile.settings for target in found.values()}) == 3, "two arms, and the held back"
    assert following.turn() is None and len(asked.calls) == 1


def test_where_the_kernel_does_not_draw_all_clients_of_a_prefix_get_its_profile() -> None:
    asked = Asked()
    one, following, _ = retuning(MAP, CHANGED, False, asked)
    following.turn()
    (found,) = asked.calls
    assert set(found) == set(CLIENTS[:2])
    names = {target.profile.name for target in found.values()}
    assert names == {one.rules.prefixes[MOVED]} == {"slow"}


def test_longer_prefixes_and_a_humans_keep_what_they_have() -> None:
    inner = {**MAP.prefixes, "198.51.3.128/25": "near"}
    asked = Asked([*CLIENTS, "198.51.7.1"])
    every = {prefix: "far" if name == "near" else name for prefix, name in MAP.prefixes.items()}
    second = replace(CHANGED, prefixes={**every, "198.51.3.128/25": "near"})
    _, following, _ = retuning(replace(MAP, prefixes=inner), second, True, asked, HUMANS)
    following.turn()
    assert set(asked.calls[0]) == {"198.51.3.1", "198.51.4.1"}, "198.51.7.0/24 is a human's"


def test_a_class_that_is_new_comes_with_its_mix() -> None:
    new = replace(CHANGED, prefixes={**MAP.prefixes, MOVED: "new"}, mixes={**MAP.mixes, "new": (("fast", 65_536),)})
    asked = Asked()
    _, following, _ = retuning(MAP, new, True, asked)
    assert following.turn() is not None
    assert {target.profile.name for target in asked.calls[0].values()} == {"fast"}


def test_a_class_with_a_profile_beyond_a_bound_is_not_given_to_open_connections() -> None:
    barred = replace(CHANGED, profiles={**MAP.profiles, "slow": Profile("slow", (("initcwnd", 99),))})
    asked = Asked()
    _, following, _ = retuning(replace(barred, version=1, prefixes=MAP.prefixes), barred, True, asked)
    assert following.turn() is None and not asked.calls


def test_what_there_was_no_time_for_comes_next_and_errors_are_tried_again() -> None:
    asked = Asked()
    _, following, _ = retuning(MAP, CHANGED, True, asked)
    asked.later = frozenset([1])
    following.turn()
    following.turn()
    assert [set(call) for call in asked.calls] == [set(CLIENTS[:2]), {CLIENTS[1]}]
    assert following.turn() is None
    asked.refuses = Missing("no inet_diag")
    following.add({MOVED: "near"})
    for _ in range(TRIES):
        assert following.turn() is None
    asked.refuses = None
    assert following.turn() is None and len(asked.calls) == 2, "given up"


def test_nothing_is_re_tuned_while_the_place_is_frozen_or_after_the_map_is_lost() -> None:
    asked = Asked()
    one, following, second = retuning(MAP, CHANGED, True, asked)
    one.frozen = "another program"
    assert following.turn() is None
    one.frozen = ""
    following.turn()
    assert len(asked.calls) == 1
    back = made(replace(MAP, version=3))
    loaded(one, back, 3.0)
    one.tick(4.0, TURN_NS + EPOCH_S * NS)
    assert one.reclassed == {MOVED: "far"}
    one.tick(4000.0, START_NS + 4000 * NS)
    assert not one.take_reclassed(), "the map is void"


def test_a_prefix_that_returns_before_it_was_re_tuned_needs_nothing() -> None:
    one = Applier(Recorded(True), KEY.verify_key, Rules())
    first, second, third = made(), made(CHANGED), made(replace(MAP, version=3))
    loaded(one, first)
    loaded(one, second, 1.0)
    loaded(one, third, 2.0)
    assert one.take_reclassed() == {}
    one.tick(3.0, TURN_NS)
    assert one.take_reclassed() == {}
    # Also where both came in force.
    loaded(one, made(replace(CHANGED, version=4)), 4.0)
    one.tick(5.0, TURN_NS + EPOCH_S * NS)
    loaded(one, made(replace(MAP, version=5)), 6.0)
    one.tick(7.0, TURN_NS + 2 * EPOCH_S * NS)
    assert one.take_reclassed() == {}
