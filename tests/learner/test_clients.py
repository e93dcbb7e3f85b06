# SPDX-License-Identifier: MIT
"""Clients: whose outcomes count, changes of network, what is known of prefixes, the prefix around an address."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from configtron.learner import Setting, policy
from configtron.learner.changepoint import Change, changes
from configtron.learner.clients import (
    BELOW_ROUND_TRIP,
    CAP,
    OVER_CAP,
    UNLIKE_CLASS,
    Cap,
    Clients,
    buckets_of,
    impossible,
    no_clients,
)
from configtron.learner.columns import Floats
from configtron.learner.policies.thompson import Thompson
from configtron.learner.prefixes import longest, network_of
from configtron.learner.reclassify import Watch
from configtron.learner.saved import set_aside_in
from configtron.learner.traffic import Traffic
from configtron.model.fleet import OutcomeRow
from configtron.model.nearest import LOSS_FLOOR
from configtron.model.nouns import Context, NetworkClass
from tests.support.worlds import SITES, clients, small_classes, small_tensor

TENSOR = small_tensor(bent=0.03)
CLASSES = small_classes(TENSOR)


def made(**more: object) -> Thompson:
    setting = Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(3), 500)
    found = policy("thompson", replace(setting, **more))  # type: ignore[arg-type]
    assert isinstance(found, Thompson)
    return found


def after(rests: dict[int, list[float]], known: Clients | None = None) -> Clients:
    client = np.concatenate([np.full(len(some), at) for at, some in rests.items()])
    rest = np.concatenate([np.array(some) for some in rests.values()])
    return (known or no_clients()).plus(client, rest, 0.2, np.ones(len(client)))


def test_a_prefix_weighs_by_the_logarithm_beyond_its_cap() -> None:
    client = np.concatenate([np.zeros(5000, dtype=np.int64), np.ones(50, dtype=np.int64), [-1]])
    weight = no_clients().weights(client, np.full(len(client), 300.0), CAP)
    assert (weight[:100] == 1).all() and (weight[5000:] == 1).all() and (np.diff(weight[:5000]) <= 0).all()
    assert weight[:5000].sum() == pytest.approx(100 * (1 + np.log(50)), rel=0.01)
    first = no_clients().plus(client[:123], np.zeros(123), 0.2, np.ones(123))
    assert (first.weights(client[123:], np.full(len(client) - 123, 300.0), CAP) == weight[123:]).all(), "in any batches"
    large = no_clients().weights(client, np.full(len(client), 8000.0), CAP)
    assert (large[:2000] == 1).all() and large[2500] < 1, "a quarter of a large class"
    assert (no_clients().weights(client, np.full(len(client), 300.0), Cap(np.inf)) == 1).all()
    known, its = after({0: [0.0] * 900}), np.zeros(10, dtype=np.int64)
    assert (known.weights(its, np.full(10, 920.0), CAP) == 1).all(), "who is alone in a class is the class"
    assert (known.weights(its, np.full(10, 1200.0), CAP) < 1).all()


def test_a_prefix_unlike_its_class_is_out_until_its_features_agree() -> None:
    known = after({0: [1.8] * 12, 1: [1.8] * 12, 2: [0.3] * 12, 3: [1.8] * 4, 4: [6.9] + [0.0] * 11})
    assert known.is_out(np.array([0, 1, 2, 3, 4, -1])).tolist() == [True, True, *[False] * 4]
    assert known.reasons() == {UNLIKE_CLASS: 2, OVER_CAP: 0}
    for _ in range(3):
        known = after({1: [0.0] * 30}, known)
    assert not known.is_out(np.array([1])).any()


def test_levels_are_taken_off_only_where_prefixes_differ_beyond_what_a_class_allows() -> None:
    rng, prefixes = np.random.default_rng(1), range(60)
    alike = after({at: list(rng.normal(rng.normal(0, 0.2), 0.2, 10)) for at in prefixes})
    unlike = after({at: list(rng.normal(1.0 if at % 2 else -1.0, 0.2, 10)) for at in prefixes})
    some = np.array([0, 1, -1])
    assert (alike.offset_ln(some, 0.2) == 0).all()
    assert unlike.offset_ln(some, 0.2) == pytest.approx([-1.0, 1.0, 0.0], abs=0.2)


def test_a_page_before_one_round_trip_is_no_page() -> None:
    contexts, condition = clients(TENSOR, 600)
    contexts = replace(contexts, numbers={"min_rtt_ms": np.where(np.arange(600) % 2, 50.0, np.nan)})
    one = made()
    chosen = one.choose_many(contexts)
    took = TENSOR.lookup(condition, chosen.configuration, contexts.site)
    took[:20] = 3.0
    assert impossible(contexts, took).sum() == 10
    one.observe_many(contexts, chosen, took)
    assert one.model.refused_ == 10 and 480 < one.cells.tally_.count.sum() <= 490
    assert set_aside_in(one.save()) == {BELOW_ROUND_TRIP: 10}
    assert set_aside_in(policy("mab_nc", Setting(TENSOR.grid, SITES, CLASSES, np.random.default_rng(1))).save()) == {}


@pytest.mark.slow
def test_a_crawlers_loads_leave_the_class_and_it_gets_default() -> None:
    """A fifth of sessions is one prefix's, of one network."""
    one, (contexts, condition), its = made(), clients(TENSOR, 4000), np.arange(4000) % 5 == 0
    columns = {name: np.where(its, getattr(contexts, name)[0], getattr(contexts, name))
               for name in ("bandwidth_kbps", "rtt_ms", "loss")}  # fmt: skip
    prefix = np.where(its, len(contexts.prefixes), contexts.prefix)
    contexts = replace(contexts, prefix=prefix, prefixes=(*contexts.prefixes, "crawler"), **columns)
    for at in range(0, 4000, 500):
        rows = slice(at, at + 500)
        chosen = one.choose_many(contexts[rows])
        took = TENSOR.lookup(condition[rows], chosen.configuration, contexts.site[rows])
        one.observe_many(contexts[rows], chosen, np.where(its[rows], 20.0, took))
    out = one.model.clients_.is_out(buckets_of(contexts))
    assert out[its].all() and out[~its].mean() < 0.05 and set_aside_in(one.save())[UNLIKE_CLASS] >= 1
    last, mine = one.choose_many(contexts[3500:]), its[3500:]
    assert (last.row[mine] == -1).all() and (last.configuration[mine] == TENSOR.grid.default).all()
    assert (last.network[mine] >= 0).all(), "whose class it would be stays known"


def trace(seed: int) -> tuple[Floats, list[int]]:
    """Round trips: levels that last 60 to 200 samples, 8 % of noise, some lone spikes of up to tenfold."""
    rng = np.random.default_rng(seed)
    level, parts, truth, at = np.log(60.0), [], [], 0
    for _ in range(5):
        n = int(rng.integers(60, 200))
        parts.append(level + 0.08 * rng.standard_normal(n))
        at += n
        truth.append(at)
        level += float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.0))
    values = np.concatenate(parts)
    values[rng.random(len(values)) < 0.01] += rng.uniform(1.0, 2.3)
    return np.exp(values), truth[:-1]


def f1(found: list[Change], truth: list[int]) -> float:
    """Return F1 of the changes' beginnings against the known ones, each matched once within five samples."""
    left = list(truth)
    for change in found:
        if near := [at for at in left if abs(at - change.since) <= 5]:
            left.remove(min(near, key=lambda at: abs(at - change.since)))
    return 2 * (len(truth) - len(left)) / max(len(found) + len(truth), 1)


def test_planted_changes_are_found() -> None:
    scores = [f1(changes(values), truth) for values, truth in map(trace, range(8))]
    assert np.mean(scores) >= 0.8


def test_a_steady_client_seldom_changes_for_its_spikes() -> None:
    """Of a hundred spikes, a fifth is taken for a change; a third in one of a thousand runs."""
    found = 0
    for seed in range(10):
        values = np.exp(4.0 + 0.08 * np.random.default_rng(seed).standard_normal(400))
        values[::40] *= 8.0
        found += len(changes(values))
    assert found < 34


def test_noticing_takes_a_few_samples_and_a_sample_of_nothing_is_a_sample() -> None:
    levels = np.concatenate((np.full(80, 50.0), np.full(80, 120.0)))
    (change,) = changes(levels * np.exp(0.05 * np.random.default_rng(1).standard_normal(160)))
    assert abs(change.since - 80) <= 2 and 2 <= change.latency <= 8 and Change(12, 10).latency == 2
    assert changes(np.zeros(50)) == []


SLOW = NetworkClass("nc0", tuple(np.log([500.0, 300.0, 0.01 + LOSS_FLOOR])), (1.0, 1.0, 1.0))
FAST = NetworkClass("nc1", tuple(np.log([50000.0, 20.0, LOSS_FLOOR])), (1.0, 1.0, 1.0))


def sample(rng: np.random.Generator, fast: bool) -> Context:
    kbps, rtt, loss = (50000.0, 20.0, 0.0) if fast else (500.0, 300.0, 0.01)
    noise = np.exp(0.08 * rng.standard_normal(2))
    return Context(bandwidth_kbps=kbps * noise[0], rtt_ms=rtt * noise[1], loss=loss, prefix="192.0.2.0/24")


def test_a_new_network_is_noticed_and_its_latency_reported() -> None:
    rng, watch = np.random.default_rng(2), Watch((SLOW, FAST))
    noticed = []
    for at in range(120):
        context, moved = watch.sample(sample(rng, fast=at >= 60))
        noticed += [(at, moved)] if moved else []
        assert context.prefix == "192.0.2.0/24"
    ((at, moved),) = noticed
    assert (moved.before, moved.now) == ("nc0", "nc1") and 60 < at < 70 and abs(moved.latency - (at - 60)) <= 2


def test_a_watch_goes_on_where_it_was_saved() -> None:
    rng, watch, other = np.random.default_rng(2), Watch((SLOW, FAST)), Watch((SLOW, FAST))
    for _ in range(30):
        watch.sample(sample(rng, fast=False))
    other.restore(watch.save())
    assert other.save() == watch.save()
    later = [sample(rng, fast=True) for _ in range(12)]
    assert [watch.sample(c) for c in later] == [other.sample(c) for c in later]


def test_incomplete_samples_pass_and_a_round_trip_of_nothing_is_the_least_there_is() -> None:
    watch, incomplete = Watch((SLOW, FAST)), Context(rtt_ms=5.0, prefix="192.0.2.0/24")
    assert watch.sample(incomplete) == (incomplete, None) and not watch.clients_
    for _ in range(5):
        settled, _ = watch.sample(Context(bandwidth_kbps=50000.0, rtt_ms=0.0, loss=0.0, prefix="192.0.2.0/24"))
    assert settled.rtt_ms == 0.0


def row(at: int, rtt_ms: float | None, prefix: str = "192.0.2.0/24", **more: object) -> OutcomeRow:
    given: dict[str, object] = {"bandwidth_kbps": 8000.0, "loss": 0.0, "more": {"queue_ms": rtt_ms or 0.0}} | more
    return OutcomeRow("web0", "b", at, at * 10**9, "news", prefix, f"u{at % 7}", 800.0, rtt_ms=rtt_ms, **given)  # type: ignore[arg-type]


def test_a_change_is_dated_and_forgets_what_was_before() -> None:
    seen, rng = Traffic(), np.random.default_rng(1)
    for at in range(60):
        level = 30.0 if at < 40 else 150.0
        context = seen.take(row(at, level * float(np.exp(0.03 * rng.standard_normal()))))
    known = seen.prefixes_["192.0.2.0/24"]
    assert context.rtt_ms == pytest.approx(150.0, rel=0.05) and context.queue_ms == pytest.approx(150.0, rel=0.1)
    assert known.change is not None and abs(known.change.since_ns - 40 * 10**9) <= 10**9
    assert 1 <= known.change.outcomes <= 6
    assert (known.change.seen_ns - known.change.since_ns) / 1e9 == known.change.outcomes - 1


def test_a_row_without_numbers_is_learned_by_its_prefix() -> None:
    seen = Traffic()
    for at in range(5):
        seen.take(row(at, 40.0))
    context = seen.take(row(9, None))
    assert context.rtt_ms == 40.0 and context.site == "news"
    assert Traffic().take(row(1, None)).rtt_ms is None


def test_memory_is_bounded_and_the_oldest_goes() -> None:
    seen = Traffic(most=3)
    for at, last in enumerate((0, 1, 2, 0, 3)):
        seen.take(row(at, 40.0, f"10.0.{last}.0/24"))
    assert set(seen.prefixes_) == {"10.0.2.0/24", "10.0.0.0/24", "10.0.3.0/24"}


def test_saved_traffic_goes_on_alike() -> None:
    one, other, rng = Traffic(), Traffic(), np.random.default_rng(2)
    for at in range(30):
        one.take(row(at, float(rng.uniform(20, 60)), f"10.0.{at % 3}.0/24"))
    other.restore(one.save())
    for at in range(30, 60):
        level = float(rng.uniform(200, 300))
        assert one.take(row(at, level, f"10.0.{at % 3}.0/24")) == other.take(row(at, level, f"10.0.{at % 3}.0/24"))
    assert one.save() == other.save()
    one.forget(["10.0.1.0/24"])
    assert "10.0.1.0/24" not in one.prefixes_


def drawn(bits: int) -> st.SearchStrategy[str]:
    """Prefixes of all lengths up to 12, so that many hold the same address."""
    return st.builds(lambda at, n: str(ip_network((at << (bits - 8), n), strict=False)),
                     st.integers(0, 255), st.integers(0, 12))  # fmt: skip


@given(st.lists(drawn(32) | drawn(128)), st.integers(0, 255), st.booleans())
def test_it_is_the_longest_of_those_that_hold_the_address(prefixes: list[str], at: int, six: bool) -> None:
    address = ip_address((at << 120) + 5) if six else ip_address((at << 24) + 5)
    asked = network_of(str(address))
    assert asked is not None
    holding = [prefix for prefix in prefixes if address in ip_network(prefix)]
    found = longest(asked, prefixes)
    most = max((ip_network(prefix).prefixlen for prefix in holding), default=0)
    assert found == tuple(prefix for prefix in holding if ip_network(prefix).prefixlen == most)


def test_prefixes_stay_as_they_were_logged() -> None:
    logged = ("192.0.2.7/24", " 198.51.100.0/24", "2001:DB8:0::/48", "::ffff:203.0.113.0/120", "house 7", "fe80::%1/64")
    for asked, prefix in (
        ("192.0.2.9", logged[0]), ("198.51.100.1", logged[1]), ("2001:db8::1", logged[2]), ("203.0.113.5", logged[3]),
        ("fe80::1", ""), ("192.0.3.9", ""), ("192.0.2.0/23", ""),
    ):  # fmt: skip
        network = network_of(asked)
        assert network is not None and longest(network, logged) == ((prefix,) if prefix else ()), asked
    network = network_of("192.0.2.9")
    spelt = ("192.0.2.7/24", "192.0.0.0/16", "192.0.2.0/24", "::ffff:192.0.2.1/120")
    assert network is not None and longest(network, spelt) == (spelt[0], *spelt[2:]), "one network, three times"
    for word in ("house 7", "fe80::1%eth0", "", "192.0.2.7/33", "\udcff"):
        assert network_of(word) is None
    both = network_of("::ffff:192.0.2.0/100")
    assert both is not None and str(both) == "192.0.0.0/4", "IPv4 inside IPv6 is IPv4"
