# SPDX-License-Identifier: MIT
"""The demonstration of `tune`, played small: all is as wanted, but for the mistakes planted in its last two scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.tuned.__main__ import DRIVERS, drawn, played, report
from benchmarks.tuned.inside import AFTER
from benchmarks.tuned.judged import sights, wrong
from benchmarks.tuned.page import Sight
from benchmarks.tuned.place import CLIENTS
from configtron.lab.uml.user_mode_linux import UmlVirtual

pytestmark = [pytest.mark.root, pytest.mark.lab]
MISTAKES = ("idle", "leaving")
Demonstration = tuple[dict[str, Any], dict[str, dict[str, Sight]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Demonstration:
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("guest")
    found = played(folder, (*DRIVERS, *MISTAKES), "benchmarks.tests.planted")
    return found, sights(found, folder)


def only(whole: Demonstration, names: tuple[str, ...]) -> Demonstration:
    """The same as if only these scenes had been played."""
    found, seen = whole
    others = {scene["name"] for scene in found["scenes"]} - set(names)
    apart = others | {AFTER.format(name) for name in others}
    scenes = [scene for scene in found["scenes"] if scene["name"] in names]
    return {**found, "scenes": scenes}, {watch: clients for watch, clients in seen.items() if watch not in apart}


def test_what_rules_say_is_on_the_wire_and_then_gone(whole: Demonstration, capsys: pytest.CaptureFixture[str]) -> None:
    found, seen = only(whole, DRIVERS)
    assert report(found, seen) == []
    assert capsys.readouterr().out.count("nothing left behind") == len(DRIVERS)
    page = drawn(found, seen, [])
    # Each client untouched, by every driver, and afterwards.
    assert page.count("<figure>") == len(CLIENTS) * (len(DRIVERS) + 2)
    assert "t-hit" not in page.partition("</style>")[2]


def test_a_driver_that_does_nothing_is_seen(whole: Demonstration) -> None:
    bad = wrong(*only(whole, ("idle",)))
    assert "idle: cable got cubic 10 (grade C) instead of bbr 20" in bad
    assert len(bad) == len([client for client in CLIENTS if client.congestion])


def test_a_route_that_a_rollback_leaves_is_seen(whole: Demonstration) -> None:
    bad = wrong(*only(whole, ("leaving",)))
    assert [line for line in bad if line.startswith("leaving: routes: left behind: 192.0.2.0/24")] != []
    # Its window is on the wire, too.
    assert "after leaving: fibre got cubic 30 (grade C) instead of cubic 10" in bad
    assert len(bad) == 2
