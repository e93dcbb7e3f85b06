# SPDX-License-Identifier: MIT
"""Each driver declares all that callers use; no caller reads a driver's module or asks for attributes by name."""

from __future__ import annotations

import ast
import re

import pytest

from configtron.model.protocols import Drawing, Follower, Inventory, PerListener, SocketAssigner
from configtron.model.tuning import Place, Reach
from configtron.tune.drivers import DRIVERS, load
from tests.support import ROOT

# Questions to a driver that a type checker cannot follow.
REFLECTION = re.compile(r"(has|get)attr\([^)\n]*(driver|import_module|module)")


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_declares_what_it_reaches_and_what_not(name: str) -> None:
    driver = load(name, Place(netns="x"))
    assert (driver.name, driver.place) == (name, Place(netns="x"))
    assert driver.reachable() and not driver.reachable().keys() & driver.unreachable().keys()
    assert all(isinstance(reach, Reach) and reach.knob == knob for knob, reach in driver.reachable().items())
    assert all(driver.unreachable().values())


def test_every_driver_has_its_row() -> None:
    """A class with the methods of a driver is in DRIVERS, and each row is such a class."""
    methods = {"missing", "settable", "reachable", "unreachable", "before", "apply", "read", "mark", "revert"}
    found = set()
    for file in sorted((ROOT / "tune" / "drivers").rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and methods <= {
                inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)
            }:
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                found.add(f"configtron.{module}:{node.name}")
    assert sorted(found - set(DRIVERS.values())) == [], "tune/drivers/__init__.py: DRIVERS has no row for it"
    assert sorted(set(DRIVERS.values()) - found) == [], "tune/drivers: no class of that name with all methods"


def test_what_only_some_drivers_can_do_is_declared() -> None:
    drivers = {name: load(name, Place()) for name in DRIVERS}

    def able(kind: type) -> list[str]:
        return [name for name, driver in drivers.items() if isinstance(driver, kind)]

    assert able(Follower) == ["route"]
    assert able(SocketAssigner) == ["kmod"]
    assert able(PerListener) == ["kmod", "ebpf"]
    assert able(Drawing) == ["kmod", "ebpf"]
    assert "memory" not in able(Inventory)


def test_no_caller_asks_a_driver_by_reflection() -> None:
    folders = (ROOT / "configtron" / "cli" / "tune", ROOT / "configtron" / "service" / "lease", ROOT / "tune")
    # A package's __init__ loads its own modules by name.
    files = [file for folder in folders for file in folder.glob("*.py") if file.name != "__init__.py"]
    found = [f"{file.relative_to(ROOT)}: {line.strip()}" for file in files
             for line in file.read_text().splitlines() if REFLECTION.search(line)]  # fmt: skip
    assert found == []
