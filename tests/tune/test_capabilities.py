"""The table {knob x driver} has no gap: each driver reaches each knob or refuses it in words; the page says so."""

from __future__ import annotations

import pytest

from configtron.knobs import KNOBS, PER_CONNECTION, TUNABLE
from configtron.tune.capabilities import SETTABLE, Cell, Tables, cells, page
from configtron.tune.drivers import DRIVERS, tables
from configtron.tuning import Reach
from tests.test_layers import ROOT

CELLS = list(cells(tables()))
# What a reach may be of (`tuning.py`).
PER = {"connection", "prefix", "netns", "device", "process"}
# A reason says more than "no".
LEAST_WORDS = 3


def gap(cell: Cell) -> str:
    """What is wrong with a cell."""
    if (cell.reach is None) == (not cell.why):
        return "neither reached nor refused, or both"
    if cell.reach is None:
        return "" if len(cell.why.split()) >= LEAST_WORDS else "refused without a reason"
    return "" if cell.reach.per in PER and cell.reach.knob == cell.knob else "reaches something else"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.knob}-{cell.driver}")
def test_every_knob_is_reached_or_refused_in_words(cell: Cell) -> None:
    assert gap(cell) == ""


def test_gaps_are_seen() -> None:
    for reach, why in ((None, ""), (None, "no"), (Reach("x"), ""), (Reach("mark"), "but why so")):
        assert gap(Cell("mark", "d", reach, why))


def test_the_table_has_every_knob_and_every_driver() -> None:
    assert {knob.name for knob in (*TUNABLE, *PER_CONNECTION)} <= set(SETTABLE) <= set(KNOBS)
    assert {cell.driver for cell in CELLS} == {*DRIVERS, "router"} - {"memory"}


def test_reaches_and_refusals_name_knobs() -> None:
    for name, held in tables().items():
        assert set(held.reaches) | set(held.refused) <= set(KNOBS), name
        assert not set(held.reaches) & set(held.refused), name


def test_every_knob_but_the_dead_one_is_reached_by_somebody() -> None:
    reached = {cell.knob for cell in CELLS if cell.reach}
    assert set(SETTABLE) - reached == {"tcp_low_latency"}


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "capabilities.md").read_text() == page(tables()), "run: make man"


def test_the_page_says_reach_and_reason() -> None:
    reach = Reach("initcwnd", least=1, most=9, note="so and so")
    made = page({"a": Tables({"initcwnd": reach}, {"mark": "for it is so"})})
    assert "| `initcwnd` | 1..9 segments | so and so |" in made
    assert "| `initcwnd` | connection |" in made and "| `mark` | - |" in made and "* `mark`: for it is so" in made
