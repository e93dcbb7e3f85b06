# SPDX-License-Identifier: MIT
"""Leases: shares that never sum to more than all, whichever is silent, late or gone."""

from __future__ import annotations

from random import Random

from configtron.service.campaign.rate_shares import BEAT_S, GRACE_S, LEASE_S, SECOND_S, LeaseTable


def test_workers_share_evenly_and_a_further_one_waits() -> None:
    table = LeaseTable()
    assert [table.grant(name, part, 2, 0.0) for part, name in enumerate("abc")] == [0.5, 0.5, 0.0]
    table.end("a", 1.0)
    assert table.expire(1.0 + SECOND_S) == [] and table.grant("c", 2, 2, 1.0 + SECOND_S) == 0.5


def test_a_share_is_not_given_on_within_the_second_of_its_last_start() -> None:
    table = LeaseTable()
    table.grant("a", 0, 1, 0.0)
    table.end("a", 1.0)
    table.expire(1.0 + SECOND_S / 2)
    assert table.grant("b", 1, 1, 1.0 + SECOND_S / 2) == 0.0


def test_a_silent_attempt_leaves_the_list_and_frees_its_part_when_it_has_surely_stopped() -> None:
    table = LeaseTable()
    table.grant("a", 7, 2, 0.0)
    table.hear("a", 2.0)
    assert table.expire(2.0 + LEASE_S) == [] and table.listed() == ["a"]
    gone = 2.1 + LEASE_S
    assert table.expire(gone) == ["a"] and table.listed() == []
    assert table.grant("b", 7, 2, gone) == 0.0  # the part may still be probed
    table.expire(gone + GRACE_S - 0.1)
    assert table.grant("b", 7, 2, gone + GRACE_S - 0.1) == 0.0
    table.expire(gone + GRACE_S)
    assert table.grant("b", 7, 2, gone + GRACE_S) == 0.5


def test_a_late_word_does_not_bring_a_revoked_lease_back() -> None:
    table = LeaseTable()
    table.grant("a", 0, 1, 0.0)
    table.revoke("a", 1.0)
    table.hear("a", 2.0)
    assert not table.active("a") and table.expire(1.5) == []


def test_a_worker_that_reads_nothing_stops_before_its_share_is_given_on() -> None:
    """It reads a list as late as a beat after it was made, and stops LEASE_S after it asked."""
    assert GRACE_S >= LEASE_S + 2 * BEAT_S


def test_shares_never_sum_to_more_than_all_whatever_happens() -> None:
    rng = Random(3)
    for _ in range(200):
        table, now, names = LeaseTable(), 0.0, iter(range(10**6))
        for _ in range(60):
            now += rng.random() * 4
            table.expire(now)
            attempt = f"a{next(names)}"
            table.grant(attempt, rng.randrange(8), rng.randrange(1, 6), now)
            for known in list(table._held):
                if rng.random() < 0.3:
                    rng.choice((table.hear, table.end, table.revoke))(known, now)
            assert sum(lease.share for lease in table._held.values()) <= 1 + 1e-9
            parts = [lease.part for lease in table._held.values()]
            assert len(parts) == len(set(parts))
