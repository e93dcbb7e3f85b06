# SPDX-License-Identifier: MIT
"""Open connections are moved on request, and what the kernel refused at one is not passed over."""

from __future__ import annotations

import json

import pytest

from configtron.model.errors import CONDITION, DONE, NOTHING
from configtron.tune.drivers.memory import MemoryDriver
from tests.cli.tune.test_commands import TuneCommand, tune, wanted
from tests.support.memory_stack import Stack, stack

__all__ = ["stack", "tune", "wanted"]


def test_a_driver_that_moves(wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted("reapply") == (NOTHING, "", "nothing of ours is in force here\n")
    assert wanted("--driver", "memory", "apply")[0] == DONE
    code, out, _ = wanted("reapply", "-f", "jsonl")
    assert code == NOTHING and json.loads(out)["about"] == "does not reach open connections"
    monkeypatch.setattr(MemoryDriver, "move", lambda self: (9, 2), raising=False)
    code, out, _ = wanted("reapply", "-f", "jsonl")
    row = json.loads(out)
    assert (code, row["act"], row["driver"], row["served"], row["moved"]) == (DONE, 1, "memory", 9, 2)


def test_refusals_are_differences(wanted: TuneCommand, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wanted("--driver", "memory", "apply")[0] == DONE
    refused = {"min_rto": (3, "Invalid argument")}
    monkeypatch.setattr(MemoryDriver, "refusals", lambda self: refused, raising=False)
    code, out, _ = wanted("verify", "-f", "jsonl")
    row = json.loads(out)
    assert code == CONDITION and (row["scope"], row["knob"]) == ("connections", "min_rto")
    assert row["found"] == "refused 3 times: Invalid argument"
    refused.clear()
    assert wanted("verify")[0] == DONE
