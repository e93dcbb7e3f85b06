# SPDX-License-Identifier: MIT
"""`--fail-on`: conditions on the verdicts of a run.

    icw<10                    any target whose verdict is below 10
    http_version=http/1.1     any target that chose this
    tls_versions=1.0          any target whose list has this in it
    failed>5%                 more than this share of targets (times vantages) without any value; or `failed>3`

A lower bound (grade L) satisfies only what its truth must satisfy: ">= 12" is above 10, and may or may not be 12.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from configtron.model.errors import BadInput
from configtron.model.knobs import MEASURED
from configtron.model.nouns import Observation
from configtron.report.target_results import TargetResult

FORM = re.compile(r"([a-z0-9_]+)\s*(<=|>=|!=|=|<|>)\s*(\S+)")
# What may be compared: the measured parameters, a site's provider and address.
NAMES = ("failed", "address", "provider", *(knob.name for knob in MEASURED))
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


class RunCondition(NamedTuple):
    """One condition, as written and in parts."""

    text: str
    name: str
    sign: str
    value: str


def parse_conditions(texts: Iterable[str]) -> tuple[RunCondition, ...]:
    """Parse conditions. Errors: `BadInput` with the first that is none."""
    rules = []
    for text in texts:
        found = FORM.fullmatch(text.strip())
        if found is None or (found[1] == "failed" and _number(found[3].removesuffix("%")) is None):
            raise BadInput(f"--fail-on {text!r}: write NAME, one of < > <= >= = !=, and a value, as in 'icw<10'")
        if found[2] in ("<", ">", "<=", ">=") and found[1] != "failed" and _number(found[3]) is None:
            raise BadInput(f"--fail-on {text!r}: {found[2]} compares numbers")
        if found[1] not in NAMES:
            raise BadInput(f"--fail-on {text!r}: nothing is called {found[1]!r}; known are {', '.join(NAMES)}")
        rules.append(RunCondition(text, found[1], found[2], found[3]))
    return tuple(rules)


class ConditionCheck:
    """Check conditions on one record after the other; those on `failed` at the end."""

    def __init__(self, rules: Sequence[RunCondition]) -> None:
        self._rules = rules
        self._met: set[str] = set()

    def add(self, item: TargetResult) -> None:
        """Check one more record."""
        for rule in self._rules:
            if rule.name in item.verdicts and _is(rule, item.verdicts[rule.name]):
                self._met.add(rule.text)

    def true_conditions(self, failed: int, total: int) -> list[str]:
        """Return the conditions that hold, as they were written."""
        return [r.text for r in self._rules if r.text in self._met or r.name == "failed" and _failed(r, failed, total)]


def _failed(rule: RunCondition, failed: int, total: int) -> bool:
    if rule.value.endswith("%"):
        return OPERATORS[rule.sign](100 * failed / total if total else 0.0, float(rule.value[:-1]))
    return OPERATORS[rule.sign](failed, float(rule.value))


def _is(rule: RunCondition, verdict: Observation) -> bool:
    if verdict.value is None:
        return False
    if isinstance(verdict.value, tuple):
        there = rule.value in map(str, verdict.value)
        return {"=": there, "!=": not there and verdict.grade != "L"}.get(rule.sign, False)
    wanted = _number(rule.value)
    if wanted is None or not isinstance(verdict.value, int | float):
        same = str(verdict.value) == rule.value
        return {"=": same, "!=": not same}.get(rule.sign, False)
    if verdict.grade == "L" and rule.sign not in (">", ">="):
        return False
    return OPERATORS[rule.sign](float(verdict.value), wanted)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
