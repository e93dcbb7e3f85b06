# SPDX-License-Identifier: MIT
"""Rows of `configtron learn export`: losses, what a log can show, rules, profiles, what keeps Default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from configtron.model.records import rounded

if TYPE_CHECKING:
    from configtron.learner.export import Export
    from configtron.learner.rule_cost import Loss, Share
    from configtron.learner.rulebook import Rulebook
    from configtron.learner.rules_export import RulesExport
    from configtron.model.nouns import Profile
    from configtron.model.records import Json
    from configtron.service.learning.exporting import Exported
    from configtron.service.learning.gains import Tested

RULE_COLUMNS = ("kind", "class", "site", "prefix", "profile", "share", "median", "p95", "mean", "when")
# Gains, for each of which a row has how many more outcomes would show it.
GAINS = (0.02, 0.05, 0.1)
# Rows of a kind in a table that does not ask for all of them.
MOST_ROWS = 10


def rows_of(one: Exported) -> Iterator[dict[str, Json]]:
    """Yield every row, in the order of JSON Lines."""
    yield from _losses(one.made, f" ({one.driver})")
    if one.test is not None:
        yield from power_rows(one.test)
        yield from held_back(one.test, one.made.tune)
    yield from _of_book(one.book)
    yield from _of_rules(one.made.by_site)
    yield from left_to_humans(one)


# Shares below this are the rounding of sums.
ROUNDING = 1e-9
# What each loss is of.
OF = {
    "cell": "of the cell rules",
    "tree": "of the tree rules",
    "class": "of the class rules, all knobs",
    "tune": "of what tune's driver reaches by prefix",
}


def _losses(made: RulesExport, without: str) -> Iterator[dict[str, Json]]:
    for of, found in made.losses.items():
        words = OF[of] + (without if of == "tune" else "")
        row: dict[str, Json] = {"kind": "loss", "of": of, "made_on": made.made_on}
        if of == "tune":
            row |= {"instead": made.tune.instead, "unseen": made.tune.unseen}
        yield row | (_unknown(found, words) if isinstance(found, str) else _known(found, words))


def _unknown(why: str, words: str) -> dict[str, Json]:
    return {"median": None, "p95": None, "mean": None, "reason": why, "when": f"{words}: {why}"}


def _share(value: float) -> Json:
    """Return a share for a report; what is below a billionth is rounding, and none."""
    return rounded(0.0 if abs(value) < ROUNDING else value)


def _known(found: Loss, words: str) -> dict[str, Json]:
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


def _of_book(book: Rulebook) -> Iterator[dict[str, Json]]:
    for name, one in sorted(book.profiles.items()):
        yield {"kind": "profile", "profile": name, "settings": _settings(one), "when": _words(one)}
    for class_id, name, share in book.classes:
        yield {"kind": "class", "class": class_id, "profile": name or "untouched", "share": rounded(share)}
    for prefix, name in book.prefixes.items():
        yield {"kind": "prefix", "prefix": prefix, "profile": name}


def _of_rules(rules: Export) -> Iterator[dict[str, Json]]:
    for rule in rules.rules:
        yield {"kind": "cell", "class": rule.class_id, "site": rule.site or "*", "profile": rule.profile.name,
               "share": rounded(rule.weight), "settings": _settings(rule.profile)}  # fmt: skip
    for when, one, share in rules.tree_rules:
        yield {"kind": "tree", "profile": one.name, "share": rounded(share), "when": when, "settings": _settings(one)}


def _settings(one: Profile) -> dict[str, Json]:
    from configtron.model.records import value_form

    return {knob: value_form(value) for knob, value in one.settings}


def _words(one: Profile) -> str:
    from configtron.model.tuning_json import settings_text

    return settings_text(one.settings)


def held_back(test: Tested, tune: Rulebook) -> Iterator[dict[str, Json]]:
    """Yield the classes that keep Default, with the reason."""
    from configtron.learner.gain import HELD_REASONS

    share = {class_id: part for class_id, _, part in tune.classes}
    for k, why in sorted(test.verdict.held.items()):
        class_id = test.policy.class_ids_[k]
        yield {"kind": "held-back", "class": class_id, "profile": "untouched", "share": rounded(share[class_id]),
               "reason": why, "when": f"{why}: {HELD_REASONS[why]}"}  # fmt: skip


def left_to_humans(one: Exported) -> Iterator[dict[str, Json]]:
    """Yield the prefixes that stay a human's."""
    if one.left is None:
        return
    for many, why in ((one.left.set, "a human set this prefix"),
                      (one.left.inside, "a human set a wider prefix around it")):  # fmt: skip
        for prefix in many:
            yield {"kind": "held-back", "prefix": prefix, "profile": one.prefixes[prefix], "reason": "human",
                   "when": f"human: {why}"}  # fmt: skip


def power_rows(test: Tested) -> Iterator[dict[str, Json]]:
    """Yield what the log can show, of all clients and of each group of classes."""
    for power in test.verdict.power:
        more: dict[str, Json] = {f"more_{gain * 100:.0f}": _whole(power.more(gain)) for gain in GAINS}
        smallest, least = (rounded(power.smallest(error)) for error in (power.median_ln, power.least_ln))
        row: dict[str, Json] = {"kind": "power", "of": power.of or "all", "class": power.of, "outcomes": power.loads}
        row |= {"smallest": smallest, "least": least, "tests": test.tests, "error": rounded(test.test.error), **more}
        yield row | {"when": _power_words(power.loads, smallest, more)}


def summary(rows: Iterable[dict[str, Json]]) -> list[dict[str, Json]]:
    """Return the rows for a reader: the answer first, power at the end; of each kind at most `MOST_ROWS` rows, the last
    of which counts the others."""
    kinds: dict[str, list[dict[str, Json]]] = {}
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


def _first_of(kind: str, every: list[dict[str, Json]]) -> list[dict[str, Json]]:
    if len(every) <= MOST_ROWS:
        return every
    more = f"{len(every) - MOST_ROWS + 1} more of {len(every)}; --all, or -f csv, shows each"
    return [*every[: MOST_ROWS - 1], {"kind": kind, "when": more}]


def _power_words(loads: int, smallest: Json, more: dict[str, Json]) -> str:
    if smallest is None:
        return f"{loads} outcomes show no gain, however large"
    needed = ", ".join(f"{gain:.0%} {more[f'more_{gain * 100:.0f}']}" for gain in GAINS)
    return f"{loads} outcomes show a gain of {smallest:.1%} with a chance of 80 %; outcomes that lack for {needed}"


def _whole(number: float) -> Json:
    return round(number) if number < float("inf") else None
