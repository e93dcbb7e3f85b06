# SPDX-License-Identifier: MIT
"""Maps of classes: mixes that a kernel can draw from, prefixes with clients enough, human owners first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.learner import POLICIES, Setting, policy
from configtron.learner.map_making import BAND_ENDS_US, MapOptions, map_of
from configtron.learner.map_text import map_of_text, map_text
from configtron.learner.mixes import arms_of, class_shares
from configtron.learner.table_policy import TablePolicy
from configtron.learner.traffic import Traffic
from configtron.model.errors import BadInput
from configtron.model.fleet import MOST_ARMS, WHOLE, FleetMap, OutcomeRow
from tests.support.worlds import lived, small_classes, small_tensor

TENSOR = small_tensor()
CLASSES = small_classes(TENSOR)
KEY = bytes(range(16))


def taught(name: str = "mab_nc", outcomes: int = 1500) -> TablePolicy:
    warm = TENSOR if name == "offline" else None
    setting = Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2), 500, warm, TENSOR)
    made = policy(name, setting)
    lived(made, TENSOR, outcomes)
    return made


@pytest.fixture(scope="module")
def bandit() -> TablePolicy:
    return taught()


def traffic(clients: int = 25, prefixes: int = 6) -> Traffic:
    """Prefixes 10.0.k.0/24, each of the tensor's k-th condition."""
    found = Traffic()
    for prefix in range(prefixes):
        for at in range(clients):
            kbps, rtt, loss = (float(c[prefix]) for c in (TENSOR.bandwidth_kbps, TENSOR.rtt_ms, TENSOR.loss))
            found.take(OutcomeRow("web0", "b", at, at, "news", f"10.0.{prefix}.0/24", f"{at}", 900.0, epoch=3,
                                  rtt_ms=rtt, bandwidth_kbps=kbps, loss=loss))  # fmt: skip
    return found


def made(of: TablePolicy, seen: Traffic, options: MapOptions, **more: object) -> FleetMap:
    place = {"term": 1, "version": 1, "key": KEY, "now_ns": 10**18} | more
    return map_of(of, seen, options, **place).map  # type: ignore[arg-type]


@pytest.mark.parametrize("owned", [(), ("192.0.2.0/24",)])
def test_what_is_no_prefix_is_not_listed_and_the_others_are(bandit: TablePolicy, owned: tuple[str, ...]) -> None:
    """Rows of one agent kept every map from being published, and ended a learner beside prefixes of humans."""
    seen = traffic()
    for prefix in ("<script>", "300.1.2.0/24", "192.0.2.1/33", "fe80::%1/64"):
        for at in range(25):
            seen.take(OutcomeRow("web9", "b", at, at, "news", prefix, f"{prefix}{at}", 900.0, epoch=3,
                                 rtt_ms=20.0, bandwidth_kbps=5000.0, loss=0.0))  # fmt: skip
    found = made(bandit, seen, MapOptions(owned=owned))
    assert sorted(found.prefixes) == [f"10.0.{at}.0/24" for at in range(6)]


def test_a_mix_is_what_the_policy_serves(bandit: TablePolicy) -> None:
    """Over many versions, since a mix has eight arms and this policy explores 168 configurations."""
    shares = class_shares(bandit, np.ones(len(TENSOR.grid), dtype=np.bool_))
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
    among = np.arange(len(TENSOR.grid)) % 7 == 0
    one = map_of(bandit, traffic(), MapOptions(), term=1, version=1, key=KEY, now_ns=0, among=among)
    assert {at for at in one.configurations.values() if at != TENSOR.grid.default} <= set(np.flatnonzero(among))
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
    texts = [map_text(made(taught(outcomes=600), traffic(), MapOptions())) for _ in range(2)]
    assert texts[0] == texts[1]
    other = map_text(made(taught(outcomes=600), traffic(), MapOptions(seed=2)))
    assert other != texts[0]
    read = map_of_text(texts[0], KEY)
    assert map_text(read) == texts[0] and read.key == KEY


def test_a_map_of_other_text_is_refused() -> None:
    for text in ("{}", "[]", "no JSON"):
        with pytest.raises(BadInput, match="no map of classes"):
            map_of_text(text, KEY)


def test_a_prefix_needs_clients_enough(bandit: TablePolicy) -> None:
    assert made(bandit, traffic(19), MapOptions()).prefixes == {}
    listed = made(bandit, traffic(20), MapOptions()).prefixes
    assert set(listed) == {f"10.0.{at}.0/24" for at in range(6)} and set(listed.values()) <= set(bandit.class_ids_)


def test_one_client_of_many_epochs_is_one_client(bandit: TablePolicy) -> None:
    seen = Traffic()
    for epoch in range(50):
        seen.take(OutcomeRow("web0", "b", epoch, epoch, "news", "10.0.0.0/24", f"unit{epoch}", 900.0, epoch=epoch,
                             rtt_ms=50.0, bandwidth_kbps=5000.0, loss=0.0))  # fmt: skip
    assert seen.prefixes_["10.0.0.0/24"].clients == 1
    assert made(bandit, seen, MapOptions()).prefixes == {}


def test_so_many_new_prefixes_a_map(bandit: TablePolicy) -> None:
    options, seen = MapOptions(new_prefixes=2), traffic()
    first = made(bandit, seen, options)
    second = made(bandit, seen, options, former=first)
    assert len(first.prefixes) == 2 and len(second.prefixes) == 4 and set(first.prefixes) < set(second.prefixes)


def test_what_a_human_decides_is_left_out(bandit: TablePolicy) -> None:
    names = set(made(bandit, traffic(), MapOptions()).profiles)
    options = MapOptions(owned=("10.0.2.0/24", "10.0.4.0/23", "2001:db8::/32"), owned_profiles=frozenset(names))
    one = made(bandit, traffic(), options)
    assert set(one.prefixes) == {f"10.0.{at}.0/24" for at in (0, 1, 3)}
    assert not names & set(one.profiles) and len(one.profiles) == len(names)


def test_bands_have_the_class_of_most_clients(bandit: TablePolicy) -> None:
    one = made(bandit, traffic(), MapOptions())
    ends = [band.up_to_us for band in one.bands]
    assert ends == sorted(ends) and set(ends) <= set(BAND_ENDS_US)
    for band, former in zip(one.bands, (0, *ends), strict=False):
        within = [at for at in range(6) if former < TENSOR.rtt_ms[at] * 1000 <= band.up_to_us]
        if within:
            assert band.class_name in {one.prefixes[f"10.0.{at}.0/24"] for at in within}


@pytest.mark.slow
@pytest.mark.parametrize("name", [row.name for row in POLICIES.values() if not row.oracle])
def test_every_policy_makes_a_map(name: str) -> None:
    one = made(taught(name, 600), traffic(), MapOptions())
    assert one.mixes and all(sum(weight for _, weight in mix) == WHOLE for mix in one.mixes.values())
    assert set(one.prefixes.values()) <= set(one.mixes) and {band.class_name for band in one.bands} <= set(one.mixes)
    assert {profile for mix in one.mixes.values() for profile, _ in mix} == set(one.profiles)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"holdback": 1.0}, "below 1"), ({"epoch_s": 0}, "epoch_s"), ({"valid_s": 5.0}, "valid"),
     ({"least_clients": 0}, "least_clients")],
)  # fmt: skip
def test_options_are_checked(wrong: dict[str, float], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        MapOptions(**wrong)  # type: ignore[arg-type]
