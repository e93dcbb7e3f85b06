# SPDX-License-Identifier: MIT
"""The table of grade rules: complete, printed in the docs, and what the rules do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from configtron.fingerprint import read
from configtron.fingerprint.grades import RULE_OF, RULES, GradeRule, printed
from configtron.fingerprint.merge import merge_all
from configtron.model.knobs import MEASURED
from configtron.model.nouns import Observation
from configtron.probe.wire.evidence_reader import read_located
from tests.support import ROOT

PAGE = ROOT / "docs" / "fingerprint.md"
NEVER = "never"
# Details that the verdict functions read of exact trials.
DETAILS = {
    "icw": lambda n: (("offered_mss", 536 + n), ("sack_offered", True)),
    "icw_tls": lambda n: (("offered_mss", 536 + n), ("sack_offered", True)),
    "cwnd_at_request": lambda n: (("offered_mss", 536 + n), ("sack_offered", True)),
    "synack_rto": lambda n: (("gaps", (1.0, 2.0) if n == 1 else (1.0,)), ("arrival", 0.02), ("rtt", 0.02)),
    "data_rto": lambda n: (("gaps", (0.25, 0.5)), ("regular", True), ("trip", 0.02), ("rtt", 0.02)),
}
# Readings: by parameter, else its usual value, else by its unit.
VALUES = {"tfo": "yes", "s": 1.0, "count": 3, "segments": 10, "bytes": 29200}
KNOBS = {knob.name: knob for knob in MEASURED}
# Verdicts on trials of other parameters, and of versions under several limits; their own tests have them.
ELSEWHERE = ("icw_formula", "min_rto", "tls_versions", "load_balancing")


def exact(rule: GradeRule, knob: str, count: int) -> list[Observation]:
    """That many exact trials that agree."""
    value = VALUES.get(knob) or KNOBS[knob].default or VALUES.get(KNOBS[knob].unit, "yes")
    unit = KNOBS[knob].unit if KNOBS[knob].unit in ("s", "segments", "bytes") else ""
    details = DETAILS.get(knob, lambda n: ())
    return [
        Observation(knob, value, None, unit, "", "C", f"na/a/{knob}.{n}", (), (), details(n))
        for n in range(1, count + 1)
    ]


def test_every_parameter_has_one_row() -> None:
    rows = Counter(knob for rule in RULES for knob in rule.knobs)
    assert set(rows) == {knob.name for knob in MEASURED}
    assert max(rows.values()) == 1


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text()
    assert printed(text) == text, "run: make man"
    assert all(f"`{knob}`" in text for knob in RULE_OF)


@pytest.mark.parametrize("knob", sorted(set(RULE_OF) - set(ELSEWHERE)))
def test_as_many_trials_as_the_row_says_make_b_and_a(knob: str) -> None:
    rule = RULE_OF[knob]
    grades = {count: merge_all(exact(rule, knob, count))[knob].grade for count in range(1, rule.a + 1)}
    assert 1 < rule.b < rule.a
    assert grades[rule.b] in ("B", "A") and grades[rule.a] == "A"
    assert all(grades[count] not in ("A", "B") for count in range(1, rule.b))
    assert all(grades[count] != "A" for count in range(rule.b, rule.a))


@pytest.fixture(scope="module")
def trials() -> Sequence[Observation]:
    files = sorted((ROOT / "fixtures").rglob("*.gz"))
    return [o for file in files for trace, _ in read_located(file) for o in read(trace)]


def test_trials_have_the_grades_that_their_rows_name(trials: Sequence[Observation]) -> None:
    found = {(o.knob, o.grade) for o in trials}
    assert {grade for _, grade in found} == {"C", "L", "N"}
    assert {knob for knob, grade in found if grade == "L" and not RULE_OF[knob].bound} == set()
    assert {knob for knob, grade in found if grade == "C" and RULE_OF[knob].exact.startswith(NEVER)} == set()


def test_most_rows_are_met_by_recordings(trials: Sequence[Observation]) -> None:
    exact_knobs = {o.knob for o in trials if o.grade == "C"}
    unmet = {knob for knob, rule in RULE_OF.items() if not rule.exact.startswith(NEVER)} - exact_knobs
    assert unmet == {"craft", "http_tls"}
