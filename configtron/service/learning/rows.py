# SPDX-License-Identifier: MIT
"""Results of learning as rows of JSON Lines, CSV and tables. Their keys keep their meaning (`docs/fingerprint.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from configtron.db.fleet import FLEET_LOG
from configtron.model.grid import DEAD
from configtron.model.knobs import TUNABLE
from configtron.model.records import Json, rounded, value_form
from configtron.model.tuning_json import settings_text

if TYPE_CHECKING:
    from configtron.db.outcomes import LogRow
    from configtron.learner.export import Export
    from configtron.learner.importance import DeadKnob
    from configtron.learner.rule_cost import Loss, Share
    from configtron.learner.rulebook import Rulebook
    from configtron.learner.rules_export import RulesExport
    from configtron.learner.saved import Safety
    from configtron.learner.value import Estimate
    from configtron.model.nouns import Profile
    from configtron.model.records import Json
    from configtron.service.learning.evaluating import CandidateValue
    from configtron.service.learning.explaining import Explained
    from configtron.service.learning.exporting import Exported
    from configtron.service.learning.gains import Tested
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
RULE_COLUMNS = ("kind", "class", "site", "prefix", "profile", "share", "median", "p95", "mean", "when")
EFFECT_COLUMNS = ("kind", "knob", "where", "median", "median_low", "median_high", "p95", "p95_low", "p95_high", "about")

# Bandwidth, round trip and loss, which all classes live over: not worth a word.
BASE_FEATURES = 3
# Gains, for each of which a row has how many more outcomes would show it.
GAINS = (0.02, 0.05, 0.1)
# Rows of a kind in a table that does not ask for all of them.
MOST_ROWS = 10
# Shares below this are the rounding of sums.
ROUNDING = 1e-9
# What an effect in one cell of a hundred is, of its root mean square over all.
RARE = 10.0
# What each loss is of.
OF = {
    "cell": "of the cell rules",
    "tree": "of the tree rules",
    "class": "of the class rules, all knobs",
    "tune": "of what tune's driver reaches by prefix",
}


def state_rows(found: Status) -> list[Row]:
    """Return a row a log of outcomes, and a row a policy that learns."""
    return [*(_log_row(*one) for one in found.logs), *map(_reader_row, found.learners)]


def _log_row(log: LogRow, metric: str) -> Row:
    return {
        "kind": "log", "name": str(log.id), "since": log.begun_at, "outcomes": log.outcomes, "source": log.source,
        "metric": metric, "about": f"{log.source} {metric} {'of visitors' if log.about == FLEET_LOG else log.about}",
    }  # fmt: skip


def _reader_row(found: Reader) -> Row:
    one, kept = found.learner, Row()
    logs = f"log {one.log}" if one.log > 0 else f"all logs of metric {found.metric}" if one.log else "all logs"
    about = f"{one.policy}, from {logs}"
    about += f"; cannot be read: {found.error}" if found.error else ""
    about += f"; classes over {', '.join(found.features)}" if len(found.features) > BASE_FEATURES else ""
    from configtron.learner.classes import NO_CONTEXTS

    about += f"; {NO_CONTEXTS}" if found.classes and not found.features else ""
    if (safety := found.safety) is not None:
        kept = {"budget": safety.budget, "spent": rounded(safety.spent), "unproven": rounded(safety.unproven),
                "dropped": list(safety.dropped)}  # fmt: skip
    return {
        "kind": "policy", "name": one.name, "policy": one.policy, "log": max(one.log, 0), "since": one.begun_at,
        "outcomes": one.outcomes, "waiting": found.waiting, "classes": found.classes, "splits": found.splits,
        "features": list(found.features), "saved": one.saved_at, "set_aside": dict(found.set_aside), "about": about,
        **kept,
    }  # fmt: skip


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


def rows_of(one: Exported) -> Iterator[Row]:
    """Yield every row, in the order of JSON Lines."""
    yield from _losses(one.made, f" ({one.driver})")
    if one.test is not None:
        yield from power_rows(one.test)
        yield from held_back(one.test, one.made.tune)
    yield from _of_book(one.book)
    yield from _of_rules(one.made.by_site)
    yield from left_to_humans(one)


def _losses(made: RulesExport, without: str) -> Iterator[Row]:
    for of, found in made.losses.items():
        words = OF[of] + (without if of == "tune" else "")
        row: Row = {"kind": "loss", "of": of, "made_on": made.made_on}
        if of == "tune":
            row |= {"instead": made.tune.instead, "unseen": made.tune.unseen}
        yield row | (_unknown(found, words) if isinstance(found, str) else _known(found, words))


def _unknown(why: str, words: str) -> Row:
    return {"median": None, "p95": None, "mean": None, "reason": why, "when": f"{words}: {why}"}


def _share(value: float) -> Json:
    """Return a share for a report; what is below a billionth is rounding, and none."""
    return rounded(0.0 if abs(value) < ROUNDING else value)


def _known(found: Loss, words: str) -> Row:
    def ends(share: Share) -> Json:
        return [_share(share.low), _share(share.high)]

    return {
        "median": _share(found.median.value), "p95": _share(found.p95.value), "mean": _share(found.mean.value),
        "median_interval": ends(found.median), "p95_interval": ends(found.p95), "mean_interval": ends(found.mean),
        "judged_on": found.clients, "loaded": rounded(found.loaded),
        "when": f"{words}; by {found.clients} later outcomes: p95 {_span(found.p95)}, mean {_span(found.mean)}",
    }  # fmt: skip


def _span(share: Share) -> str:
    return f"[{share.low:.3f}, {share.high:.3f}]"


def _of_book(book: Rulebook) -> Iterator[Row]:
    for name, one in sorted(book.profiles.items()):
        yield {"kind": "profile", "profile": name, "settings": _settings(one), "when": _words(one)}
    for class_id, name, share in book.classes:
        yield {"kind": "class", "class": class_id, "profile": name or "untouched", "share": rounded(share)}
    for prefix, name in book.prefixes.items():
        yield {"kind": "prefix", "prefix": prefix, "profile": name}


def _of_rules(rules: Export) -> Iterator[Row]:
    for rule in rules.rules:
        yield {"kind": "cell", "class": rule.class_id, "site": rule.site or "*", "profile": rule.profile.name,
               "share": rounded(rule.weight), "settings": _settings(rule.profile)}  # fmt: skip
    for when, one, share in rules.tree_rules:
        yield {"kind": "tree", "profile": one.name, "share": rounded(share), "when": when, "settings": _settings(one)}


def _settings(one: Profile) -> Row:
    return {knob: value_form(value) for knob, value in one.settings}


def _words(one: Profile) -> str:
    return settings_text(one.settings)


def held_back(test: Tested, tune: Rulebook) -> Iterator[Row]:
    """Yield the classes that keep Default, with the reason."""
    from configtron.learner.gain import HELD_REASONS

    share = {class_id: part for class_id, _, part in tune.classes}
    for k, why in sorted(test.verdict.held.items()):
        class_id = test.policy.class_ids_[k]
        yield {"kind": "held-back", "class": class_id, "profile": "untouched", "share": rounded(share[class_id]),
               "reason": why, "when": f"{why}: {HELD_REASONS[why]}"}  # fmt: skip


def left_to_humans(one: Exported) -> Iterator[Row]:
    """Yield the prefixes that stay a human's."""
    if one.left is None:
        return
    for many, why in ((one.left.set, "a human set this prefix"),
                      (one.left.inside, "a human set a wider prefix around it")):  # fmt: skip
        for prefix in many:
            yield {"kind": "held-back", "prefix": prefix, "profile": one.prefixes[prefix], "reason": "human",
                   "when": f"human: {why}"}  # fmt: skip


def power_rows(test: Tested) -> Iterator[Row]:
    """Yield what the log can show, of all clients and of each group of classes."""
    for power in test.verdict.power:
        more: Row = {f"more_{gain * 100:.0f}": _whole(power.more(gain)) for gain in GAINS}
        smallest, least = (rounded(power.smallest(error)) for error in (power.median_ln, power.least_ln))
        row: Row = {"kind": "power", "of": power.of or "all", "class": power.of, "outcomes": power.loads}
        row |= {"smallest": smallest, "least": least, "tests": test.tests, "error": rounded(test.test.error), **more}
        yield row | {"when": _power_words(power.loads, smallest, more)}


def summary(rows: Iterable[Row]) -> list[Row]:
    """Return the rows for a reader: the answer first, power at the end; of each kind at most `MOST_ROWS` rows, the last
    of which counts the others."""
    kinds: dict[str, list[Row]] = {}
    for row in rows:
        kinds.setdefault(str(row["kind"]), []).append(row)
    power = kinds.pop("power", [])
    answer = [row for kind, every in kinds.items() for row in _first_of(kind, every)]
    if len(power) <= MOST_ROWS:
        return [*answer, *power]
    by_outcomes = sorted(power[1:], key=lambda row: -int(str(row["outcomes"])))
    shown, rest = by_outcomes[: MOST_ROWS - 2], by_outcomes[MOST_ROWS - 2 :]
    more = f"{len(rest)} groups of classes with fewer outcomes; --all, or -f jsonl, shows each"
    return [*answer, power[0], *shown, {"kind": "power", "class": "", "when": more}]


def _first_of(kind: str, every: list[Row]) -> list[Row]:
    if len(every) <= MOST_ROWS:
        return every
    more = f"{len(every) - MOST_ROWS + 1} more of {len(every)}; --all, or -f csv, shows each"
    return [*every[: MOST_ROWS - 1], {"kind": kind, "when": more}]


def _power_words(loads: int, smallest: Json, more: Row) -> str:
    if smallest is None:
        return f"{loads} outcomes {'' if loads else 'with a propensity '}show no gain, however large"
    needed = ", ".join(f"{gain:.0%} {more[f'more_{gain * 100:.0f}']}" for gain in GAINS)
    return f"{loads} outcomes show a gain of {smallest:.1%} with a chance of 80 %; outcomes that lack for {needed}"


def _whole(number: float) -> Json:
    return round(number) if number < float("inf") else None
