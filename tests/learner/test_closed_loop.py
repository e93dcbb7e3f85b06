# SPDX-License-Identifier: MIT
"""The closed loop: the kernel's propensities, what fails looks slow, kills change nothing; its maker and its maps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.learner import Setting, live_rows
from configtron.learner.closed_loop import LoopLearner, LoopOptions
from configtron.learner.loop_maker import LEAD_S, LoopMapMaker
from configtron.learner.map_making import BAND_ENDS_US, MapOptions, map_of
from configtron.learner.map_text import map_of_text, map_text
from configtron.learner.mixes import arms_of, class_shares
from configtron.learner.table_policy import TablePolicy
from configtron.learner.traffic import LATE_EPOCHS, PrefixTraffic, Traffic
from configtron.model.errors import BadInput
from configtron.model.fleet import MOST_ARMS, WHOLE, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.studies.policies.mab import Bandit
from tests.support.live_world import LiveWorld, clients_of
from tests.support.worlds import lived as live
from tests.support.worlds import small_classes, small_tensor

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


def learner(policy: str = "mab_nc", begin_with: int = 600) -> LoopLearner:
    options = LoopOptions(TENSOR.grid, policy, MapOptions(holdback=0.25), begin_with=begin_with, classes=4,
                          features="few")  # fmt: skip
    return LoopLearner(options, 1, KEY)


def restored(state: str, policy: str = "mab_nc") -> LoopLearner:
    one = learner(policy)
    one.restore(state)
    return one


def lived(one: LoopLearner, here: LiveWorld, epochs: range, **changed: object) -> list[FleetMap]:
    maps = []
    for epoch in epochs:
        maps.append(one.turn(epoch * EPOCH_NS)[0])
        one.take([row._replace(**changed) for row in here.epoch(epoch, maps[-1]).rows])  # type: ignore[arg-type]
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
    one = learner()
    fleet_map = lived(one, world(), range(5), bandwidth_kbps=None)[-1]
    assert fleet_map.mixes and fleet_map.prefixes and len(set(fleet_map.prefixes.values())) > 1
    again = restored(one.save())
    assert again.alike_ and again.save() == one.save()


def test_hosts_that_clients_make_up_are_no_sites() -> None:
    """Whatever hosts a tenth of the clients name; what they do teaches, with that of all other sites."""
    one, here = learner(), world()
    for epoch in range(4):
        rows = here.epoch(epoch, one.turn(epoch * EPOCH_NS)[0]).rows
        one.take([row._replace(site=f"{at}.example") if at % 10 == 0 else row for at, row in enumerate(rows)])
    assert isinstance(one.policy, TablePolicy) and set(one.policy.sites) == set(TENSOR.sites)
    others = one.policy.cells.tally_.count.reshape(-1, len(TENSOR.sites) + 1, len(TENSOR.grid))[:, -1].sum()
    assert others == 120, "the last 400 loads wait for the next turn"


def test_clients_are_counted_after_a_longer_epoch_or_a_clock_set_back() -> None:
    """Epochs had lower numbers then, and no client of a known prefix was counted any more."""
    before = PrefixTraffic().with_unit(1_000_000, "a")
    again, one = before.with_unit(100_000, "b").with_unit(100_000, "c"), learner()
    assert before.with_unit(1_000_000 - LATE_EPOCHS, "late") == before and again.clients == 2
    one.counts_[1_000_000, "a"] = one.counts_[4, "a"] = live_rows.MOST_PER_UNIT
    one.turn(5 * EPOCH_NS)
    assert list(one.counts_) == [(4, "a")]


@pytest.mark.parametrize("unknown", ["rtt_ms", "loss"])
def test_without_a_known_network_every_client_keeps_default(unknown: str) -> None:
    one, here = learner(begin_with=100), world(loads=150)
    assert not any(fleet_map.mixes for fleet_map in lived(one, here, range(4), **{unknown: None}))
    assert one.outcomes_ == 600 and len(one.waiting_) == 400
    assert lived(one, here, range(5, 7))[1].mixes


@pytest.mark.slow
def test_propensities_are_the_draws(lived_learner: LoopLearner) -> None:
    """Of every load: what the policy learns is the share of units that the kernel gives this profile to."""
    here, fleet_map = world(loads=4000), lived_learner.map
    assert fleet_map is not None
    made, default = here.epoch(9, fleet_map), TENSOR.grid.profiles[TENSOR.grid.default]
    # Shares of units, by class and profile, against the propensities: binomial, five standard deviations.
    units: dict[str, dict[int, tuple[int, float]]] = defaultdict(dict)
    for row, client in zip(made.rows, made.client, strict=True):
        profile, propensity = cast(tuple[Profile, float], live_rows.drawn_of(row, fleet_map, default))
        units[row.class_name][int(client)] = (TENSOR.grid.index(profile), propensity)
    for found in units.values():
        some = list(found.values())
        for arm, propensity in set(some):
            share = sum(one == arm for one, _ in some) / len(some)
            assert abs(share - propensity) <= 5.0 * np.sqrt(propensity / len(some)) + 1e-9


def test_what_each_client_of_a_class_could_have_drawn_adds_up(lived_learner: LoopLearner) -> None:
    fleet_map, grid = lived_learner.map, TENSOR.grid
    assert fleet_map is not None
    for name, mix in fleet_map.mixes.items():
        row, found = OutcomeRow("web0", "b", 1, 1, "news", "10.0.0.0/24", "u", 900.0, 1, fleet_map.version, 4, name), {}
        for arm in (*range(len(mix)), None):
            one = live_rows.drawn_of(row._replace(arm=arm, held=arm is None), fleet_map, grid.profiles[grid.default])
            assert not isinstance(one, str)
            found[one[0].settings] = one[1]
        assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    # a profile keeps what is off its default
    assert fleet_map.profiles["default"] == Profile("default")
    for name, profile in fleet_map.profiles.items():
        at = grid.index(profile)
        assert name == "default" or (at != grid.default and 0 < len(profile.settings) < len(grid.knobs))


def a_row(one: LoopLearner) -> OutcomeRow:
    """A load under the next map."""
    return next(row for row in world().epoch(5, one.turn(5 * EPOCH_NS)[0]).rows if row.arm is not None)


def test_rows_that_do_not_count_are_counted_by_reason(lived_learner: LoopLearner) -> None:
    one = restored(lived_learner.save())
    row, before = a_row(one), one.outcomes_
    ways: tuple[dict[str, Any], ...] = (
        {"teaches": False, "why_not": "near-turn"}, {"class_name": "nowhere", "map_version": 77},
        {"class_name": "nowhere"}, {"arm": 9}, {"propensity": 0.5}, {"plt_ms": None}, {"plt_ms": float("nan")},
        {"plt_ms": -1.0},
    )  # fmt: skip
    one.take([row._replace(**how) for how in ways])
    once = ("near-turn", live_rows.NO_MAP, live_rows.NO_CLASS, live_rows.NO_ARM, live_rows.OTHER_PROPENSITY)
    reasons = Counter({**dict.fromkeys(once, 1), live_rows.NO_TIME: 3})
    assert one.left_out_ - lived_learner.left_out_ == reasons and one.outcomes_ == before
    one.take([row._replace(sequence=at) for at in range(live_rows.MOST_PER_UNIT + 5)])
    assert one.left_out_[live_rows.OVER_UNIT] == 5 and one.outcomes_ == before + live_rows.MOST_PER_UNIT
    again = restored(lived_learner.save())
    row = a_row(again)
    # a load that never ended counts as the slowest
    taken = again.take([row._replace(plt_ms=None, failure="tcp"), row._replace(plt_ms=10 * live_rows.WORST_MS)])
    assert [outcome.plt_ms for outcome in taken] == [live_rows.WORST_MS, live_rows.WORST_MS]


@pytest.mark.slow
def test_a_profile_that_ends_connections_is_not_drawn_any_more() -> None:
    """Its loads that do end are the fastest of all."""
    one, here = learner("thompson", 400), world(loads=600)
    last = lived(one, here, range(6))[-1]
    weight = Counter({name: parts for mix in last.mixes.values() for name, parts in mix if name != "default"})
    bad = weight.most_common(1)[0][0]
    for epoch in range(6, 9):
        rows = here.epoch(epoch, one.turn(epoch * EPOCH_NS)[0]).rows
        one.take([row._replace(plt_ms=None, failure="tcp") if row.profile == bad else row for row in rows])
    last = one.turn(9 * EPOCH_NS)[0]
    assert sum(parts for mix in last.mixes.values() for name, parts in mix if name == bad) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "default"])
def test_a_kill_at_any_turn_changes_nothing(name: str) -> None:
    """Saved and restored at every turn and after every batch, or never: the same maps, byte for byte."""
    whole, here, state, found = learner(name), world(loads=250), learner(name).save(), []
    maps = lived(whole, world(loads=250), range(5))
    for epoch in range(5):
        one = restored(state, name)
        fleet_map, _ = one.turn(epoch * EPOCH_NS)
        found.append(map_text(fleet_map))
        another, rows = restored(one.save(), name), here.epoch(epoch, fleet_map).rows
        another.take(rows[:150])
        another.restore(another.save())
        another.take(rows[150:])
        state = another.save()
    assert found == [map_text(one) for one in maps] and state == whole.save()


@pytest.mark.slow
def test_a_prefix_that_changes_its_network_changes_its_class() -> None:
    one, here, moved = learner(), world(), []
    lived(one, here, range(4))
    here.clients = here.clients.moved(np.array([0]), np.array([3]))
    for epoch in range(4, 7):
        fleet_map, some = one.turn(epoch * EPOCH_NS)
        moved += some
        one.take(here.epoch(epoch, fleet_map).rows)
    (mine,) = moved
    assert mine.prefix == here.clients.prefix_name(0) and mine.before != mine.now
    assert 1 <= mine.outcomes <= 8 and 0.0 < mine.seconds <= 600.0


def test_another_text_is_refused() -> None:
    with pytest.raises(BadInput, match="no state of a closed loop"):
        restored('{"map":[]}')
    with pytest.raises(BadInput, match="16 bytes"):
        LoopLearner(LoopOptions(TENSOR.grid), 1, b"short")
    with pytest.raises(BadInput, match="no state of a learner"):
        maker().restore('{"map":[]}')


EPOCH_S = 600


def maker(key: bytes = bytes(16)) -> LoopMapMaker:
    options = LoopOptions(TENSOR.grid, "mab_nc", MapOptions(holdback=0.2), begin_with=300, classes=3, features="few")
    return LoopMapMaker(options, key)


def world_of_all(loads: int = 300) -> LiveWorld:
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
    assert one.learned() == "outcomes learned: 0 of the 300 that the first classes need"


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
    one, here = maker(), world_of_all()
    before = numbered(one.make(0, free), 40)
    for epoch in range(1, 6):
        now = numbered(one.make((epoch * EPOCH_S - 5) * 10**9, free), 40 + 3 * epoch)
        one.observe([row._replace(unit=row.unit + "late") for row in here.epoch(epoch, before).rows[:30]])
        one.observe(here.epoch(epoch, now).rows)
        before = now
    assert one.learner.outcomes_ == 5 * 330 and one.learned() == "outcomes learned: 1650"


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True])
def test_what_is_barred_is_not_drawn(late: bool) -> None:
    one, here, seen = maker(), world_of_all(), []
    for epoch in range(5):
        barred = free if late and epoch < 3 else only_cubic
        fleet_map = numbered(one.make(epoch * EPOCH_S * 10**9, barred), epoch + 1)
        one.observe(here.epoch(epoch, fleet_map).rows)
        seen.append([profile for profile in fleet_map.profiles.values() if only_cubic(profile)])
    assert not seen[-1] and not seen[-2] and any(seen) is late


def test_a_restored_maker_makes_the_same_map_and_keeps_its_key() -> None:
    one, here = maker(bytes(range(16))), world_of_all()
    for epoch in range(3):
        one.observe(here.epoch(epoch, numbered(one.make(epoch * EPOCH_S * 10**9, free), epoch + 1)).rows)
    other = maker()
    other.restore(one.save())
    assert other.make(2 * EPOCH_S * 10**9, free) is None
    first, second = (each.make(3 * EPOCH_S * 10**9, free) for each in (one, other))
    assert first is not None and second is not None and map_text(first) == map_text(second)
    assert first.key == second.key == bytes(range(16))


NETWORKS, PLAIN = small_tensor(), MapOptions()
CLASSES = small_classes(NETWORKS)


def taught(outcomes: int = 1500) -> Bandit:
    made = Bandit(Setting(NETWORKS.grid, NETWORKS.sites, CLASSES, np.random.default_rng(2), 500))
    live(made, NETWORKS, outcomes)
    return made


@pytest.fixture(scope="module")
def bandit() -> TablePolicy:
    return taught()


def clients_row(prefix: str, unit: str, epoch: int = 3, **more: float) -> OutcomeRow:
    known = {"rtt_ms": 20.0, "bandwidth_kbps": 5000.0, "loss": 0.0} | more
    return OutcomeRow("web0", "b", 1, 1, "news", prefix, unit, 900.0, epoch=epoch, **known)  # type: ignore[arg-type]


def traffic(clients: int = 25) -> Traffic:
    """Prefixes 10.0.0.0/24 to 10.0.5.0/24, each of the tensor's k-th condition."""
    found = Traffic()
    for prefix in range(6):
        columns = {"bandwidth_kbps": NETWORKS.bandwidth_kbps, "rtt_ms": NETWORKS.rtt_ms, "loss": NETWORKS.loss}
        known = {name: float(column[prefix]) for name, column in columns.items()}
        for at in range(clients):
            found.take(clients_row(f"10.0.{prefix}.0/24", f"{at}", 3, **known))
    return found


def made(of: TablePolicy, seen: Traffic, options: MapOptions = PLAIN, former: FleetMap | None = None) -> FleetMap:
    return map_of(of, seen, options, term=1, version=1, key=KEY, now_ns=10**18, former=former).map


@pytest.mark.parametrize("owned", [(), ("192.0.2.0/24",)])
def test_what_is_no_prefix_is_not_listed_and_the_others_are(bandit: TablePolicy, owned: tuple[str, ...]) -> None:
    """Rows of one agent kept every map from being published, and ended a learner beside prefixes of humans."""
    seen = traffic()
    for prefix in ("<script>", "300.1.2.0/24", "192.0.2.1/33", "fe80::%1/64"):
        for at in range(25):
            seen.take(clients_row(prefix, f"{prefix}{at}"))
    assert sorted(made(bandit, seen, MapOptions(owned=owned)).prefixes) == [f"10.0.{at}.0/24" for at in range(6)]


def test_a_mix_is_what_the_policy_serves(bandit: TablePolicy) -> None:
    """Over many versions, since a mix has eight arms and this policy explores 168 configurations."""
    shares = class_shares(bandit, np.ones(len(NETWORKS.grid), dtype=np.bool_))
    assert shares.sum(axis=1) == pytest.approx(1.0)
    mean, names = np.zeros_like(shares), bandit.class_ids_
    versions = 200
    for version in range(versions):
        one = map_of(bandit, Traffic(), MapOptions(), term=1, version=version, key=KEY, now_ns=0)
        for name, mix in one.map.mixes.items():
            assert sum(weight for _, weight in mix) == WHOLE and 1 <= len(mix) <= MOST_ARMS
            for profile, weight in mix:
                mean[names.index(name), one.configurations[profile]] += weight / WHOLE / versions
    # The arm that stands for the rest has its whole share, or none: a binomial's standard deviation.
    rest = 1.0 - np.sort(shares, axis=1)[:, -(MOST_ARMS - 1) :].sum(axis=1, keepdims=True)
    assert (np.abs(mean - shares) <= 5.0 * np.sqrt(rest * shares / versions) + 2.0 / WHOLE).all()


def test_only_what_is_permitted_is_drawn(bandit: TablePolicy) -> None:
    among = np.arange(len(NETWORKS.grid)) % 7 == 0
    one = map_of(bandit, traffic(), MapOptions(), term=1, version=1, key=KEY, now_ns=0, among=among)
    assert set(one.configurations.values()) - {NETWORKS.grid.default} <= set(np.flatnonzero(among))
    assert len(one.configurations) > 1


@given(st.lists(st.floats(0, 1), min_size=2, max_size=40), st.integers(0, 39), st.integers(0, 2**32))
def test_arms_add_up_whatever_the_shares(shares: list[float], default: int, seed: int) -> None:
    column = np.array(shares)
    column[default % len(column)] += 0.01
    column /= column.sum()
    arms = arms_of(column, default % len(column), np.random.default_rng(seed))
    assert sum(share for _, share in arms) == pytest.approx(1.0) and len(arms) <= MOST_ARMS
    assert arms[0][0] == default % len(column) and [at for at, _ in arms[1:]] == sorted(at for at, _ in arms[1:])


def test_the_same_outcomes_and_seed_make_the_same_bytes() -> None:
    text, same, other = (map_text(made(taught(600), traffic(), MapOptions(seed=seed))) for seed in (1, 1, 2))
    assert text == same != other
    read = map_of_text(text, KEY)
    assert map_text(read) == text and read.key == KEY
    for bad in ("{}", "[]", "no JSON"):
        with pytest.raises(BadInput, match="no map of classes"):
            map_of_text(bad, KEY)


def test_a_prefix_needs_clients_enough(bandit: TablePolicy) -> None:
    assert made(bandit, traffic(19)).prefixes == {}
    listed = made(bandit, traffic(20)).prefixes
    assert set(listed) == {f"10.0.{at}.0/24" for at in range(6)} and set(listed.values()) <= set(bandit.class_ids_)
    seen = Traffic()
    for epoch in range(50):
        seen.take(clients_row("10.0.0.0/24", f"unit{epoch}", epoch))
    assert seen.prefixes_["10.0.0.0/24"].clients == 1 and made(bandit, seen).prefixes == {}, "one client is one"


def test_so_many_new_prefixes_a_map(bandit: TablePolicy) -> None:
    options, seen = MapOptions(new_prefixes=2), traffic()
    first = made(bandit, seen, options)
    second = made(bandit, seen, options, former=first)
    assert len(first.prefixes) == 2 and len(second.prefixes) == 4 and set(first.prefixes) < set(second.prefixes)


def test_what_a_human_decides_is_left_out(bandit: TablePolicy) -> None:
    names = set(made(bandit, traffic()).profiles)
    options = MapOptions(owned=("10.0.2.0/24", "10.0.4.0/23", "2001:db8::/32"), owned_profiles=frozenset(names))
    one = made(bandit, traffic(), options)
    assert set(one.prefixes) == {f"10.0.{at}.0/24" for at in (0, 1, 3)}
    assert not names & set(one.profiles) and len(one.profiles) == len(names)


def test_bands_have_the_class_of_most_clients(bandit: TablePolicy) -> None:
    one = made(bandit, traffic())
    ends = [band.up_to_us for band in one.bands]
    assert ends == sorted(ends) and set(ends) <= set(BAND_ENDS_US)
    for band, former in zip(one.bands, (0, *ends), strict=False):
        within = [at for at in range(6) if former < NETWORKS.rtt_ms[at] * 1000 <= band.up_to_us]
        assert not within or band.class_name in {one.prefixes[f"10.0.{at}.0/24"] for at in within}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"holdback": 1.0}, "below 1"), ({"epoch_s": 0}, "epoch_s"), ({"valid_s": 5.0}, "valid"),
     ({"least_clients": 0}, "least_clients")],
)  # fmt: skip
def test_options_are_checked(wrong: dict[str, float], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        MapOptions(**wrong)  # type: ignore[arg-type]
