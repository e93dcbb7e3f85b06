# SPDX-License-Identifier: MIT
"""Readers of what people bring: what is in a trace is read, what is none is refused in one line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from configtron.learner.columns import Contexts
from configtron.model.errors import BadInput
from configtron.studies.sim.traces import (
    MAHIMAHI_BYTES,
    contexts_pieces,
    csv_sessions,
    mahimahi,
    pieces,
    steps,
    visited,
)
from tests.support.worlds import small_tensor

TENSOR = small_tensor()
HEADER = "at_s,prefix,site,bandwidth_kbps,rtt_ms,loss"
AFTER = ",change_s,bandwidth_kbps_after,rtt_ms_after,loss_after"


def test_mahimahi_counts_packets() -> None:
    one_a_ms = "\n".join(str(at) for at in range(1, 3001))
    rates = mahimahi(one_a_ms)
    assert rates.end_s == 3.0 and list(rates.at_s) == [0.0, 1.0, 2.0]
    assert rates.kbps == pytest.approx(MAHIMAHI_BYTES * 8.0, rel=0.01)
    assert mahimahi("0\n5000").kbps[2] == 1.0


DRESSES = (
    "[[0, 4.0], [10, 1.5]]",
    "[\n [0, 4.0],\n [10, 1.5]\n]",
    "[[1700000000, 4.0], [1700000010, 1.5]]",
    "0 4.0\n10 1.5\n",
    "0,4.0\n\n10,1.5",
    "[0, 4.0],\n[10, 1.5]",
)


@pytest.mark.parametrize("text", DRESSES)
def test_steps_come_in_several_dresses(text: str) -> None:
    rates = steps(text)
    assert (list(rates.at_s), list(rates.kbps), rates.end_s) == ([0.0, 10.0], [4000.0, 1500.0], 20.0)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (mahimahi, "", "a time in ms"),
        (mahimahi, "3\nx", "line 2"),
        (mahimahi, "3\n2", "line 2: the times .* never fall"),
        (mahimahi, "0\n1\n" + "9" * 320, "line 3: .* at most"),
        (mahimahi, "0\n1\n" + "9" * 5000, "line 3: .* at most"),
        (mahimahi, "0\n1\n99999999999999", "line 3: .* at most 86400 s"),
        (steps, f"[[0, 1], [1, {10**400}]]", "pair 2: two numbers"),
        (steps, '[[0, 1], {"1": 1, "2": 2}]', "pair 2: two numbers"),
        (steps, "[" * 100_000, "pairs"),
        (steps, "0 1\n1 1e308", "line 2: .* rate"),
        (steps, "0 1\n1e15 1", "line 2: .* from the first time"),
        (steps, "0 1\ninf 1", "line 2: a time must be finite"),
        (mahimahi, "0\n0", "the last above 0"),
        (steps, "1 2", "at least two"),
        (steps, "1 2\n1 2", "must rise"),
        (steps, "1 2\n2 -1", "negative"),
        (steps, "1 2\nnan nan", "line 2: a time must be finite"),
        (steps, "1 2 3", "line 1"),
        (steps, "[[1, 2], [3]]", "pair 2: two numbers"),
        (steps, "[[1, 2", "pairs"),
    ],
)
def test_what_is_none_is_refused(read, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInput, match=message):
        read(text)


def test_a_link_that_falls_is_two_pieces() -> None:
    rng = np.random.default_rng(3)
    mbps = np.where(np.arange(120) < 70, 8.0, 1.0) * np.exp(0.05 * rng.standard_normal(120))
    rates = steps("\n".join(f"{at} {rate}" for at, rate in enumerate(mbps)))
    first, second = pieces(rates, 60.0, 0.001)
    assert abs(first.end_s - 70.0) <= 2.0 and first.end_s == second.begin_s and second.end_s == 120.0
    assert first.kbps == pytest.approx(8000, rel=0.05) and second.kbps == pytest.approx(1000, rel=0.05)
    sessions = visited([first, second], "192.0.2.0/24", TENSOR, 400, rng)
    early = sessions.at_s < first.end_s
    assert np.allclose((sessions.at_s + sessions.change_s)[early], first.end_s) and 0.5 < early.mean() < 0.7
    assert np.isinf(sessions.change_s[~early]).all()
    assert (sessions.condition[early] != sessions.after[early]).all()
    assert (sessions.after[early] == sessions.condition[~early][0]).all()


def test_a_capture_is_cut_where_round_trips_change() -> None:
    rng = np.random.default_rng(5)
    rtt = np.where(np.arange(100) < 40, 30.0, 150.0) * np.exp(0.05 * rng.standard_normal(100))
    rtt[10] = np.nan
    columns = (np.full(100, 5000.0), rtt, np.full(100, 0.01))
    seen = Contexts(*columns, np.zeros(100, dtype=np.int64), TENSOR.sites)
    first, second = contexts_pieces(np.arange(100.0), seen)
    assert abs(first.end_s - 40.0) <= 2.0 and first.rtt_ms < 35.0 and second.rtt_ms > 130.0
    with pytest.raises(BadInput, match="no connection"):
        contexts_pieces(np.arange(1.0), seen[np.array([10])])


def test_sessions_come_as_csv() -> None:
    text = f"{HEADER}{AFTER}\n7,10.0.0.0/24,shop,5000,80,0.01,2.5,300,200,0\n3,10.0.1.0/24,news,900,20,0,,,,\n"
    sessions = csv_sessions(text, TENSOR)
    assert list(sessions.at_s) == [0.0, 4.0] and list(sessions.change_s) == [math.inf, 2.5]
    assert sessions.seen.prefixes == ("10.0.1.0/24", "10.0.0.0/24") and list(sessions.seen.rtt_ms) == [20.0, 80.0]
    assert sessions.after[0] == sessions.condition[0] and sessions.after[1] != sessions.condition[1]
    plain = csv_sessions(f"{HEADER}\n1,p,news,900,20,0\n", TENSOR)
    assert np.isinf(plain.change_s).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks at_s"),
        (HEADER, "no session"),
        (f"{HEADER},change_s\n1,p,news,900,20,0,3", "lacks bandwidth_kbps_after"),
        (f"{HEADER}\n1,p,moon,900,20,0", "no site 'moon'"),
        (f"{HEADER}\n1,p,news,x,20,0", "line 2: bandwidth_kbps is no number"),
        (f"{HEADER}\n1,p,news,900,20", "line 2: loss is no number"),
        (f"{HEADER}\n1,p,news,900,20,nan", "finite"),
        (f"{HEADER}\n1,p,news,900,20,-1", "at least 0"),
        (f"{HEADER}\n1,p,news,0,20,0", "above 0"),
        (f"{HEADER}\n1,p,news,900,20,1.5", "line 2: loss must be a share"),
        (f"{HEADER}\n1,p,news,1e308,20,0", "line 2: bandwidth must be"),
        (f"{HEADER}\n1,p,news,900,20,0\n1e9,p,news,900,20,0", "line 3: .* from the first time"),
        (f"{HEADER}\n1,p,news,900,20,0,1", "line 2: 7 values for 6 columns"),
        (f"{HEADER}\n0,{'a' * 200_000},news,900,20,0", "line 2: no CSV"),
        (f'{HEADER}\n0,"p,news,900,20,0', "a quote left open"),
        (f"{HEADER}{AFTER}\n1,p,news,900,20,0,1e99,900,20,0", "line 2: change_s must be at most"),
    ],
)
def test_csv_that_is_wrong_says_where(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        csv_sessions(text, TENSOR)
