# SPDX-License-Identifier: MIT
"""End states of connections: from close records and captures, absurd ones left out by reason."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.learner.initial.end_states import (
    REASONS,
    EndStates,
    checked,
    end_of,
    joined,
    of_capture,
    of_rows,
    placed,
    prefix_of,
)  # fmt: skip
from configtron.learner.initial.naive_bayes import inputs_of
from configtron.model.close_records import RETREATED, VALIDATED
from configtron.model.errors import BadInput
from tests.support.end_state_records import record

NOW_S = 1_800_000_000.0
GOOD = {
    "at_s": 1_700_000_000.0, "prefix": "192.0.2.0/24", "min_rtt_ms": 40.0, "max_rtt_ms": 90.0, "max_cwnd": 33.0,
    "packets_in": 60.0, "packets_out": 120.0,
}  # fmt: skip


def of_record(since_boot_ns: int = 10**18, strategy: str = "", **named: Any) -> EndStates:
    """Return the end state of one record of a connection that a strategy was drawn for."""
    return of_rows([{**end_of(record(**named), since_boot_ns), "strategy": strategy}])


def test_a_close_record_becomes_a_row() -> None:
    states = of_record(since_boot_ns=1_700_000_000_000_000_000)
    row = states.row(0)
    assert row["at_s"] == 1_700_000_005.0 and row["prefix"] == "198.51.100.0/24"
    assert (row["min_rtt_ms"], row["max_cwnd"], row["packets_out"], row["loss"]) == (40.0, 57.0, 80.0, 0.05)
    assert (row["strategy"], row["propensity"], row["bound"]) == ("", None, False)
    assert row["max_rtt_ms"] is None and row["packets_in"] is None
    assert len(checked(states, NOW_S)[0]) == 1


@pytest.mark.parametrize(
    ("strategy", "resumed", "teaches"),
    [("", None, True), ("null", None, True), ("fixed", None, False), ("resume", RETREATED, False),
     ("resume", VALIDATED, True), ("other", None, False)],
)  # fmt: skip
def test_choices_do_not_teach_but_for_validated_jumps(strategy: str, resumed: str | None, teaches: bool) -> None:
    assert of_record(strategy=strategy, resumed=resumed).teaches.tolist() == [teaches]
    assert of_record(segments=10).teaches.tolist() == [False]


@pytest.mark.parametrize("limit", [{"app_limited": 0.6}, {"rwnd_limited": 0.5}, {"retransmits": 0}])
def test_a_limited_connection_shows_a_lower_bound(limit: dict[str, Any]) -> None:
    assert of_record(0, **limit).bound.all()


def test_a_record_that_ends_before_it_began_has_no_clock_and_an_unknown_round_trip_is_the_handshakes() -> None:
    assert checked(of_record(1_700_000_000_000_000_000, end_ns=1), NOW_S)[1] == {"clock": 1}
    assert of_record(0, min_rtt_us=None).min_rtt_ms[0] == 41.0


def test_a_capture_shows_the_mean_under_way_as_a_bound() -> None:
    """1000 segments of 1000 bytes in 10 round trips of 100 ms: 100 segments under way in the mean."""
    server = {"goodput_kbps": 8000.0, "mss": 1000, "data": 1000, "loss": 0.0}
    one = {"started_at": 1_700_000_000.0, "handshake": {"rtt": 0.1}, "server": server,
           "client": {"address": "2001:db8:1:2::3", "packets": 500}}  # fmt: skip
    states = of_capture([one, {"client": {}, "server": {}}])
    assert states.max_cwnd[0] == pytest.approx(100.0) and states.bound.all()
    assert states.prefix[0] == "2001:db8:1::/48" and states.packets_in[0] == 500
    assert checked(states, NOW_S)[1] == {"prefix": 1}


# Reason -> a field, and values of it that are absurd.
ABSURD: dict[str, list[tuple[str, list[Any]]]] = {
    "prefix": [("prefix", ["", "192.0.2.1/24", "192.0.2.0", "192.0.2.0/25", "10.0.0.0/8", "2001:db8::/32"])],
    "clock": [("at_s", [None, 12.0, NOW_S + 1, math.inf])],
    "round-trip": [("min_rtt_ms", [None, 0.0, -3.0]), ("max_rtt_ms", [5.0])],
    "window": [("max_cwnd", [0.0, 1e30])],
    "packets": [("packets_out", [None, math.inf]), ("packets_in", [-1.0])],
}


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_an_absurd_row_is_left_out_by_its_reason(reason: str) -> None:
    cases = [{name: value} for name, values in ABSURD[reason] for value in values]
    for given in [*cases, *([{"min_rtt_ms": 1e9, "max_rtt_ms": None}] if reason == "round-trip" else [])]:
        good, left_out = checked(of_rows([GOOD, GOOD | given]), NOW_S)
        assert len(good) == 1 and left_out == {reason: 1}, given


def test_a_value_of_another_kind_is_refused() -> None:
    for given in ({"max_cwnd": "many"}, {"prefix": 3}, {"bound": 1}, {"at_s": True}, {"packets_in": 10**400}):
        with pytest.raises(BadInput):
            of_rows([GOOD | given])


def test_only_connections_beyond_the_first_flight_are_long() -> None:
    assert of_rows([GOOD | {"packets_out": n} for n in (1.0, 10.0, 11.0)]).is_long.tolist() == [False, False, True]


def test_rows_are_joined_in_order_of_their_beginning() -> None:
    parts = [of_rows([GOOD | {"at_s": at}]) for at in (3e8, 1e8, 2e8)]
    assert joined(parts).at_s.tolist() == [1e8, 2e8, 3e8] and len(joined([])) == 0


def test_a_place_file_that_lies_gives_no_place() -> None:
    places = {"192.0.2.0/24": (52.0, 13.0), "198.51.100.0/24": (912.0, 13.0)}
    states = placed(of_rows([GOOD | {"prefix": one} for one in (*places, "203.0.113.0/24")]), places.get)
    assert states.latitude[0] == 52.0 and np.isnan(states.latitude[1:]).all() and np.isnan(states.longitude[1:]).all()


@pytest.mark.parametrize("place", [(math.inf, -1e300), (999.0, 13.0), (52.0, -181.0), (52.0, None), (-math.inf, 13.0)])
def test_a_record_that_lies_about_its_place_has_none(place: tuple[float, float | None]) -> None:
    rows = [GOOD | dict(zip(("latitude", "longitude"), one, strict=True)) for one in ((52.0, 13.0), place)]
    good, left_out = checked(of_rows(rows), NOW_S)
    assert not left_out and good.latitude[0] == 52.0 and good.longitude[0] == 13.0
    assert np.isnan([good.latitude[1], good.longitude[1]]).all()
    # one that an earlier version stored stops no learning
    assert len(inputs_of(of_rows(rows))) == len(inputs_of(good))


def test_addresses_are_cut_to_prefixes() -> None:
    assert [prefix_of(one) for one in ("192.0.2.77", "2001:db8:0:ffff::1", "192.0.2.0/28", "192.0.0.0/16", "x")] == [
        "192.0.2.0/24", "2001:db8::/48", "192.0.2.0/24", "192.0.0.0/16", "",
    ]  # fmt: skip


def test_a_recording_of_ours_is_read(tmp_path: Path) -> None:
    from configtron.service.capture.reading import connection_forms

    recording = Path(__file__).parents[2] / "fixtures/icw/10/trace.pcapng.gz"
    forms = json.loads(json.dumps(connection_forms(str(recording))))
    good, _ = checked(of_capture(forms), 4e9)
    assert len(good) >= 1 and (good.packets_out >= 1).all()
