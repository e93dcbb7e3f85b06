# SPDX-License-Identifier: MIT
"""Results of learning as rows of JSON Lines, CSV and tables. Their keys keep their meaning (`docs/fingerprint.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from configtron.model.grid import DEAD
from configtron.model.knobs import TUNABLE
from configtron.model.records import Json, rounded, value_form

if TYPE_CHECKING:
    from configtron.db.outcomes import LogRow
    from configtron.learner.importance import DeadKnob
    from configtron.learner.saved import Safety
    from configtron.learner.value import Estimate
    from configtron.service.learning.evaluating import CandidateValue
    from configtron.service.learning.explaining import Explained
    from configtron.service.learning.knobs import KnobEffects
    from configtron.service.learning.lessons import LearnResult
    from configtron.service.learning.overview import Reader, Status

Row = dict[str, Json]

STATE_COLUMNS = (
    "kind", "name", "since", "outcomes", "waiting", "classes", "splits", "spent", "dropped", "saved",
    "set_aside", "about",
)  # fmt: skip
LEARNED_COLUMNS = ("name", "policy", "log", "learned_now", "learned", "updates", "classes", "splits", "agreed", "arms")
POLICIES_COLUMNS = ("policy", "default", "runs", "takes", "about")
VALUE_COLUMNS = (
    "candidate", "estimator", "ms", "low_ms", "high_ms", "sessions", "effective", "unlogged", "learned_from_these",
    "reason",
)  # fmt: skip
EXPLANATION_COLUMNS = ("kind", "what", "arm", "share", "loads", "excess", "about")
EFFECT_COLUMNS = ("kind", "knob", "where", "median", "median_low", "median_high", "p95", "p95_low", "p95_high", "about")

# Bandwidth, round trip and loss, which all classes live over: not worth a word.
BASE_FEATURES = 3
# What an effect in one cell of a hundred is, of its root mean square over all.
RARE = 10.0


def state_rows(found: Status) -> list[Row]:
    """Return a row a log of outcomes, and a row a policy that learns."""
    return [*(_log_row(one.log, one.metric) for one in found.logs), *map(_reader_row, found.learners)]


def _log_row(log: LogRow, metric: str) -> Row:
    return {
        "kind": "log", "name": str(log.id), "since": log.begun_at, "outcomes": log.outcomes, "source": log.source,
        "metric": metric, "about": f"{log.source} {log.about}",
    }  # fmt: skip


def _reader_row(found: Reader) -> Row:
    one, kept = found.learner, Row()
    about = f"{one.policy}, from {_which(one.log, found.metric)}"
    about += f"; cannot be read: {found.error}" if found.error else ""
    about += f"; classes over {', '.join(found.features)}" if len(found.features) > BASE_FEATURES else ""
    if (safety := found.safety) is not None:
        kept = {"budget": safety.budget, "spent": rounded(safety.spent), "unproven": rounded(safety.unproven),
                "dropped": list(safety.dropped)}  # fmt: skip
    return {
        "kind": "policy", "name": one.name, "policy": one.policy, "log": max(one.log, 0), "since": one.begun_at,
        "outcomes": one.outcomes, "waiting": found.waiting, "classes": found.classes, "splits": found.splits,
        "features": list(found.features), "saved": one.saved_at, "set_aside": dict(found.set_aside), "about": about,
        **kept,
    }  # fmt: skip


def _which(log: int, metric: str) -> str:
    if log > 0:
        return f"log {log}"
    return f"all logs of metric {metric}" if log else "all logs"


def learned_row(taken: LearnResult) -> Row:
    """Return what a policy learned in this run."""
    arms = taken.arms
    total = max(sum(arms.values()), 1)
    return {
        "name": taken.name, "policy": taken.policy, "log": max(taken.log, 0), "learned_now": taken.outcomes,
        "learned": taken.learned, "updates": taken.updates, "classes": taken.classes, "splits": taken.splits,
        "agreed": rounded(taken.agreed / total) if taken.outcomes else None,
        "unexplored": list(taken.unexplored), "reclassified": len(taken.latencies),
        "latency": sorted(taken.latencies)[len(taken.latencies) // 2] if taken.latencies else None,
        "arms": {arm: rounded(count / total) for arm, count in sorted(arms.items())},
    }  # fmt: skip


def policy_rows() -> list[Row]:
    """Return a row a policy that can be made."""
    from configtron.learner import POLICIES, PREFERRED

    return [
        {"policy": row.name, "default": row.name == PREFERRED, "runs": "in simulation" if row.oracle else "anywhere",
         "takes": " ".join(row.takes), "about": row.help}
        for row in POLICIES.values()
    ]  # fmt: skip


def value_rows(found: Iterable[CandidateValue], estimators: Sequence[str]) -> list[Row]:
    """Return a row for each candidate and estimator, that of the log itself ("logged") first."""
    return [_value_row(one, which) for one in found for which in ("logged", *estimators)]


def _value_row(one: CandidateValue, estimator: str) -> Row:
    estimate: Estimate = getattr(one.value, estimator)
    row: Row = {"candidate": one.candidate, "estimator": estimator, "ms": rounded(estimate.ms)}
    row |= {"low_ms": rounded(estimate.low_ms), "high_ms": rounded(estimate.high_ms), "sessions": one.sessions}
    row |= {"reason": estimate.reason}
    if estimator == "logged":
        return row
    judged: Row = {"effective": rounded(one.value.effective), "unlogged": rounded(one.value.unlogged)}
    return row | judged | {"learned_from_these": one.learned_from}


def _shown(value: float | str | None) -> Json:
    return value if isinstance(value, str) else rounded(value)


def explanation_rows(who: str, one: Explained) -> Iterator[Row]:
    """Yield why a client gets its profile: its class, its choices, the budget, the knobs that help."""
    context, found = one.context, one.found
    seen: Row = {key: _shown(getattr(context, key)) for key in one.features}
    words = ", ".join(f"{key} {value}" for key, value in seen.items() if value not in (None, ""))
    next_ = f"; next is {found.runner_up} at {found.runner_up_distance:.3g}" if found.runner_up_distance else ""
    near = f"; {found.distance:.3g} from its centre{next_}" if found.distance is not None else ""
    about = (found.reason or words) + ("" if found.reason else near)
    if "=" not in who and who != context.prefix:
        about = f"{who} is in {context.prefix}: {about}"
    head: Row = {"kind": "class", "name": one.name, "policy": one.policy, "prefix": context.prefix}
    head |= {"what": found.class_id or "-", "loads": found.loads}
    yield head | {"site": context.site, "seen": seen, "distance": rounded(found.distance), "next": found.runner_up,
                  "next_distance": rounded(found.runner_up_distance), "about": about}  # fmt: skip
    for choice in found.choices:
        settings_: Row = {knob: value for knob, value in choice.profile.settings}  # type: ignore[misc]
        yield {"kind": "choice", "what": choice.profile.name, "arm": choice.arm, "share": rounded(choice.share),
               "loads": choice.loads, "excess": rounded(choice.excess), "settings": settings_}  # fmt: skip
    yield from _safety(one.safety)
    for effect in found.effects:
        setting, default = str(effect.setting), str(effect.default)
        yield {"kind": "knob", "what": f"{effect.knob}={setting}", "excess": rounded(effect.excess),
               "about": f"put back to {default}"}  # fmt: skip


def _safety(safety: Safety | None) -> Iterator[Row]:
    """Yield what a budget has come to, and which configurations are dropped, where one is kept."""
    if safety is None:
        return
    beyond = safety.spent > safety.budget
    other = " (an estimate; a log's decisions are another policy's, which keeps no budget)" if beyond else ""
    about = f"of a budget of {safety.budget:g}{other}; {safety.unproven:.3g} of sessions explore"
    yield {"kind": "budget", "what": "spent", "excess": rounded(safety.spent), "about": about}
    for name in safety.dropped:
        yield {"kind": "dropped", "what": name, "about": "several times slower than Default"}


def known_knob_rows() -> Iterator[Row]:
    """Yield each knob that is learned about, its values, and where it is known to do nothing."""
    for knob in TUNABLE:
        values = [knob.default, *(value for value in knob.values if value != knob.default)]
        dead = [f"dead{f' where {one.where} is {one.value}' if one.where else ''}: {one.reason}"
                for one in DEAD if one.knob == knob.name]  # fmt: skip
        about = "; ".join([", ".join(map(str, values)), *dead])
        yield {"kind": "knob", "knob": knob.name, "values": [value_form(one) for one in values], "about": about}


def effect_rows(found: KnobEffects) -> Iterator[Row]:
    """Yield what a tensor, or a policy, shows of each knob."""
    names = ("median", "median_low", "median_high", "p95", "p95_low", "p95_high")
    for row in found.importance:
        yield {"kind": "importance", "knob": row.name, **{key: rounded(getattr(row, key)) for key in names}}
    for one in found.unexplored:
        where = f"{one.where}={one.value}" if one.where else ""
        yield {"kind": "unexplored", "knob": one.knob, "where": where, "about": one.reason}
    yield from _dead(found.dead)


def _dead(found: Iterable[DeadKnob]) -> Iterator[Row]:
    from configtron.learner.importance import SMALL

    for one in found:
        where = f"{one.dead.where}={one.dead.value}" if one.dead.where else ""
        about = f"{one.dead.reason}; {one.pairs} pairs; an effect below {one.unseen:.2g} (root mean square "
        about += f"over cells; {one.unseen * RARE:.2g} in one of a hundred) would be unseen"
        kind = "dead" if one.unseen <= SMALL else "unproven"
        yield {"kind": kind, "knob": one.dead.knob, "where": where, "pairs": one.pairs, "unseen": rounded(one.unseen),
               "about": about}  # fmt: skip
