# SPDX-License-Identifier: MIT
"""A manager is started from an older copy of its database: its maps are replays, and its draw has another key."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from configtron.db.fleet import FleetStore
from configtron.model.errors import REFUSED
from tests.support.faults.real_fleet import RealFleet, prefixes
from tests.support.faults.rows import write_row
from tests.support.waiting import PATIENCE_S, until


def draw_key(fleet: RealFleet) -> str:
    """Return the key of the draw that the manager's database has."""
    with FleetStore(fleet.database) as store:
        return store.facts()["maker"]


@pytest.mark.slow
def test_a_manager_of_a_restored_database_is_not_obeyed(tmp_path: Path) -> None:
    fleet = RealFleet(tmp_path, ["--driver", "memory"], {"prefixes": prefixes(50)})
    copy = tmp_path / "copy.db"
    with fleet.agent():
        with fleet.manager():
            until(lambda: fleet.held().startswith("1."), fleet.logs)
        shutil.copy(fleet.database, copy)
        with fleet.manager():
            until(lambda: fleet.held().startswith("2."), fleet.logs)
            fleet.publish({"prefixes": prefixes(60)})
            until(lambda: "accepted" in fleet.log().splitlines()[-1], fleet.logs)
            held = fleet.held()
        key = draw_key(fleet)
        # The copy's next term is 2, too, and it has another key of the draw.
        shutil.copy(copy, fleet.database)
        with fleet.manager("--fresh") as restored:
            began_s = time.monotonic()
            code = restored.wait(PATIENCE_S)
            stopped_s = time.monotonic() - began_s
        assert draw_key(fleet) != key and code == REFUSED, fleet.logs()
        (line,) = fleet.lines("which has the same term", "manager")
        accepted = [each for each in fleet.log().splitlines() if "accepted" in each]
        with fleet.manager("--after-term", "2"):
            until(lambda: fleet.held().startswith("3."), fleet.logs)
        later = [each for each in fleet.log().splitlines() if "accepted" in each][len(accepted) :]
    assert held and all(each.startswith("INFO map 3.") for each in later) and fleet.statuses()[-1] == "undone"
    assert json.loads((tmp_path / "map.json").read_text())["prefixes"].keys() == prefixes(60).keys()
    end = "no map of it is applied, it stops, exit code 6; with `--after-term 2` it is obeyed"
    write_row("manager of a restored database, whose draw has another key", end, line, stopped_s)
