# SPDX-License-Identifier: MIT
"""Baselines for a score: probers that give a constant answer, scored on the same pairs as a run.

Question   Does a score measure a prober, or could one that reports the same of every server score as well?
Method     The verdicts of a run are replaced, pair by pair, and scored against the same truths. "silence" gives a
           reason and no value. "least bounds" reports of each number the smallest true value of any server as a lower
           bound, so it is never wrong. "commonest" reports the commonest truth of each parameter at grade A: a value,
           or a reason if most servers have none.
Reads as   A yield near 0 for each. These baselines know how often each truth occurs, which no prober knows before it
           measures, so no other constant answer scores more.
Source     Cohen (1960) and Youden (1950): agreement counts from where chance ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from configtron.model.nouns import Observation, Value
from configtron.report.allowed_verdict import ABSENT, NOT_ANNOUNCED, Judged
from configtron.report.score import Score, score

THIS_RUN, SILENT = "this run", "unclear:constant"
Constant = Callable[[Judged], Observation]


def beside_constants(judged: Sequence[Judged]) -> dict[str, Score]:
    """Return name -> score: the run itself (`THIS_RUN`) and each constant prober on the same pairs."""
    return {THIS_RUN: score(judged)} | {name: score(those) for name, those in constants(judged).items()}


def constants(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    """Return the name of each constant prober -> its verdicts on the pairs that the run measured."""
    pairs = [one for one in judged if one.asked]
    probers: dict[str, Constant] = {
        "silence": _silence,
        "least bounds": _least_bounds(pairs),
        "commonest": _commonest(pairs),
    }
    return {name: [one._replace(observation=answer(one)) for one in pairs] for name, answer in probers.items()}


def _silence(one: Judged) -> Observation:
    return Observation(one.knob, reason=SILENT)


def _least_bounds(pairs: Iterable[Judged]) -> Constant:
    least: dict[str, float] = {}
    for one in pairs:
        for value in one.expectation.values:
            if isinstance(value, int | float) and not isinstance(value, bool):
                least[one.knob] = min(least.get(one.knob, value), value)

    def answer(one: Judged) -> Observation:
        if one.knob not in least:
            return _silence(one)
        return Observation(one.knob, least[one.knob], grade="L")

    return answer


def _commonest(pairs: Iterable[Judged]) -> Constant:
    truths: dict[str, Counter[tuple[Value | None, str]]] = {}
    for one in pairs:
        value = one.expectation.values[0] if one.expectation.values else None
        reason = "" if one.expectation.values else one.expectation.reason.split(" or ")[0]
        truths.setdefault(one.knob, Counter())[value, reason] += 1

    def answer(one: Judged) -> Observation:
        (value, reason), _ = truths[one.knob].most_common(1)[0]
        if reason == NOT_ANNOUNCED:
            value = ABSENT
        return Observation(one.knob, reason=reason) if value is None else Observation(one.knob, value, grade="A")

    return answer
