# SPDX-License-Identifier: MIT
"""Costs of a campaign, by unit costs of a made-up profile."""

from __future__ import annotations

import json

import pytest

from configtron.model.errors import BadInput
from configtron.probe.costs import cost, unit_costs

PROBES = {
    "dns": {"journal_bytes": 100},
    "http_version": {
        "connections": 1, "starts": 1, "packets_out": 5, "packets_in": 4, "bytes_out": 300, "bytes_in": 900,
    },
    "rwin": {"connections": 2, "starts": 3.5, "packets_out": 10, "packets_in": 9, "bytes_out": 700, "bytes_in": 4000},
    "icw": {"connections": 4, "starts": 4, "packets_out": 20, "packets_in": 30, "evidence_bytes": 9000},
    "rto": {"connections": 1, "starts": 1},
}  # fmt: skip
UNITS = unit_costs(json.dumps({"measured": "by hand", "profiles": {"quick": {"session_s": 36, "probes": PROBES}}}))


def test_targets_times_vantages_times_the_probes_of_the_tests() -> None:
    found = cost(UNITS, 1000, 20, "quick", frozenset(["icw"]), 100, 1000)
    assert (found.connections, found.starts) == (20_000 * 5, 20_000 * 5)
    assert (found.packets_out, found.packets_in, found.evidence_bytes) == (20_000 * 25, 20_000 * 34, 20_000 * 9000)
    assert found.disk_bytes == 20_000 * 9100
    whole = cost(UNITS, 1000, 20, "quick", frozenset(["icw", "rwin"]), 100, 1000)
    assert whole.connections == 20_000 * 8 and whole.bytes_in == 20_000 * 4900


def test_hours_are_those_of_the_narrower_limit() -> None:
    slow = cost(UNITS, 3600, 1, "quick", frozenset(["icw"]), 1.0, 1000)
    assert (slow.hours, slow.limit) == (5.0, "rate")
    assert cost(UNITS, 3600, 1, "quick", frozenset(["icw"]), 2.9, 1000).hours == 2.5  # as spacing rounds down
    long = cost(UNITS, 3600, 1, "quick", frozenset(["icw"]), 1e6, 10)
    assert (long.hours, long.limit) == (3.6, "concurrency")
    assert cost(UNITS, 3600, 1, "quick", frozenset(["icw"]), 0, 10).hours == 3.6
    assert cost(UNITS, 3600, 1, "quick", frozenset(["icw"]), 0.5, 10**6).hours == 10.0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"measured": "", "profiles": {"quick": {"session_s": "x"}}}'])
def test_unit_costs_that_cannot_be_read_are_one_error(text: str) -> None:
    with pytest.raises(BadInput, match="unit costs: "):
        unit_costs(text)


def test_a_profile_without_unit_costs_is_refused() -> None:
    with pytest.raises(BadInput, match="measured are quick"):
        cost(UNITS, 1, 1, "full", frozenset(["icw"]), 1, 1)
