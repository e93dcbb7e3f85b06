# SPDX-License-Identifier: MIT
"""Replays under way: begun, kept, gone on with."""

from __future__ import annotations

from pathlib import Path

import pytest

from configtron.db.replays import Replays
from configtron.model.errors import BadInput


def test_a_replay_is_kept_part_by_part(tmp_path: Path) -> None:
    with Replays(tmp_path / "r.db") as book:
        with pytest.raises(BadInput, match="no replay to go on with"):
            book.replay()
        one, two = book.begin('{"a":1}'), book.begin("{}")
        book.keep(one, "half")
        book.finish(two, "done")
        assert (book.replay().id, book.replay().state, book.replay(two).status) == (one, "half", "done")
        book.part(one, 1, "[1]")
        book.part(one, 0, "[0]")
        assert book.replay(one).state == "" and book.found(one) == {0: "[0]", 1: "[1]"} and book.found(two) == {}
        assert [(kept.parts, kept.config) for kept in map(book.replay, (one, two))] == [(2, '{"a":1}'), (0, "{}")]
        book.finish(one, "interrupted")
        assert book.replay().status == "interrupted" and book.replay().finished_at
        with pytest.raises(BadInput, match="of number 7"):
            book.replay(7)
        with pytest.raises(BadInput, match="JSON|json|CHECK"):
            book.begin("no json")
