# SPDX-License-Identifier: MIT
"""The fleet's loop by this kernel and by the module in a guest: what ends teach, in force at the next beginnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.real_servers import absent
from tests.support.tune.aside import aside
from tests.support.tune.kmod_fleet import BACK, EACH, KNOWN, TEACH, UNSEEN

Guest = Callable[..., dict[str, Any]]


@pytest.mark.lab
def test_rows_of_page_loads_have_the_arm_that_the_module_drew(guest: Guest) -> None:
    """IPv4, IPv6 and mapped clients, from the map's first moment on: each page once, as `model/draw.py` draws."""
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = guest("kmod_fleet pages")
    assert set(seen["wrong"].values()) == {0}, (seen["wrong"], seen["log"])
    assert seen["failed"] == [["tcp", True, ""]] * 3, "loads that never finished are failures of their client's arm"
    assert seen["rows"] == sum(seen["ways"].values()) + 3 and len(set(seen["ways"].values())) == 1
    assert seen["ways"].keys() == {"IPv4", "IPv6", "mapped"} and seen["arms"].keys() == {"wide", "wider", "held"}
    assert seen["taught"] >= seen["rows"] / 2 and seen["left"] == 0


@pytest.mark.lab
@pytest.mark.parametrize("driver", ["kmod", "route"])
def test_a_load_on_a_re_tuned_connection_does_not_teach(guest: Guest, driver: str) -> None:
    """Two readers of connections' ends; nor does it after the agent was killed meanwhile."""
    seen = guest("moved_pages", driver)
    one, killed = seen["one_agent"], seen["killed_agent"]
    assert one["begun"] == {"moved": "vegas", "stays": "vegas"} and one["text"].startswith("1 of 1 open")
    assert one["changed"] == killed["changed"] == {"moved": "reno", "stays": "vegas"}
    assert one["taught"] == {"moved": [False, "moved"], "stays": [True, ""]}
    # What the first agent's reader knew of a connection's beginning went with it; the connection itself did not.
    assert killed["taught"] == dict.fromkeys(("moved", "stays"), [False, "undrawn"]), killed
    assert killed["ended"] == 2 and not killed["counts"].get("no-record")


@pytest.mark.lab
def test_connections_that_ended_teach_the_map_that_the_next_ones_resume_by(guest: Guest) -> None:
    """A prefix never seen gets the class of its round trip; a rollback puts the untouched stack back."""
    found = guest("kmod_fleet strategies")
    (profile,) = found["map"]["profiles"]
    assert found["map"]["prefixes"].keys() == {KNOWN} and found["map"]["classes"] == 1
    # 20 Mbit/s over 0.1 s and a buffer of 200 segments: 173 to 373
    assert 100 <= profile["resume_cwnd"] <= 373 and profile["resume_rtt"] == 0.08
    ends = found["ends"]
    assert len(found["first"]) == TEACH and ends[f"{KNOWN}  "] == found["reported"] < TEACH
    assert found["chances"] == [1.0] and found["taught"] == sum(ends.values())
    for prefix, seen in ((KNOWN, found["same"]), (UNSEEN, found["unseen"])):
        assert ends[f"{prefix} resume validated"] == len(seen) == EACH
        assert max(seen) < 0.9 * min(found["first"])
    assert ends[f"{BACK}  "] == EACH and not any(BACK in one and "resume" in one for one in ends)
    assert min(found["back"]) > 0.98 * min(found["first"])


# As in `one_gateway.py`, whose imports take seconds.
EPOCH_S, PLAIN, WIDE = 60, 5_000, 50_000

# By so many of its outcomes a change of a network shows, of two samples a second and a median of three.
MOST_OUTCOMES = 6


@pytest.mark.parametrize(
    "driver", [pytest.param("ebpf", marks=pytest.mark.root), pytest.param("kmod", marks=pytest.mark.lab)]
)
def test_bands_and_changes_of_one_prefixs_clients(guest: Callable[..., dict[str, Any]], driver: str) -> None:
    found = aside("one_gateway.py", "ebpf") if driver == "ebpf" else guest("one_gateway")
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
