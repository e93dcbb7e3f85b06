# SPDX-License-Identifier: MIT
"""The module under the fleet's agent, in a guest: rows in the manager's database, and loads that must not teach."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from configtron.lab.uml.kmod import module_for_guest
from configtron.lab.uml.user_mode_linux import UmlVirtual
from tests.support.real_servers import absent
from tests.support.tune.in_guest import in_guest

pytestmark = pytest.mark.lab


def played(folder: Path, script: str, *arguments: str) -> dict[str, Any]:
    virtual = UmlVirtual()
    if reason := virtual.available():
        pytest.skip(reason)
    module = module_for_guest(lambda line: print(line, file=sys.stderr))
    found = in_guest(virtual, folder, script, str(module), *arguments)
    assert (found["unload"], found["complaints"]) == (0, [])
    return dict(found)


def test_rows_of_page_loads_have_the_arm_that_the_module_drew(tmp_path: Path) -> None:
    """IPv4, IPv6 and mapped clients, from the map's first moment on: each page once, as `model/draw.py` draws."""
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = played(tmp_path, "kmod_fleet.py", "pages")
    assert set(seen["wrong"].values()) == {0}, (seen["wrong"], seen["log"])
    assert seen["failed"] == [["tcp", True, ""]] * 3, "loads that never finished are failures of their client's arm"
    assert seen["rows"] == sum(seen["ways"].values()) + 3 and len(set(seen["ways"].values())) == 1
    assert seen["ways"].keys() == {"IPv4", "IPv6", "mapped"} and seen["arms"].keys() == {"wide", "wider", "held"}
    assert seen["taught"] >= seen["rows"] / 2 and seen["left"] == 0


@pytest.mark.parametrize("driver", ["kmod", "route"])
def test_a_load_on_a_re_tuned_connection_does_not_teach(tmp_path: Path, driver: str) -> None:
    """Two readers of connections' ends; nor does it after the agent was killed meanwhile."""
    seen = played(tmp_path, "moved_pages.py", driver)
    one, killed = seen["one_agent"], seen["killed_agent"]
    assert one["begun"] == {"moved": "vegas", "stays": "vegas"} and one["text"].startswith("1 of 1 open")
    assert one["changed"] == killed["changed"] == {"moved": "reno", "stays": "vegas"}
    assert one["taught"] == {"moved": [False, "moved"], "stays": [True, ""]}
    # What the first agent's reader knew of a connection's beginning went with it; the connection itself did not.
    assert killed["taught"] == dict.fromkeys(("moved", "stays"), [False, "undrawn"]), killed
    assert killed["ended"] == 2 and not killed["counts"].get("no-record")
