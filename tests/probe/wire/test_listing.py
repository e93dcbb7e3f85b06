# SPDX-License-Identifier: MIT
"""Any number of targets on disk, in the order that sorting them all in memory would give."""

from __future__ import annotations

from pathlib import Path

from configtron.model.nouns import Target
from configtron.probe.targets import order
from configtron.probe.wire.listing import listed, write_listing


def test_the_same_order_as_in_memory_each_once(tmp_path: Path) -> None:
    targets = [Target(f"{n}.example", path=f"/{n % 3}", tag="ä") for n in range(50)]
    found = write_listing([*targets, *targets[:20]], tmp_path / "list", 5, chunk_size=7)
    assert list(listed(tmp_path / "list")) == order(targets, 5) != order(targets, 6)
    assert found.size == 50


def test_the_sample_says_whether_all_have_addresses(tmp_path: Path) -> None:
    known = [Target(f"192.0.2.{n}", f"192.0.2.{n}") for n in range(9)]
    sample = write_listing(known, tmp_path / "a", 1).sample
    assert sample is not None and sample.address
    assert write_listing([*known, Target("a.example")], tmp_path / "b", 1).sample == Target("a.example")
    assert write_listing([], tmp_path / "c", 1) == (0, None)
