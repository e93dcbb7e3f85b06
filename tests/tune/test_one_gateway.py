# SPDX-License-Identifier: MIT
"""Clients behind one gateway have classes of their own, and follow a change of network: the loop on this kernel."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.tune.aside import aside
from tests.support.tune.in_guest import in_guest

# As in `one_gateway.py`, whose imports take seconds.
EPOCH_S, PLAIN, WIDE = 60, 5_000, 50_000

# By so many of its outcomes a change of a network shows, of two samples a second and a median of three.
MOST_OUTCOMES = 6


@pytest.mark.root
def test_bands_and_changes_of_one_prefixs_clients(capsys: pytest.CaptureFixture[str]) -> None:
    found = aside("one_gateway.py", "ebpf")
    judge(found)
    with capsys.disabled():
        print(f"\nebpf: {figures(found)}")


@pytest.mark.lab
def test_the_same_by_the_module(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    virtual = UmlVirtual()
    if reason := virtual.available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    found = in_guest(virtual, tmp_path, "one_gateway.py", str(module))
    judge(found)
    assert (found["unload"], found["complaints"]) == (0, [])
    with capsys.disabled():
        print(f"\nkmod: {figures(found)}")


def figures(found: dict[str, Any]) -> str:
    """By how many outcomes, and after how long, a client that changed its network had what suits the new one."""
    came, ((_, _, outcomes, seconds),) = found["after"][1], found["moved"]
    return (
        f"band: 0 outcomes, {came['seconds']:.2f} s; listed prefix: {outcomes} outcomes, {seconds:.0f} s of an epoch of"
        f" {EPOCH_S} s; {found['retuned']}"
    )


def judge(found: dict[str, Any]) -> None:
    """Each client has the class of its own path, before and after a change of that path."""
    near, far = found["apart"]
    assert near["prefix"] == far["prefix"] and not near["listed"], "neither is of a prefix with a class of its own"
    assert (near["band"], far["band"]) == (2, 3) and near["class"] != far["class"]
    assert near["lowat"] == near["best"][0] == PLAIN and far["lowat"] == far["best"][0] == WIDE
    # The far client comes near: its next connection is of the other class, without any outcome of its own.
    came = found["after"][1]
    assert (came["class"], came["lowat"]) == (near["class"], PLAIN)
    # A listed prefix: a change point shows the new network, the next epoch's map has the class of the far ones.
    ((before, now, outcomes, seconds),) = found["moved"]
    assert (before, now) == (near["class"], far["class"]) and found["epochs"] == 1
    assert outcomes <= MOST_OUTCOMES and seconds <= found["virtual seconds"] <= EPOCH_S + 1
    assert found["before"][1] == PLAIN and found["now"][1] == WIDE and found["now"][2] > 0.9
    # Open connections of that prefix follow, and no other; new ones draw from the same mix.
    other = found["given"].pop("10.99.0.11"), found["begun"].pop("10.99.0.11")
    begun, given = found["begun"], found["given"]
    assert Counter(begun.values()).most_common(1)[0][0] == PLAIN
    for seen in (given, found["fresh"]):
        assert Counter(seen.values())[WIDE] > 0.7 * len(seen)
    assert other[0] == other[1], "its prefix did not change"
    assert not found["left out"] and found["nothing left"]
