# SPDX-License-Identifier: MIT
"""Parts of a campaign: every session in exactly one, in the order of the list."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Target
from configtron.probe.wire.journal import Ended
from configtron.probe.wire.listing import ListedParts, listed, write_listing
from configtron.service.campaign import ProbeOptions
from configtron.service.campaign.cluster_parts import Parts

LISTING = "targets.jsonl"


def parts(folder: Path, size: int, vantages: int, each: int) -> Parts:
    write_listing((Target(f"h{n}.example") for n in range(size)), folder / LISTING, 1)
    return Parts(ListedParts(folder / LISTING, each), size, vantages)


@pytest.mark.parametrize(("size", "vantages", "each"), [(1, 1, 500), (7, 3, 2), (8, 2, 4), (9, 5, 4)])
def test_every_session_is_in_one_part_at_its_place(tmp_path: Path, size: int, vantages: int, each: int) -> None:
    made = parts(tmp_path, size, vantages, each)
    places = [place for part in range(made.count) for place in made.places(part)]
    assert sorted(places) == list(range(size * vantages))
    whole = list(listed(tmp_path / LISTING))
    for part in range(made.count):
        for target, place in zip(made.targets(part), made.places(part), strict=True):
            assert whole[place // vantages] == target and place % vantages == made.vantage(part)


def test_parts_that_have_ended_are_not_handed_out_again(tmp_path: Path) -> None:
    made = parts(tmp_path, 10, 2, 3)
    ended = Ended(tmp_path)
    for part in (0, 1, 4):
        for place in made.places(part):
            ended.add(place)
    ended.add(made.places(2)[0])
    assert list(made.unfinished(0, ended)) == [2, 6] and list(made.unfinished(1, ended)) == [3, 5, 7]
    assert made.done(4, ended) and not made.done(2, ended)
    ended.close()


def test_a_part_is_read_without_those_before_it(tmp_path: Path) -> None:
    made = parts(tmp_path, 1000, 1, 10)
    last = made.targets(99)
    path = tmp_path / LISTING
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(b"?" * (len(line) - 1) + b"\n" for line in lines[:990]) + b"".join(lines[990:]))
    assert made.targets(99) == last and len(last) == 10


@pytest.mark.slow
def test_a_region_that_stays_behind_costs_a_bit_a_session(tmp_path: Path) -> None:
    ended, sessions = Ended(tmp_path), 200_000
    tracemalloc.start()
    for place in range(sessions):
        if place % 20:
            ended._note(place)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    ended.close()
    assert ended.low == 0 and len(ended) == sessions * 19 // 20 and used < sessions


@pytest.mark.parametrize(
    "more",
    [
        {"lab": True}, {"crafted": "IP()"}, {"jobs": 2}, {"shard_targets": 501}, {"shard_targets": 0},
        {"interface": "eth0"}, {"source_ip": "192.0.2.1"},
    ],
)  # fmt: skip
def test_options_that_contradict_a_cluster_are_refused(more: dict[str, object]) -> None:
    with pytest.raises(BadInput):
        ProbeOptions(words=("a.example",), cluster="tls://h:8786", **more)  # type: ignore[arg-type]
