# SPDX-License-Identifier: MIT
"""The judgement of make demo-learn: what must be seen as wrong is; and a short form of the tour in the lab."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.learned.__main__ import VISITS, played, table, wanted, wrong
from benchmarks.learned.place import clients
from benchmarks.tuned.place import Client
from benchmarks.tuned.reading import Flight, flights
from configtron.model.nouns import Observation, Target, Trace

SOME = clients(3, 1)


def flight(window: int) -> Flight:
    return Flight(Observation("icw", window, grade="C"), Trace("t", Target("s"), "c", "rwin"))


def toured() -> tuple[dict[str, Any], dict[str, dict[str, Flight]]]:
    """A tour in which the first client's prefix got 30 segments, and all is as wanted."""
    rules = {"prefix": [{"prefix": SOME[0].prefix, "profile": "learned1"}],
             "profile": [{"profile": "learned1", "settings": {"initcwnd": 30}}]}  # fmt: skip
    found = {"steps": [("configtron tune plan", "", 0)], "clients": [list(one) for one in SOME], **rules}
    seen = {visit: {one.address: flight(10) for one in SOME} for visit in VISITS}
    seen["in force"][SOME[0].address] = flight(30)
    return found, seen


def test_all_as_wanted() -> None:
    found, seen = toured()
    assert wrong(found, seen) == [] and wanted(found) == {"c00": 30, "c01": 10, "c02": 10}
    shown = [line.split()[-4:] for line in table(found, seen).splitlines()[1:3]]
    assert shown == [["30", "10", "30", "10"], ["10", "10", "10", "10"]]


@pytest.mark.parametrize(("visit", "client", "window"), [("in force", 0, 10), ("rolled back", 0, 30),
                                                         ("untouched", 1, 4), ("in force", 2, 30)])  # fmt: skip
def test_another_window_is_reported(visit: str, client: int, window: int) -> None:
    found, seen = toured()
    seen[visit][SOME[client].address] = flight(window)
    (output,) = wrong(found, seen)
    assert output.startswith(f"{visit}: c0{client} got {window} segments instead of ")


def test_a_failed_step_and_nothing_learned_are_reported() -> None:
    found, seen = toured()
    found["steps"] = [("configtron tune plan", "unfair", 6)]
    assert wrong(found, seen) == ["exit code 6 of: configtron tune plan\nunfair"]
    found, seen = toured()
    found["prefix"], seen["in force"] = [], seen["untouched"]
    assert wrong(found, seen) == ["nothing was learned: no prefix is to get another initial window"]


def test_clients_have_prefixes_of_their_own() -> None:
    some = clients(16, 1)
    assert len({one.prefix for one in some}) == 16 and all(isinstance(one, Client) for one in some)
    assert all(one.rtt_ms % 2 == 0 and 20 <= one.rtt_ms <= 400 for one in some)


@pytest.mark.root
@pytest.mark.lab
def test_captures_and_logs_become_rules_on_the_wire(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real nginx, captures, contexts, outcomes, policy, rules, plan, and first flights: in the lab's virtual time."""
    found = played(tmp_path, SHORT)
    seen = {visit: flights(tmp_path / f"{visit}.pcap") for visit in VISITS}
    sys.stdout.write(table(found, seen))
    assert wrong(found, seen) == [], capsys.readouterr().out
    output = capsys.readouterr().out
    assert "outcomes got their network from contexts" in output and "(exit code 0)" in output


# Clients, rounds, loads: a third of the demonstration's.
SHORT = (12, 8, 6)
