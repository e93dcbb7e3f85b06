# SPDX-License-Identifier: MIT
"""The module under the fleet's agent, in a guest: what is learned from ends, in force at the next beginnings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.real_servers import absent
from tests.support.tune.kmod_strategies import BACK, EACH, KNOWN, TEACH, UNSEEN

pytestmark = pytest.mark.lab
Guest = Callable[..., dict[str, Any]]


def test_rows_of_page_loads_have_the_arm_that_the_module_drew(guest: Guest) -> None:
    """IPv4, IPv6 and mapped clients, from the map's first moment on: each page once, as `model/draw.py` draws."""
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = guest("kmod_pages")
    assert set(seen["wrong"].values()) == {0}, (seen["wrong"], seen["log"])
    assert seen["failed"] == [["tcp", True, ""]] * 3, "loads that never finished are failures of their client's arm"
    assert seen["rows"] == sum(seen["ways"].values()) + 3 and len(set(seen["ways"].values())) == 1
    assert seen["ways"].keys() == {"IPv4", "IPv6", "mapped"} and seen["arms"].keys() == {"wide", "wider", "held"}
    assert seen["taught"] >= seen["rows"] / 2 and seen["left"] == 0


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


def test_connections_that_ended_teach_the_map_that_the_next_ones_resume_by(guest: Guest) -> None:
    """A prefix never seen gets the class of its round trip; a rollback puts the untouched stack back."""
    found = guest("kmod_strategies")
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
