# SPDX-License-Identifier: MIT
"""What a kill leaves is whole up to some line, and small to remember."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.model.errors import BadInput
from configtron.model.nouns import Observation, Target
from configtron.model.records import Result, result_to_json
from configtron.probe.wire.journal import JOURNAL, Ended, Memory, batches, ended, journal


def result(name: str, probe: str = "icw.1", end: int = 0) -> Result:
    reading = Observation("icw", 10, None, "segments", "", "C", f"na/{name}/{probe}")
    return Result(
        f"na/{name}/{probe}", "na", Target(name), "icw", evidence_file="x/na.pcapng", evidence_end=end,
        observations=(reading,),
    )  # fmt: skip


def test_places_are_remembered_across_starts(tmp_path: Path) -> None:
    first = Ended(tmp_path)
    for place in (0, 2, 1, 2, 5):
        first.add(place)
    first.close()
    assert ended(tmp_path) == 4
    with (tmp_path / "ended").open("ab") as file:
        file.write(b"0000")
    again = Ended(tmp_path)
    assert (again.low, len(again)) == (3, 4)
    assert [place for place in range(7) if place in again] == [0, 1, 2, 5]
    again.add(3)
    again.close()
    assert Ended(tmp_path).low == 4


def test_a_place_takes_a_bit(tmp_path: Path) -> None:
    kept = Ended(tmp_path)
    for place in range(5000):
        kept.add(place)
    assert (kept.low, len(kept), len(kept._bits)) == (5000, 5000, 5000 // 8)
    kept.close()


def test_only_unfinished_target_sessions_are_remembered(tmp_path: Path) -> None:
    lines = [result("a.example", end=10), result("b.example", end=30), result("b.example", "rto.1", end=20)]
    text = "".join(result_to_json(line) + "\n" for line in lines)
    (tmp_path / JOURNAL).write_text(text + '{"cut sho')
    memory = Memory(tmp_path, {"na/b.example"}.__contains__)
    assert set(memory.readings) == {"na/b.example/icw.1", "na/b.example/rto.1"}
    assert memory.evidence_ends == {"x/na.pcapng": 30}
    assert (tmp_path / JOURNAL).read_text() == text


def test_batches() -> None:
    assert [len(batch) for batch in batches(result(str(n)) for n in range(2500))] == [1000, 1000, 500]
    assert list(journal(Path("/nonexistent"))) == []


def test_a_line_that_was_cut_short_is_cut_off_and_another_is_json(tmp_path: Path) -> None:
    (tmp_path / JOURNAL).write_bytes(b'{"half')
    assert list(journal(tmp_path)) == [] and (tmp_path / JOURNAL).read_bytes() == b""
    (tmp_path / JOURNAL).write_text("nonsense\n")
    with pytest.raises(BadInput, match="not JSON"):
        list(journal(tmp_path))


def test_a_target_session_that_is_over_takes_no_other_with_it(tmp_path: Path) -> None:
    """Its name may begin another's: the readings of `a.example/shop` must not be asked for twice."""
    lines = [result("a.example"), result("a.example/shop"), result("a.example:81")]
    (tmp_path / JOURNAL).write_text("".join(result_to_json(line) + "\n" for line in lines))
    memory = Memory(tmp_path, lambda session: True)
    memory.forget("na/a.example")
    assert set(memory.readings) == {"na/a.example/shop/icw.1", "na/a.example:81/icw.1"}
