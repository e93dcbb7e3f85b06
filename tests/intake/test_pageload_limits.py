# SPDX-License-Identifier: MIT
"""Liars and floods: quarantine, caps and rates."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from configtron.intake.pageloads.beacon_join import BeaconJoin
from configtron.intake.pageloads.flood import FloodLimits
from configtron.intake.pageloads.influence_caps import Caps, InfluenceCaps, least_share
from configtron.model.fleet import OutcomeRow
from tests.support.pageloads import MS, T0, S, line, load, opened, requests, rows_of, token


def test_least_share() -> None:
    assert least_share(0, 10) == 0.0
    # Wilson's interval of 5 in 10 from 0.27 to 0.73 (one-sided 95 %)
    assert least_share(5, 10) == pytest.approx(0.2693, abs=1e-3)
    assert least_share(500, 1_000) == pytest.approx(0.474, abs=1e-3)


def test_one_liar_does_not_silence_its_neighbours_and_many_do() -> None:
    caps = InfluenceCaps()
    for client in range(20):
        caps.seen("p", f"honest{client}", "", T0)
    for _ in range(100):
        caps.seen("p", "liar", "used-token", T0)
    assert caps.doubt("p", "liar", T0) == "quarantined" and caps.doubt("p", "honest1", T0) == ""
    for client in range(15):
        caps.seen("p", f"liar{client}", "impossible-fast", T0)
    assert caps.disagreement("p") > 0.2 and caps.doubt("p", "honest1", T0) == "quarantined"
    assert caps.doubt("q", "other", T0) == ""
    assert caps.doubt("p", "honest1", T0 + 700 * S) == "", "a new window begins without the old one's counts"


def test_influence_is_capped_per_client_and_prefix() -> None:
    caps = InfluenceCaps(Caps(client=3, prefix=5))
    assert [caps.doubt("p", "a", T0) for _ in range(4)] == ["", "", "", "client-cap"]
    assert [caps.doubt("p", "b", T0) for _ in range(3)] == ["", "", "prefix-cap"]
    small = InfluenceCaps(most=2)
    assert [small.doubt(f"p{at}", f"u{at}", T0) for at in range(4)] == ["", "", "client-cap", "client-cap"]


# Kinds of lies, and the reason for which each is refused.
REASONS = {
    "forged": "unknown-token", "replayed": "used-token", "fast": "impossible-fast", "slow": "impossible-slow",
}  # fmt: skip


def test_ten_percent_liars_move_nothing_that_teaches() -> None:
    """3 000 loads of 250 clients, of whom 25 forge, replay or exaggerate."""
    rng = random.Random(7)
    agent = BeaconJoin("web1", "b", InfluenceCaps(Caps(prefix=10_000)))
    lines, kinds, rows = requests(), Counter[str](), list[OutcomeRow]()
    for number in range(3_000):
        at_ns, client = T0 + number * 20 * MS, number % 250
        port = 1_024 + number
        lines.record(opened(at_ns, port))
        lines.datagram(line(token(number), at_ns + 60 * MS, port, client=client), at_ns + 60 * MS, at_ns + 60 * MS)
        agent.requests(lines.advance(at_ns + 60 * MS, at_ns + 60 * MS))
        true_ms = rng.lognormvariate(6.2, 0.3)
        seen_ns = at_ns + 50 * MS + round(true_ms * MS)
        honest = load(number, true_ms + 36.0)
        if client % 10:
            agent.beacon(honest, seen_ns)
        else:
            kinds[kind := list(REASONS)[number // 10 % 4]] += 1
            if kind == "replayed":
                agent.beacon(honest, seen_ns)
            lie = {
                "forged": honest._replace(token=token(10**9 + number)),
                "replayed": honest._replace(identity="again", value_ms=true_ms + 50.0),
                "fast": load(number, 40.0, connect_end_ms=6.0, request_ms=7.0, response_ms=20.0),
                "slow": load(number, 60_000.0),
            }[kind]
            agent.beacon(lie, seen_ns)
        rows += agent.advance(seen_ns, seen_ns)
    rows += rows_of(agent)
    assert kinds.total() == 300 and min(kinds.values()) == 75
    assert {kind: agent.counts[reason] for kind, reason in REASONS.items()} == kinds, "no lie became a row"
    assert len(rows) == agent.counts["accepted"] == 2_700 + kinds["replayed"], "every true load became one row"
    honest_rows = [row for row in rows if int(row.unit[1:]) % 10]
    assert len(honest_rows) == 2_700 and all(row.teaches for row in honest_rows), "neighbours of liars teach on"
    assert sum(not row.teaches for row in rows) > 50, "liars that were caught twice do not"


def test_a_flood_from_one_address_leaves_the_others_alone() -> None:
    limits, refused = FloodLimits(), Counter[str]()
    flooder = bytes([198, 51, 100, 66])
    for number in range(50_000):
        now_ns = number * 100_000
        refused[limits.fault(flooder, now_ns) or "taken"] += 1
        if number % 100 == 0:
            neighbour = bytes([198, 51, 100, number // 100 % 60])
            assert limits.fault(neighbour, now_ns) == ""
    assert refused["flood-address"] > 49_900 and refused["taken"] < 100 and len(refused) == 2


def test_a_flood_from_many_addresses_is_bounded_by_prefix_and_in_total() -> None:
    limits = FloodLimits()
    found = Counter(limits.fault(bytes([10, 0, 0, at % 256]), 0) for at in range(5_000))
    assert found["flood-prefix"] == 4_000 and found[""] == 1_000
    found = Counter(limits.fault(bytes([10, at >> 8 & 255, at & 255, 1]), 0) for at in range(60_000))
    assert found["flood-total"] == 60_000 - 1 - 39_000
    assert len(limits._address) <= 50_000
