# SPDX-License-Identifier: MIT
"""A place that names listeners: their connections are tuned, those of others at the same host are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.tune.aside import aside
from tests.support.tune.sockets import WAYS

pytestmark = pytest.mark.root
MEANT = [way for way in WAYS if not way.startswith("22") and not way.endswith("another")]
OTHERS = [way for way in WAYS if way not in MEANT]


@pytest.fixture(scope="module")
def seen() -> Any:
    return aside("sockets.py", "listened")


@pytest.mark.parametrize("way", MEANT)
def test_who_came_to_a_named_listener_is_tuned(seen: Any, way: str) -> None:
    assert seen["begun"][way] == {"cc": "cubic", "cwnd": 23}
    assert seen["moved"][way]["cc"] == "bbr"


@pytest.mark.parametrize("way", OTHERS)
def test_no_one_else_is(seen: Any, way: str) -> None:
    assert seen["begun"][way] == {"cc": "reno", "cwnd": 10}
    assert seen["moved"][way] == seen["begun"][way]


def test_the_window_offered_before_the_handshake_is_the_named_listeners_alone(seen: Any) -> None:
    offered = seen["offered"]
    # five segments of a loopback's MSS would be more than 65535, which is the most a SYN-ACK can offer
    assert {offered[way] for way in MEANT}.isdisjoint({offered[way] for way in OTHERS}), offered


def test_only_theirs_are_counted_as_served(seen: Any) -> None:
    """`move` takes ports that a process still listens at: every port but 22's is named, 8080 and 8081 in part."""
    assert seen["move"] == [len(MEANT), len(MEANT)]
    assert seen["others see nothing"] and seen["nothing left"]


def test_a_rollback_finds_what_no_journal_knows(tmp_path: Path) -> None:
    """A database that was lost: the choice of listeners is read from the kernel."""
    assert aside("status_of_plan.py", "unlisted", str(tmp_path / "db")) == {
        "rows": [["ebpf", "unjournaled", "undone"], ["ebpf", "unjournaled", "undone"]], "nothing left": True,
    }  # fmt: skip
