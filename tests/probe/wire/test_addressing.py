# SPDX-License-Identifier: MIT
"""Targets with addresses, a window at a time: what is known, blocked, or stored already."""

from __future__ import annotations

from configtron.model.nouns import Observation, Target, Vantage
from configtron.probe.blocklist import Blocklist
from configtron.probe.targets import Source
from configtron.probe.wire.addressing import Addresses

VANTAGES = (Vantage("na", "N", source_address="198.18.0.1"), Vantage("eu", "E", source_address="198.18.0.2"))
BLOCKED = Blocklist([Source("opt-out", "192.0.2.1\n")], special=False)


def targets(count: int) -> list[tuple[int, Target]]:
    return [(n, Target(f"192.0.2.{n}", f"192.0.2.{n}")) for n in range(count)]


def test_all_targets_from_all_vantages_in_turn() -> None:
    addresses = Addresses(VANTAGES, (4,), BLOCKED, window=3)
    windows = [w for w in addresses.windows(iter(targets(8)), {}, 0) if w is not None]
    addresses.close()
    found = [item for window in windows for item in window]
    assert [len(window) for window in windows] == [6, 6, 4]
    assert [item.place for item in found] == list(range(16))
    assert [(item.vantage, item.target is None) for item in found[:4]] == [
        ("na", False), ("eu", False), ("na", True), ("eu", True),
    ]  # fmt: skip
    assert {item.result.ending for item in found if item.result and item.target is None} == {"blocked"}


def test_what_is_stored_is_not_asked_or_kept_again() -> None:
    stored = Observation("address", "192.0.2.77", None, "", "DNS", "C")
    addresses = Addresses(VANTAGES[:1], (4,), BLOCKED)
    done = {"na/a.example/dns.1": (stored,)}
    (window,) = addresses.windows(iter([(0, Target("a.example"))]), done, 0)
    addresses.close()
    assert window is not None
    assert window[0].result is None and window[0].target == Target("a.example", "192.0.2.77")


def test_an_address_of_the_other_ip_version_cannot_be_asked() -> None:
    addresses = Addresses(VANTAGES[:1], (4, 6), BLOCKED)
    (window,) = addresses.windows(iter([(0, Target("2001:db8::1", "2001:db8::1"))]), {}, 0)
    addresses.close()
    assert window is not None and window[0].result is not None
    assert window[0].result.ending == "no-source-address"
