# SPDX-License-Identifier: MIT
"""TCP stacks that are not Linux, behind TAP devices: verdicts are what they are known and recorded to do, or honest."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.stacks import STACKS, Recorded, built, probed, raised, recorded, wrong
from configtron.model.errors import Missing

GVISOR = STACKS["gvisor"]
# What the stacks' sources say: gVisor's window of 10 and timer of 200 ms; lwIP's window of 4 segments and a data timer
# above a second.
MEASURED = {
    ("gvisor", "standard", "icw"): {"icw": 10, "data_rto": pytest.approx(0.2, rel=0.15)},
    ("lwip", "standard", "icw"): {"icw": 4, "data_rto": pytest.approx(2.2, rel=0.4)},
}


@pytest.mark.root
@pytest.mark.parametrize("words", [("standard", "icw"), ("quick", "rto")])
@pytest.mark.parametrize("name", STACKS)
def test_no_value_contradicts_the_stack(name: str, words: tuple[str, str], tmp_path: Path) -> None:
    stack = STACKS[name]
    try:
        built(stack)
    except Missing as missing:
        if name == "lwip":
            raise
        pytest.skip(str(missing).partition("\n")[0])
    # A busy machine may turn a value into a bound, never into a wrong value: each run must be right, one must measure.
    expected = MEASURED.get((name, *words), {})
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        with raised([stack], folder):
            seen = probed(folder, "--profile", words[0], "--tests", words[1])[name]
        known = recorded(folder / f"{name}.pcap")
        # The quick handshake test need not meet a data timer.
        timers = known.synack_s if words[1] == "rto" else known.data_s
        assert timers, "nothing was recorded, so nothing is compared"
        assert wrong(stack, seen, known) == []
        assert "value" not in seen["min_rto"] and seen["min_rto"]["reason"].startswith("unclear:")
        if all("value" in seen[knob] for knob in expected):
            break
    assert {knob: seen[knob].get("value", seen[knob]) for knob in expected} == expected


def verdict(value: float, grade: str) -> dict[str, object]:
    return {"value": value, "grade": grade, "text": str(value)}


@pytest.mark.parametrize(
    ("knob", "value", "grade", "right"),
    [
        ("min_rto", 0.167, "B", False),
        ("min_rto", 0.2, "B", True),
        ("data_rto", 0.2, "B", True),
        ("data_rto", 0.4, "B", False),
        ("synack_rto", 1.02, "A", True),
        ("synack_rto", 2.0, "A", False),
        ("synack_rto", 2.0, "C", True),
        ("icw", 10, "B", True),
        ("icw", 11, "B", False),
        ("icw", 8, "L", True),
        ("icw", 11, "L", False),
    ],
)
def test_a_value_that_the_stack_has_not_is_named(knob: str, value: float, grade: str, right: bool) -> None:
    seen = Recorded((1.0, 1.01, 2.0), (0.2, 0.201, 0.202))
    assert bool(wrong(GVISOR, {knob: verdict(value, grade)}, seen)) is not right
