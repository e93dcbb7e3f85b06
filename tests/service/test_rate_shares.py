# SPDX-License-Identifier: MIT
"""Shares of a rate that never sum to more than all, whichever worker is silent, late or gone."""

from __future__ import annotations

from random import Random

from configtron.probe.spacing import WINDOW_S
from configtron.service.campaign.rate_shares import BEAT_S, GRACE_S, LEASE_S, RateShares


def granted(table: RateShares, name: str, part: int, slots: int, now: float) -> float:
    table.begin(name, part, now)
    return table.grant(name, slots)


def test_workers_share_evenly_and_a_further_one_waits() -> None:
    table = RateShares()
    assert [granted(table, name, part, 2, 0.0) for part, name in enumerate("abc")] == [0.5, 0.5, 0.0]
    table.end("a", 1.0)
    # within the second of its last start, its share starts nothing else
    assert table.expire(1.0 + WINDOW_S / 2) == [] and table.grant("c", 2) == 0.0
    assert table.expire(1.0 + WINDOW_S) == [] and table.waiting() == [("c", 2)] and table.grant("c", 2) == 0.5


def test_a_silent_attempt_leaves_the_list_and_frees_its_part_when_it_has_surely_stopped() -> None:
    table = RateShares()
    granted(table, "a", 7, 2, 0.0)
    table.hear("a", 2.0)
    assert table.expire(2.0 + LEASE_S) == [] and table.listed() == ["a"]
    gone = 2.1 + LEASE_S
    assert table.expire(gone) == [7] and table.listed() == []
    # a late message does not bring it back
    table.hear("a", gone + 1)
    assert table.active("a") is None and table.expire(gone) == []
    # the part may still be probed
    assert granted(table, "b", 7, 2, gone) == 0.0
    for now, share in ((gone + GRACE_S - 0.1, 0.0), (gone + GRACE_S, 0.5)):
        table.hear("b", now)
        table.expire(now)
        assert table.grant("b", 2) == share


def test_a_waiting_attempt_that_is_silent_is_forgotten() -> None:
    table = RateShares()
    table.begin("a", 0, 0.0)
    assert table.expire(LEASE_S + 0.1) == [] and table.waiting() == []


def test_a_worker_that_reads_nothing_stops_before_its_share_is_given_on() -> None:
    """It reads a list as late as a beat after it was made, and stops LEASE_S after it asked."""
    assert GRACE_S >= LEASE_S + 2 * BEAT_S


def test_shares_never_sum_to_more_than_all_whatever_happens() -> None:
    rng = Random(3)
    for _ in range(200):
        table, now = RateShares(), 0.0
        for number in range(60):
            now += rng.random() * 4
            table.expire(now)
            granted(table, f"a{number}", rng.randrange(8), rng.randrange(1, 6), now)
            for name in list(table._attempts):
                if rng.random() < 0.3:
                    rng.choice((table.hear, table.end, table.revoke))(name, now)
            held = [one for one in table._attempts.values() if one.share]
            assert sum(one.share for one in held) <= 1 + 1e-9
            assert len({one.part for one in held}) == len(held)
