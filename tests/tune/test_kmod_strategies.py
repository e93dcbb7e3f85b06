# SPDX-License-Identifier: MIT
"""Initial windows that a fleet learns, put in force by the module, in a guest: from the end of one connection to the
beginning of the next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.tune.in_guest import in_guest
from tests.support.tune.kmod_fleet import BACK, EACH, KNOWN, TEACH, UNSEEN

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    folder: Path = tmp_path_factory.mktemp("strategies")
    reported: dict[str, Any] = in_guest(UmlVirtual(), folder, "kmod_fleet.py", str(module), "strategies")
    assert (reported["unload"], reported["complaints"]) == (0, [])
    return reported


def test_connections_that_ended_teach_the_map_that_the_next_ones_resume_by(found: dict[str, Any]) -> None:
    (profile,) = found["map"]["profiles"]
    assert found["map"]["prefixes"].keys() == {KNOWN} and found["map"]["classes"] == 1
    # 20 Mbit/s over 0.1 s and a buffer of 200 segments: 173 to 373
    assert 100 <= profile["resume_cwnd"] <= 373 and profile["resume_rtt"] == 0.08
    assert len(found["first"]) == TEACH and found["ends"][f"{KNOWN}  "] == found["reported"] < TEACH
    assert found["ends"][f"{KNOWN} resume validated"] == len(found["same"]) == EACH
    assert max(found["same"]) < 0.9 * min(found["first"]) and found["chances"] == [1.0]
    assert found["taught"] == sum(found["ends"].values())


def test_a_prefix_never_seen_gets_the_class_of_its_round_trip(found: dict[str, Any]) -> None:
    assert found["ends"][f"{UNSEEN} resume validated"] == len(found["unseen"]) == EACH
    assert max(found["unseen"]) < 0.9 * min(found["first"])


def test_a_rollback_puts_the_untouched_stack_back(found: dict[str, Any]) -> None:
    assert found["ends"][f"{BACK}  "] == EACH and not any(BACK in one and "resume" in one for one in found["ends"])
    assert min(found["back"]) > 0.98 * min(found["first"])
