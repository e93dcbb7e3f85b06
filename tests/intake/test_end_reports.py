# SPDX-License-Identifier: MIT
"""Ends of connections on their way from an agent's reader to the manager's table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from configtron.db.end_state_rows import EndStateRows
from configtron.db.fleet import FleetStore
from configtron.fleet.messages import encode_rows
from configtron.intake.end_reports import OF_PREFIX, OF_TURN, EndReports
from configtron.intake.pageloads.plan_book import DrawnArm
from configtron.learner.initial.end_states import of_rows
from configtron.model.close_records import RETREATED, VALIDATED, CloseRecord, OpenRecord
from configtron.model.fleet import OutcomeRow
from configtron.service.outcomes.batch_bytes import decoded, encoded
from configtron.service.outcomes.root_reader import ReaderBatch
from tests.support.end_state_records import record

SINCE_BOOT_NS = 1_700_000_000_000_000_000
RECEIVED_NS = 1_800_000_000_000_000_000


def described(opened: OpenRecord, client: bytes) -> DrawnArm:
    assert client == bytes((198, 51, 100, 0)) or client[:2] == b"\x0a\x00"
    return DrawnArm(opened.prefix, "0" * 16, 1, 2, 3, "c", opened.arm, opened.profile or "", 0.25, opened.held)


def reported(*records: CloseRecord, draws: bool = True) -> tuple[EndReports, list[OutcomeRow]]:
    ends = EndReports(described, draws)
    for one in records:
        ends.take(one, SINCE_BOOT_NS)
    return ends, ends.reports()


def of_profile(name: str, **given: Any) -> CloseRecord:
    one = record(**given)
    return one._replace(opened=one.opened._replace(profile=name))


def stored(folder: Path, reports: list[OutcomeRow], times: int = 1, others: tuple[OutcomeRow, ...] = ()
           ) -> tuple[list[dict[str, Any]], int, int]:  # fmt: skip
    """Return the table's rows, how many rows of page loads there are, and the number up to which all came."""
    (batch,) = (decoded(encoded(ReaderBatch(states=tuple(reports)))),)
    rows = [one._replace(agent="web1", boot="b", sequence=at) for at, one in enumerate(batch.states, 1)]
    rows += others
    assert encode_rows(rows).number == len(rows)
    with FleetStore(folder / "m.db") as store:
        for _ in range(times):
            through = store.add_rows("web1", "b", 1, rows, RECEIVED_NS)
        loads = list(store.every_row())
    with EndStateRows(folder / "m.db", read_only=True) as table:
        every = table.every()
        assert [table.latest(1, 1).row(0)] == [every.row(len(every) - 1)] if len(every) else True
    return [every.row(at) for at in range(len(every))], len(loads), through


def test_all_columns_of_the_modules_record_reach_the_table_once(tmp_path: Path) -> None:
    whole = of_profile("resume-400-80", max_rtt_us=90_000, packets_in=41, resumed=VALIDATED)
    _, reports = reported(whole)
    (row,), loads, through = stored(tmp_path, reports, times=3)
    assert row == {
        "at_s": 1_700_000_005.0, "prefix": "198.51.100.0/24", "min_rtt_ms": 40.0, "max_rtt_ms": 90.0, "max_cwnd": 57.0,
        "packets_in": 41.0, "packets_out": 80.0, "bound": False, "loss": 0.05, "strategy": "resume",
        "propensity": 0.25, "latitude": None, "longitude": None, "resumed": VALIDATED,
    }  # fmt: skip
    assert (loads, through) == (0, 1)


def test_page_loads_and_ends_of_one_batch_come_apart(tmp_path: Path) -> None:
    load = OutcomeRow("web1", "b", 2, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5, profile="x")
    rows, loads, through = stored(tmp_path, reported(record())[1], others=(load,))
    assert (len(rows), loads, through) == (1, 1, 2)


def test_what_a_driver_has_not_is_unknown_and_named(tmp_path: Path) -> None:
    """A route's connections have neither windows nor packets that came; nothing is made up for them."""
    ends, reports = reported(of_profile("", max_cwnd=None))
    assert {name for name in ends.counts if name.startswith("end without")} == {
        "end without max_cwnd", "end without max_rtt_ms", "end without packets_in", "end without resumed"}  # fmt: skip
    (row,), _, _ = stored(tmp_path, reports)
    assert (row["max_cwnd"], row["max_rtt_ms"], row["packets_in"], row["resumed"]) == (None, None, None, "")


@pytest.mark.parametrize(
    ("profile", "given", "strategy"),
    [("", {}, ""), ("null", {}, "null"), ("pred-low-20", {}, "pred-low"), ("fast", {}, "other"),
     ("", {"moved": True}, "other"), ("resume-400-80", {"resumed": RETREATED}, "resume")],
)  # fmt: skip
def test_a_strategy_is_known_by_its_profile(tmp_path: Path, profile: str, given: dict[str, Any], strategy: str) -> None:
    (row,), _, _ = stored(tmp_path, reported(of_profile(profile, **given))[1])
    assert row["strategy"] == strategy and row["resumed"] == given.get("resumed", "")


@pytest.mark.parametrize(
    ("given", "profile", "draws", "strategy"),
    [
        # a person's profile teaches nothing though it has a strategy's name
        ({"term": 1, "map_version": 2, "epoch": 3, "profile": "null"}, "null", True, "other"),
        # a kernel that set nothing is believed; where the plan draws for prefixes, the record says nothing of it
        ({"doubt": "undrawn"}, "", True, ""), ({"doubt": "undrawn"}, "", False, "other"),
    ],
)  # fmt: skip
def test_without_a_plans_class_only_what_was_not_set_teaches(
    tmp_path: Path, given: dict[str, Any], profile: str, draws: bool, strategy: str
) -> None:
    ends = EndReports(lambda opened, client: DrawnArm(opened.prefix, "0" * 16, **given), draws)
    ends.take(of_profile(profile), SINCE_BOOT_NS)
    (row,), _, _ = stored(tmp_path, ends.reports())
    assert row["strategy"] == strategy


def test_an_agents_clock_may_be_hours_ahead(tmp_path: Path) -> None:
    ahead = EndReports(described, True)
    ahead.take(record(), RECEIVED_NS + 3_600_000_000_000)
    (row,), _, _ = stored(tmp_path, ahead.reports())
    assert row["at_s"] == RECEIVED_NS / 1e9


def test_short_and_unreal_connections_are_left_out_and_absurd_ones_not_stored(tmp_path: Path) -> None:
    ends, reports = reported(record(segments=10), record(end_ns=1))
    assert not reports and ends.counts == {"end not reported: no time or no prefix": 1}
    rows, _, through = stored(tmp_path, reported(record(min_rtt_us=10**9), record(max_cwnd=2**31))[1])
    assert not rows and through == 2


def test_one_prefix_and_one_turn_have_a_bound() -> None:
    """A client that opens many connections does not drown the others'; the next minute it may speak again."""
    ends, reports = reported(*[record()] * 500)
    assert len(reports) == OF_PREFIX and ends.counts["end not reported: too many of a prefix"] == 500 - OF_PREFIX
    ends.take(record(end_ns=130_000_000_000), SINCE_BOOT_NS)
    assert len(ends.reports()) == 1
    ends, reports = reported(*[record(end_ns=at % 2 * 60_000_000_000 + 5_500_000_000) for at in range(500)])
    assert len(reports) <= 2 * OF_PREFIX, "records of two minutes in turn"
    many = [record() for _ in range(OF_TURN + 50)]
    others = [one._replace(opened=one.opened._replace(prefix=f"10.0.{at}.0/24")) for at, one in enumerate(many)]
    ends, reports = reported(*others)
    assert len(reports) == OF_TURN and ends.counts["end not reported: too many in a turn"] == 50


def test_the_latest_have_a_bound_for_each_prefix(tmp_path: Path) -> None:
    rows = [{"at_s": 1.7e9 + at, "prefix": "10.1.0.0/24" if at % 10 else "10.2.0.0/24", "min_rtt_ms": 40.0,
             "packets_out": 100.0} for at in range(200)]  # fmt: skip
    with EndStateRows(tmp_path / "m.db") as table:
        table.add(of_rows(rows))
        found, some = table.latest(100, 30), table.latest(10, 5)
    assert Counter(found.prefix.tolist()) == {"10.1.0.0/24": 30, "10.2.0.0/24": 20}
    assert found.at_s.tolist() == sorted(found.at_s.tolist()) and found.at_s[-1] == 1.7e9 + 199
    assert Counter(some.prefix.tolist()) == {"10.1.0.0/24": 5, "10.2.0.0/24": 4}
