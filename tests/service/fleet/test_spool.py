# SPDX-License-Identifier: MIT
"""Rows that wait for a manager: numbered, bounded, and named by the start of their agent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from configtron.fleet.messages import MOST_FRAME, OutcomeBatch, batch_frame, from_agent, outcome_rows
from configtron.model.errors import BadInput
from configtron.model.fleet import Band, FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet import FixedMapMaker, Spool
from configtron.service.fleet.map_maker import without_barred

ROW = OutcomeRow("", "", 0, 5, "a.example", "192.0.2.0/24", "0" * 16, 812.5)


def test_rows_come_out_numbered_as_they_went_in(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", "web1", boot="b1")
    sent = [replace(ROW, at_ns=at, more={"queue_ms": at / 2}) for at in range(4500)]
    assert spool.add(sent[:1]) == 1 and spool.add(sent[1:]) == 4499 and spool.add([]) == 0
    found: list[OutcomeRow] = []
    while (batch := spool.oldest())[2].number:
        message = from_agent(batch_frame(*batch))
        assert isinstance(message, OutcomeBatch)
        found += outcome_rows("web1", message)
        spool.forget(batch[0], batch[1] + batch[2].number - 1)
    assert found == [replace(row, agent="web1", boot="b1", sequence=at) for at, row in enumerate(sent, 1)]
    assert spool.waiting == 0 and spool.dropped == 0


def test_rows_with_long_texts_are_cut_into_batches_that_fit_a_frame(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", "web1")
    spool.add([replace(ROW, site="s" * 255, why_not="w" * 255, class_name="c" * 255) for _ in range(2000)])
    assert len(batch_frame(*spool.oldest())) <= MOST_FRAME


def test_another_start_has_another_name_and_old_rows_keep_theirs(tmp_path: Path) -> None:
    first = Spool(tmp_path / "s.db", "web1")
    first.add([ROW])
    first.remember_manager(3, "m 3")
    first.close()
    second = Spool(tmp_path / "s.db", "web1")
    second.add([ROW])
    assert second.boot != first.boot and second.manager() == (3, "m 3")
    assert second.oldest()[:2] == (first.boot, 1)
    second.forget(first.boot, 1)
    assert second.oldest()[:2] == (second.boot, 1)


def test_a_row_that_no_manager_takes_is_refused_with_all_of_its_call(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s.db", "web1")
    with pytest.raises(BadInput, match="plt_ms"):
        spool.add([ROW, replace(ROW, plt_ms=-1.0)])
    assert spool.waiting == 0


def test_barred_profiles_leave_a_map_before_it_is_made() -> None:
    profiles = {"fast": Profile("fast", (("initcwnd", 40),)), "slow": Profile("slow")}
    mixes = {"near": (("fast", 65_000), ("slow", 536)), "far": (("fast", 65_536),)}
    found = FleetMap(0, 0, profiles, mixes, {"192.0.2.0/24": "near", "10.0.0.0/8": "far"}, b"k" * 16, 1,
                     (Band(9, "near"), Band(99, "far")))  # fmt: skip
    maker = FixedMapMaker(found)
    made = maker.make(10**9, lambda profile: "beyond a bound" if profile.name == "fast" else "")
    assert made is not None and made.mixes == {"near": (("slow", 65_536),)} and set(made.profiles) == {"slow"}
    assert made.prefixes == {"192.0.2.0/24": "near"} and made.bands == (Band(9, "near"),)
    assert made.not_after_ns == 3601 * 10**9
    assert maker.make(2 * 10**9, lambda profile: "x" if profile.name == "fast" else "") is None
    assert without_barred(found, lambda _: "") is found
