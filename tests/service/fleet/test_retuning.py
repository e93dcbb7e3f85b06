# SPDX-License-Identifier: MIT
"""Which open connections follow a class change, and with which profile, by an enforcement that only listens."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

import pytest

from configtron.model.draw import Key, Mix, Plan, draw, unit_of
from configtron.model.errors import ConfigtronError, Missing
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.service.fleet.retuning import TRIES, ClassRetuning
from configtron.service.lease.retuning import Choice, RetuneCount, SocketTarget
from configtron.tune.drivers.pidfd_options import OpenClient
from tests.support.applied_maps import EPOCH_S, HUMANS, MAP, NO_RULES, NS, PREFIXES, TURN_NS, Trial

MOVED = "198.51.3.0/24"
CHANGED = {"prefixes": {**PREFIXES, MOVED: "far"}}
CLIENTS = ("198.51.3.1", "198.51.3.200", "198.51.4.1", "203.0.2.1", "8.8.8.8")
BOTH = set(CLIENTS[:2])
NEW = {"prefixes": {**PREFIXES, MOVED: "new"}, "mixes": {**MAP.mixes, "new": (("fast", 65_536),)}}
NEAR_IS_FAR = {prefix: "far" if name == "near" else name for prefix, name in PREFIXES.items()}
INNER = {"198.51.3.128/25": "near"}


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
    asked: Asked, draws: bool = True, second: dict[str, Any] = CHANGED, humans: Rules = NO_RULES, **first: Any
) -> tuple[Trial, ClassRetuning]:
    """Return a trial with a second map in force, and what follows it."""
    trial = Trial(draws, humans)
    following = ClassRetuning(trial.one, asked)
    trial.take(**first)
    assert not trial.one.take_reclassed(), "no prefix had a class before"
    trial.take(1.0, version=2, **second)
    assert not trial.one.take_reclassed()
    trial.tick(2.0, EPOCH_S)
    following.add(trial.one.take_reclassed())
    return trial, following


def test_connections_of_the_changed_prefix_get_what_new_ones_would() -> None:
    mixes = {"mixes": {**MAP.mixes, "far": (("slow", 32_768), ("fast", 32_768))}, "holdback": 20_000}
    clients = [f"198.51.3.{at}" for at in range(1, 60)]
    asked = Asked([*clients, "198.51.4.1"])
    _, following = retuning(asked, second=CHANGED | mixes, **mixes)
    assert following.turn() is not None
    (found,) = asked.calls
    assert set(found) == set(clients)
    assert all(target[:3] == (MOVED, "near", "far") for target in found.values())
    plan = Plan(Key.of(MAP.key), TURN_NS // NS // EPOCH_S, 0, 20_000)
    for client, target in found.items():
        arm = draw(plan, Mix(("slow", "fast"), (32_768, 32_768)), unit_of(client)).arm
        assert target.profile.settings == (() if arm is None else MAP.profiles[("slow", "fast")[arm]].settings)
    assert len({target.profile.settings for target in found.values()}) == 3, "two arms, and the held back"
    assert following.turn() is None and len(asked.calls) == 1


@pytest.mark.parametrize(("draws", "humans", "first", "second", "clients", "names"), [
    # where the kernel does not draw all clients of a prefix get its profile
    (False, NO_RULES, {}, CHANGED, BOTH, {"slow"}),
    # a class that is new comes with its mix
    (True, NO_RULES, {}, NEW, BOTH, {"fast"}),
    # longer prefixes and a human's keep what they have: 198.51.7.0/24 is one
    (True, HUMANS, {"prefixes": {**PREFIXES, **INNER}}, {"prefixes": {**NEAR_IS_FAR, **INNER}},
     {"198.51.3.1", "198.51.4.1"}, {"slow"}),
])  # fmt: skip
def test_who_follows_with_which_profile(
    draws: bool, humans: Rules, first: dict[str, Any], second: dict[str, Any], clients: set[str], names: set[str]
) -> None:
    asked = Asked([*CLIENTS, "198.51.7.1"])
    trial, following = retuning(asked, draws, second, humans, **first)
    assert following.turn() is not None
    assert set(asked.calls[0]) == clients and {one.profile.name for one in asked.calls[0].values()} == names
    assert draws or trial.one.rules.prefixes[MOVED] == "slow"


def test_a_class_with_a_profile_beyond_a_bound_is_not_given_to_open_connections() -> None:
    barred = {"profiles": {**MAP.profiles, "slow": Profile("slow", (("initcwnd", 99),))}}
    asked = Asked()
    _, following = retuning(asked, second=CHANGED | barred, **barred)
    assert following.turn() is None and not asked.calls


def test_what_there_was_no_time_for_comes_next_and_errors_are_tried_again() -> None:
    asked = Asked()
    _, following = retuning(asked)
    asked.later = frozenset([1])
    following.turn()
    following.turn()
    assert [set(call) for call in asked.calls] == [BOTH, {CLIENTS[1]}]
    assert following.turn() is None
    asked.refuses = Missing("no inet_diag")
    following.add({MOVED: "near"})
    for _ in range(TRIES):
        assert following.turn() is None
    asked.refuses = None
    assert following.turn() is None and len(asked.calls) == 2, "given up"


def test_nothing_is_re_tuned_while_the_place_is_frozen_or_after_the_map_is_lost() -> None:
    asked = Asked()
    trial, following = retuning(asked)
    trial.one.frozen = "another program"
    assert following.turn() is None
    trial.one.frozen = ""
    following.turn()
    assert len(asked.calls) == 1
    trial.take(3.0, version=3)
    trial.tick(4.0, 2 * EPOCH_S)
    assert trial.one.reclassed == {MOVED: "far"}
    trial.tick(4000.0)
    assert not trial.one.take_reclassed(), "the map is void"


def test_a_prefix_that_returns_before_it_was_re_tuned_needs_nothing() -> None:
    trial = Trial(draws=True)
    trial.take()
    trial.take(1.0, version=2, **CHANGED)
    trial.take(2.0, version=3)
    assert trial.one.take_reclassed() == {}
    trial.tick(3.0, EPOCH_S)
    assert trial.one.take_reclassed() == {}
    # Also where both came in force.
    trial.take(4.0, version=4, **CHANGED)
    trial.tick(5.0, 2 * EPOCH_S)
    trial.take(6.0, version=5)
    trial.tick(7.0, 3 * EPOCH_S)
    assert trial.one.take_reclassed() == {}
