# SPDX-License-Identifier: MIT
"""Careful Resume in the module on connections that begin or go on in other ways than most, in a guest of the lab."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.tune.in_guest import in_guest
from tests.support.tune.kmod_resume import RIGHT

pytestmark = pytest.mark.lab

JUMP = int(RIGHT.settings["resume_cwnd"]) // 2


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    folder = tmp_path_factory.mktemp("ways")
    reported: dict[str, Any] = in_guest(UmlVirtual(), folder, "kmod_resume.py", str(module), "ways")
    assert (reported["unload"], reported["complaints"]) == (0, [])
    return reported


def outcome(one: dict[str, Any]) -> tuple[int, int, int]:
    return one["resumed"], one["validated"], one["retreated"]


@pytest.mark.parametrize("name", ["IPv4", "IPv6", "mapped", "cookie", "fast open"])
def test_a_connection_resumes_however_it_began(found: dict[str, Any], name: str) -> None:
    one = found["ways"][name]
    assert outcome(one) == (1, 1, 0) and one["window"] == JUMP and not one["paced at the end"]
    assert one["retrans"] == 0
    if name == "fast open":
        assert one["data in SYN"]


def test_a_client_whose_window_the_cookie_forgot_does_not_fill_the_jump(found: dict[str, Any]) -> None:
    """Without timestamps a SYN cookie loses the window's scale: 64 kB is all that the client offers."""
    one = found["ways"]["cookie without timestamps"]
    assert outcome(one) == (1, 0, 0) and one["max_cwnd"] < JUMP and not one["paced at the end"]


def test_a_mark_within_the_jump_retreats_though_nothing_was_lost(found: dict[str, Any]) -> None:
    marked = found["marked"]["ECN marked"]
    assert outcome(found["marked"]["ECN"]) == (1, 1, 0)
    assert outcome(marked) == (1, 0, 1) and marked["reduced"] and marked["retrans"] == 0
    assert marked["max_cwnd"] < JUMP + 1 and not marked["paced at the end"]


def test_an_idle_application_leaves_the_jump_and_goes_on_as_any_other(found: dict[str, Any]) -> None:
    """It comes back to a smaller window, without the jump's pace, and what it did not use is no evidence."""
    idle = found["idle"]
    assert idle["jumped"] and outcome(idle) == (1, 0, 0)
    assert idle["paced when idle"] and not idle["paced after"] and not idle["paced at the end"]
    assert idle["window after"] < JUMP
