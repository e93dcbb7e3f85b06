# SPDX-License-Identifier: MIT
"""Options from Python: a value out of range, a prefix that is none, a file that is not there are one line each."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from pathlib import Path

import pytest

from configtron.model.errors import BadInput
from configtron.service import campaign, capture, learning, lease
from configtron.service.campaign.running import resumed_options
from configtron.service.learning.fleet_report import ReportOptions
from configtron.service.learning.serve_local import ServeOptions
from configtron.service.lease.rows import reapply_rows
from configtron.service.replay import PacketOptions, replay_packets

DB = Path("absent.db")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: learning.PolicyOptions(update_every=-5), "update_every: -5 is no whole number from 1"),
        (lambda: learning.PolicyOptions(update_every=0), "update_every: 0 is no"),
        (lambda: learning.PolicyOptions(update_every=2.5), "update_every: 2.5 is no whole number"),
        (lambda: learning.PolicyOptions(update_every=True), "update_every: True is no whole number"),
        (lambda: learning.PolicyOptions(budget=-1.0), "budget: -1.0 is no number from 0 to 1"),
        (lambda: learning.PolicyOptions(budget=5.0), "budget: 5.0"),
        (lambda: learning.PolicyOptions(budget=nan), "budget: nan"),
        (lambda: learning.PolicyOptions(seed=-1), "seed: -1 is no whole number from 0"),
        (lambda: learning.PolicyOptions(features="many"), "features: 'many' is neither auto nor few"),
        (lambda: learning.LearnOptions(DB, most=-1), "most: -1 is no whole number from 1, or None for all"),
        (lambda: learning.EvaluateOptions(DB, last=-4), "last: -4"),
        (lambda: learning.ExportOptions(DB, leaf=0), "leaf: 0 is no whole number from 1"),
        (lambda: learning.ExportOptions(DB, last="9"), "last: '9'"),
        (lambda: ReportOptions(DB, 0), "rows: 0 is no whole number from 1"),
        (lambda: lease.LeaseOptions(DB, holdback=1.5), "holdback: 1.5 is no number from 0 to 1"),
        (lambda: ServeOptions(lease.LeaseOptions(DB), DB.parent, port=99_999), "port: 99999"),
        (lambda: ServeOptions(lease.LeaseOptions(DB), DB.parent, sites="a b"), "--sites 'a b'"),
        (lambda: lease.LeaseOptions(DB, canary=nan), "canary: nan"),
        (lambda: campaign.ProbeOptions(words=("127.0.0.1",), profile="zz"), "profile: 'zz' is none of quick"),
        (lambda: campaign.ProbeOptions(tests=("tls",)), "tests: --profile standard has no connection for tls; take"),
        (lambda: campaign.ProbeOptions(rate_per_s=-1.0), "rate_per_s: -1.0"),
        (lambda: campaign.ProbeOptions(shards=2, shard=2), "shard: 2 is no whole number from 0 to 1"),
    ],
)
def test_a_value_out_of_range_names_option_value_and_range(make: Callable[[], object], words: str) -> None:
    with pytest.raises(BadInput) as caught:
        make()
    assert str(caught.value).startswith(words) and "\n" not in str(caught.value)


@pytest.mark.parametrize("budget", [0, 1.0])
def test_the_bounds_themselves_are_allowed(budget: float) -> None:
    assert learning.PolicyOptions(update_every=1, budget=budget, seed=0).budget == budget
    assert capture.LiveOptions("lo", span_s=0).span_s == capture.SocketOptions(span_s=0, ports=(1, 65_535)).span_s == 0


@pytest.mark.parametrize("lease_s", [nan, -1, inf])
def test_a_lease_that_is_no_time_applies_nothing(tmp_path: Path, lease_s: float) -> None:
    with pytest.raises(BadInput, match=r"^lease_s: .* is no number from 0, in seconds; 0 keeps it$"):
        lease.apply(lease.LeaseOptions(tmp_path / "t.db"), lease_s=lease_s)
    assert not (tmp_path / "t.db").exists()


def test_prefixes_are_kept_as_rules_write_them(tmp_path: Path) -> None:
    db = tmp_path / "t.db"
    lease.set_profile(db, "web", ["initcwnd=20"])
    lease.set_profile(db, "slow", ["initcwnd=4"])
    assert lease.set_prefixes(db, {"192.0.2.7": "web", " 2001:DB8::/32": "web", "default": "web"}) == 2
    kept = lease.wanted(db).prefixes()
    assert [prefix for prefix, _, _ in kept] == ["192.0.2.7/32", "2001:db8::/32", "default"]
    for wrong in ("foo", "198.51.100.1/24", ""):
        with pytest.raises(BadInput, match="is no prefix"):
            lease.set_prefixes(db, {"203.0.113.0/24": "web", wrong: "web"})
    with pytest.raises(BadInput, match="192.0.2.9/32 has two profiles, web and slow"):
        lease.set_prefixes(db, {"192.0.2.9": "web", "192.0.2.9/32": "slow"})
    assert lease.wanted(db).prefixes() == kept


def test_a_recording_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    absent = tmp_path / "absent.pcapng"
    with pytest.raises(BadInput, match=r"absent\.pcapng: no such file or folder$"):
        replay_packets(PacketOptions((absent,)))


def test_opt_out_files_of_today_join_those_of_a_resumed_run_and_its_time_limit_is_todays() -> None:
    begun = campaign.ProbeOptions(words=("192.0.2.1",), opt_out_files=(Path("old"),), max_runtime_s=9)
    today = campaign.ProbeOptions(resume=3, opt_out_files=(Path("new"), Path("old")), fail_on=("refused",))
    found = resumed_options(begun, today, 3)
    assert found.opt_out_files == (Path("old"), Path("new"))
    assert (found.words, found.resume, found.fail_on, found.max_runtime_s) == (("192.0.2.1",), 3, ("refused",), 0)


@pytest.mark.parametrize(
    ("connections", "cells"), [((3, 2), (3, 2, "")), (None, (None, None, "does not reach open connections"))]
)
def test_a_row_of_open_connections_has_their_numbers_or_that_they_are_out_of_reach(
    connections: tuple[int, int] | None, cells: tuple[object, ...]
) -> None:
    (row,) = reapply_rows([lease.Reapplied(7, "route", connections)])
    assert tuple(row.values()) == (7, "route", *cells)
