# SPDX-License-Identifier: MIT
"""The table {knob x driver} has no gap: each driver reaches each knob or refuses it in words; docs/tune.md has it.

And a driver declares all that its callers use: none asks for attributes by name.
"""

from __future__ import annotations

import ast
import re

import pytest

from configtron.model.knobs import KNOBS, NAMED_BY_HC, PER_CONNECTION, TABLE2, TUNABLE
from configtron.model.protocols import Drawing, Follower, Inventory, PerListener, SocketAssigner
from configtron.model.tuning import Place, Reach
from configtron.tune.capabilities import SETTABLE, CapabilityCell, DriverTables, cells, printed, refusal
from configtron.tune.drivers import DRIVERS, load, tables
from configtron.tune.guard import reach_text
from tests.support import ROOT
from tests.support.rules import offenders

CELLS = list(cells(tables()))
REACHED = [cell.reach for cell in CELLS if cell.reach]
BOUNDED = [(cell.driver, cell.reach) for cell in CELLS if cell.reach and cell.reach.least is not None]
TUNE = (ROOT / "docs" / "tune.md").read_text()
# What a reach may be of (`tuning.py`).
PER = {"connection", "prefix", "netns", "device", "process"}
# Of CT Table 2, what a prober sees of a knob by another name: the page says of which.
SEEN_OF = ("icw", "rwin")
# A reason says more than "no".
LEAST_WORDS = 3


def gap(cell: CapabilityCell) -> str:
    """What is wrong with a cell."""
    if (cell.reach is None) == (not cell.why):
        return "neither reached nor refused, or both"
    if cell.reach is None:
        return "" if len(cell.why.split()) >= LEAST_WORDS else "refused without a reason"
    return "" if cell.reach.per in PER and cell.reach.knob == cell.knob else "reaches something else"


def test_every_knob_is_reached_or_refused_in_words_by_every_driver() -> None:
    assert {f"{cell.knob} by {cell.driver}": wrong for cell in CELLS if (wrong := gap(cell))} == {}
    for reach, why in ((None, ""), (None, "no"), (Reach("x"), ""), (Reach("mark"), "but why so")):
        assert gap(CapabilityCell("mark", "d", reach, why)), "gaps are seen"
    named = {knob.name for knob in (*TUNABLE, *NAMED_BY_HC, *PER_CONNECTION)} | set(TABLE2) - set(SEEN_OF)
    assert named <= set(SETTABLE) <= set(KNOBS) and len(set(SETTABLE)) == len(SETTABLE)
    assert all(f"`{name}`" in TUNE for name in SEEN_OF)
    assert {cell.driver for cell in CELLS} == {*DRIVERS, "router"} - {"memory"}
    for name, held in tables().items():
        assert set(held.reaches) | set(held.refused) <= set(KNOBS), name
        assert not set(held.reaches) & set(held.refused), name


def test_every_knob_is_reached_by_a_driver_but_these() -> None:
    dead, not_ours, not_one_number = {"tcp_low_latency"}, {"ip_version", "peering_link", "tls_false_start"}, {
        "init_rto", "tcp_rmem", "tcp_wmem"}  # fmt: skip
    assert set(SETTABLE) - {reach.knob for reach in REACHED} == dead | not_ours | not_one_number


def test_no_range_is_open_and_its_ends_are_taken() -> None:
    for reach in REACHED:
        if not reach.values and reach.knob != "tcp_congestion_control":
            assert reach.least is not None and reach.most is not None, reach
            assert refusal(reach.knob, reach.least, tables()) == refusal(reach.knob, reach.most, tables()) == ""


def refused_beyond(knob: str) -> None:
    spans = [(driver, reach) for driver, reach in BOUNDED if reach.knob == knob]
    least, most = (end(value for _, reach in spans for value in (reach.least, reach.most) if value is not None)
                   for end in (min, max))  # fmt: skip
    for value in (-1, least - 0.0001, most + 1, most * 10 + 1):
        reason = refusal(knob, value, tables())
        assert "beyond what any driver takes" in reason
        assert all(driver in reason and reach_text(reach) in reason for driver, reach in spans)


def test_beyond_every_range_is_refused_with_each_range() -> None:
    assert offenders(refused_beyond, sorted({reach.knob for _, reach in BOUNDED})) == {}


def test_none_of_its_values() -> None:
    for knob in {reach.knob for reach in REACHED if reach.values} - {"tcp_congestion_control"}:
        named = any(isinstance(value, str) for value in KNOBS[knob].values)
        assert "beyond what any driver takes" in refusal(knob, "other" if named else 7, tables()), knob


def test_what_no_driver_sets_still_has_its_values() -> None:
    assert refusal("tcp_low_latency", 7, tables()) == "is none of its values: 0, 1"
    assert refusal("tcp_low_latency", 1, tables()) == refusal("tls_version", "1.3", tables()) == ""
    assert refusal("icw", 10, tables()).endswith("measured on servers; initcwnd is set in its place")
    assert refusal("wscale", 7, tables()).endswith("it is measured on servers")
    assert refusal("init_rto", 2, tables()).startswith("can be set by no driver: one name for two timers")
    assert refusal("tcp_rmem", 5, tables()).startswith("can be set by no driver: three numbers")
    assert refusal("tcp_congestion_control", "any_at_all", tables()) == "", "kernels differ: the plan asks this one"


def test_the_page_is_current_and_has_each_cell() -> None:
    assert printed(TUNE, tables()) == TUNE, "run: make man"
    made = printed("", {"a": DriverTables({"initcwnd": Reach("initcwnd", least=1, most=9)}, {"mark": "for it is so"})})
    assert "open (`tune reapply`) | - |" in made
    assert "| `initcwnd` | connection |" in made and "| `mark` | - |" in made
    (row,) = (line for line in TUNE.splitlines() if line.startswith("| connections that are open (`tune reapply`)"))
    moves = dict(zip(tables(), (word.strip() for word in row.split("|")[2:-1]), strict=True))
    assert {name for name, word in moves.items() if word == "yes"} == {"kmod", "ebpf"}


@pytest.mark.parametrize("name", DRIVERS)
def test_a_driver_declares_what_it_reaches_and_what_not(name: str) -> None:
    driver = load(name, Place(netns="x"))
    assert (driver.name, driver.place) == (name, Place(netns="x"))
    assert driver.reachable and not driver.reachable.keys() & driver.unreachable.keys()
    assert all(isinstance(reach, Reach) and reach.knob == knob for knob, reach in driver.reachable.items())
    assert all(driver.unreachable.values())


def test_every_driver_has_its_row() -> None:
    """A class with the methods of a driver is in DRIVERS, and each row is such a class. The first is asked first."""
    methods = {"missing", "settable", "before", "apply", "read", "mark", "revert"}
    found = set()
    for file in sorted((ROOT / "tune" / "drivers").rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and methods <= {
                inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)
            }:
                module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
                found.add(f"configtron.{module}:{node.name}")
    assert found == set(DRIVERS.values()), "tune/drivers/__init__.py: DRIVERS is not what is in tune/drivers"
    assert next(iter(DRIVERS)) == "kmod" and list(DRIVERS).index("ebpf") < list(DRIVERS).index("memory")


@pytest.mark.parametrize(
    ("kind", "able"),
    [(Follower, ["route"]), (SocketAssigner, ["kmod"]), (PerListener, ["kmod", "ebpf"]), (Drawing, ["kmod", "ebpf"])],
)
def test_what_only_some_drivers_can_do_is_declared(kind: type, able: list[str]) -> None:
    assert [name for name in DRIVERS if isinstance(load(name, Place()), kind)] == able
    assert not isinstance(load("memory", Place()), Inventory)


def test_no_caller_asks_a_driver_by_reflection() -> None:
    """A type checker cannot follow such questions. A package's __init__ loads its own modules by name."""
    reflection = re.compile(r"(has|get)attr\([^)\n]*(driver|import_module|module)")
    folders = (ROOT / "configtron" / "cli" / "tune", ROOT / "configtron" / "service" / "lease", ROOT / "tune")
    files = [file for folder in folders for file in folder.glob("*.py") if file.name != "__init__.py"]
    found = [f"{file.relative_to(ROOT)}: {line.strip()}" for file in files
             for line in file.read_text().splitlines() if reflection.search(line)]  # fmt: skip
    assert found == []
