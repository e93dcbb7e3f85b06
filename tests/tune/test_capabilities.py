# SPDX-License-Identifier: MIT
"""The table {knob x driver} has no gap: each driver reaches each knob or refuses it in words; docs/tune.md has it."""

from __future__ import annotations

from configtron.model.knobs import KNOBS, NAMED_BY_HC, PER_CONNECTION, TABLE2, TUNABLE
from configtron.model.tuning import Reach
from configtron.tune.capabilities import SETTABLE, CapabilityCell, DriverTables, cells, printed, refusal
from configtron.tune.drivers import DRIVERS, tables
from configtron.tune.guard import reach_text
from tests.support import ROOT
from tests.support.rules import offenders

CELLS = list(cells(tables()))
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


def has_no_gap(cell: CapabilityCell) -> None:
    assert gap(cell) == ""


def test_every_knob_is_reached_or_refused_in_words() -> None:
    assert offenders(has_no_gap, CELLS, lambda cell: f"{cell.knob} by {cell.driver}") == {}


def test_gaps_are_seen() -> None:
    for reach, why in ((None, ""), (None, "no"), (Reach("x"), ""), (Reach("mark"), "but why so")):
        assert gap(CapabilityCell("mark", "d", reach, why))


def test_the_table_has_every_knob_and_every_driver() -> None:
    named = {knob.name for knob in (*TUNABLE, *NAMED_BY_HC, *PER_CONNECTION)} | set(TABLE2) - set(SEEN_OF)
    assert named <= set(SETTABLE) <= set(KNOBS) and len(set(SETTABLE)) == len(SETTABLE)
    assert all(f"`{name}`" in TUNE for name in SEEN_OF)
    assert {cell.driver for cell in CELLS} == {*DRIVERS, "router"} - {"memory"}


def test_reaches_and_refusals_name_knobs() -> None:
    for name, held in tables().items():
        assert set(held.reaches) | set(held.refused) <= set(KNOBS), name
        assert not set(held.reaches) & set(held.refused), name


def test_every_knob_is_reached_by_a_driver_but_these() -> None:
    reached = {cell.knob for cell in CELLS if cell.reach}
    dead, not_ours, not_one_number = {"tcp_low_latency"}, {"ip_version", "peering_link", "tls_false_start"}, {
        "init_rto", "tcp_rmem", "tcp_wmem"}  # fmt: skip
    assert set(SETTABLE) - reached == dead | not_ours | not_one_number


BOUNDED = [(cell.driver, cell.knob, cell.reach) for cell in CELLS if cell.reach and cell.reach.least is not None]
LISTED = [cell.knob for cell in CELLS if cell.reach and cell.reach.values]


def test_no_range_is_open_below() -> None:
    assert BOUNDED
    for cell in CELLS:
        if cell.reach and not cell.reach.values and cell.knob != "tcp_congestion_control":
            assert cell.reach.least is not None and cell.reach.most is not None, cell


def test_what_a_driver_takes_is_not_refused_beforehand() -> None:
    assert offenders(ends_are_taken, BOUNDED) == {}


def ends_are_taken(row: tuple[str, str, Reach]) -> None:
    _, knob, reach = row
    assert reach.least is not None and reach.most is not None
    assert refusal(knob, reach.least, tables()) == refusal(knob, reach.most, tables()) == ""


def refused_beyond(knob: str) -> None:
    spans = [reach for _, name, reach in BOUNDED if name == knob]
    least, most = min(r.least for r in spans if r.least is not None), max(r.most for r in spans if r.most is not None)
    for value in (-1, least - 0.0001, most + 1, most * 10 + 1):
        reason = refusal(knob, value, tables())
        assert "beyond what any driver takes" in reason
        for driver, name, reach in BOUNDED:
            assert name != knob or (driver in reason and reach_text(reach) in reason)


def test_beyond_every_range_is_refused_with_each_range() -> None:
    assert offenders(refused_beyond, sorted({knob for _, knob, _ in BOUNDED})) == {}


def refused_other_value(knob: str) -> None:
    named = any(isinstance(value, str) for value in KNOBS[knob].values)
    assert "beyond what any driver takes" in refusal(knob, "other" if named else 7, tables())


def test_none_of_its_values() -> None:
    assert offenders(refused_other_value, sorted({*LISTED} - {"tcp_congestion_control"})) == {}


def test_what_no_driver_sets_still_has_its_values() -> None:
    assert refusal("tcp_low_latency", 7, tables()) == "is none of its values: 0, 1"
    assert refusal("tcp_low_latency", 1, tables()) == refusal("tls_version", "1.3", tables()) == ""
    assert refusal("icw", 10, tables()).endswith("measured on servers; initcwnd is set in its place")
    assert refusal("wscale", 7, tables()).endswith("it is measured on servers")
    assert refusal("init_rto", 2, tables()).startswith("can be set by no driver: one name for two timers")
    assert refusal("tcp_rmem", 5, tables()).startswith("can be set by no driver: three numbers")
    assert refusal("tcp_congestion_control", "any_at_all", tables()) == "", "kernels differ: the plan asks this one"


def test_the_page_is_current() -> None:
    assert printed(TUNE, tables()) == TUNE, "run: make man"


def test_the_table_has_each_cell() -> None:
    made = printed("", {"a": DriverTables({"initcwnd": Reach("initcwnd", least=1, most=9)}, {"mark": "for it is so"})})
    assert "open (`tune reapply`) | - |" in made
    assert "| `initcwnd` | connection |" in made and "| `mark` | - |" in made
    (row,) = (line for line in TUNE.splitlines() if line.startswith("| connections that are open (`tune reapply`)"))
    moves = dict(zip(tables(), (word.strip() for word in row.split("|")[2:-1]), strict=True))
    assert {name for name, word in moves.items() if word == "yes"} == {"kmod", "ebpf"}
