"""Trials -> one verdict: how agreement is graded and disagreement settled.

Rules for this file: pure; the grades are those of `docs/grades.md`; a bound never becomes a value; a disagreement is
never hidden (its values are in the details); no trial is dropped (all are kept in `trials`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from configtron.fingerprint.icw import STRONG
from configtron.fingerprint.verdict import canonical
from configtron.nouns import Observation, Value

# Trials that must agree for the two best grades.
AGREE_A, AGREE_B = 3, 2
# Timers agree within the kernel's timer wheel granularity (kernel/time/timer.c): an eighth.
WHEEL = 0.125
# A SYN-ACK run that saw at least this many gaps shows the timer twice by itself.
GAPS_A = 2


def merge(trials: Sequence[Observation]) -> Observation:
    """One verdict out of at least one reading of the same knob."""
    exact = [t for t in trials if t.grade == "C"]
    bounds = [t for t in trials if t.grade == "L"]
    if exact:
        return RULES.get(trials[0].knob, agree)(trials, exact, bounds)
    if bounds:
        best = max(bounds, key=_number)
        return _verdict(trials, best, "L", {})
    reason, _ = Counter(t.reason for t in trials).most_common(1)[0]
    first = trials[0]
    return Observation(first.knob, None, reason, first.unit, first.method, "N", trials=tuple(trials))


def merge_all(trials: Iterable[Observation]) -> dict[str, Observation]:
    """Verdicts by knob, in knob order."""
    by_knob: dict[str, list[Observation]] = {}
    for trial in trials:
        by_knob.setdefault(trial.knob, []).append(trial)
    return {knob: merge(by_knob[knob]) for knob in sorted(by_knob)}


def agree(trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]) -> Observation:
    """Facts that are equal or not: all equal 3 times A, twice B; else the commonest, C, with what else was seen."""
    counts = Counter(t.value for t in exact)
    value, _ = counts.most_common(1)[0]
    best = next(t for t in exact if t.value == value)
    refuted = any(_number(b) > _number(best) for b in bounds)
    if len(counts) > 1 or refuted:
        return _verdict(trials, best, "C", {"seen": tuple(sorted({t.text for t in (*exact, *bounds)}))})
    return _verdict(trials, best, _count_grade(len(exact)), {})


def agree_icw(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """As `agree`, but a proof from before any timer must be among them, and A asks for two MSS values and for the edge
    run's consent; a disagreement takes what two runs
    reached, else the commonest (a lost tail only shortens a run)."""
    counts = Counter(_number(t) for t in exact)
    reached = [v for v, n in counts.items() if n >= AGREE_B]
    value = max(reached) if reached else counts.most_common(1)[0][0]
    best = next(t for t in exact if _number(t) == value)
    refuted = any(_number(b) > value for b in bounds)
    if len(counts) > 1 or refuted:
        return _verdict(trials, best, "C", {"seen": tuple(sorted({t.text for t in (*exact, *bounds)}))})
    grade = _count_grade(len(exact))
    sizes = {t.detail("mss") for t in exact}
    edges = [t for t in exact if t.detail("sack")]
    if not any(t.detail("proof") in STRONG for t in exact):
        grade = "C"
    elif grade == "A" and (len(sizes) < 2 or not edges):
        grade = "B"
    return _verdict(trials, best, grade, {})


def agree_seconds(
    trials: Sequence[Observation], exact: Sequence[Observation], bounds: Sequence[Observation]
) -> Observation:
    """Timers: the shortest reading (a lost copy only lengthens); others agree within an eighth of it."""
    best = min(exact, key=_number)
    near = [t for t in exact if _number(t) <= _number(best) * (1 + WHEEL)]
    if len(near) < len(exact):
        grade = "C"
    elif len(near) >= AGREE_B and all(_gaps(t) >= GAPS_A for t in near) and best.knob == "synack_rto":
        grade = "A"
    else:
        grade = _count_grade(len(near))
    return _verdict(trials, best, grade, {"seen": tuple(sorted({t.text for t in exact}))} if grade == "C" else {})


RULES: dict[str, Callable[[Sequence[Observation], Sequence[Observation], Sequence[Observation]], Observation]] = {
    "icw": agree_icw,
    "synack_rto": agree_seconds,
    "data_rto": agree_seconds,
}


def _verdict(trials: Sequence[Observation], best: Observation, grade: str, more: dict[str, Value]) -> Observation:
    details = canonical({**dict(best.details), **more, "agreeing": sum(1 for t in trials if t.value == best.value)})
    return Observation(
        best.knob, best.value, None, best.unit, best.method, grade, best.trace_id, best.evidence, tuple(trials), details
    )


def _count_grade(agreeing: int) -> str:
    return "A" if agreeing >= AGREE_A else "B" if agreeing >= AGREE_B else "C"


def _number(observation: Observation) -> float:
    return float(observation.value) if isinstance(observation.value, int | float) else 0.0


def _gaps(observation: Observation) -> int:
    gaps = observation.detail("gaps")
    return len(gaps) if isinstance(gaps, tuple) else 0
