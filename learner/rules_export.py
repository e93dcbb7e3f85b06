# SPDX-License-Identifier: MIT
"""All that a policy hands to others, and what each of it costs: rules made on earlier clients, judged by later ones.

Rules for this file: what is printed, stored and judged is one and the same; of the latest clients, rules use where
their prefixes are by now, never how their pages loaded. What a stack is given, its class has loaded, or a model over
all cells speaks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.export import EXPORT_LEAF, Export, columns_of, export
from configtron.learner.fallback import fallback
from configtron.learner.judged import JudgedOutcomes, Loss, halves, judged, known_outcomes
from configtron.learner.reached import Mask
from configtron.learner.rulebook import Rulebook, rulebook
from configtron.learner.table_policy import TablePolicy


@dataclass(frozen=True, slots=True, eq=False)
class RulesExport:
    """by_site: cells and the tree; book: a profile a class, of all knobs; tune: of those that can be put in force.

    losses: of "cell", "tree", "class" and "tune" rules, or why one is not known; made_on: clients
    """

    by_site: Export
    book: Rulebook
    tune: Rulebook
    losses: dict[str, Loss | str]
    made_on: int


def export_rules(
    policy: TablePolicy,
    contexts: Contexts,
    configuration: Codes,
    ms: Floats,
    among: Mask,
    *,
    least_leaf: int = EXPORT_LEAF,
    unjudged: str = "",
    proven: Callable[[Codes], Codes] | None = None,
) -> RulesExport:
    """The policy as rules, from logged outcomes (n,).

    among: (configurations,) what can be put in force by prefix; unjudged: why these outcomes say nothing of the policy
    (their configurations are then nothing); proven: what each class may get, (K,), of what the policy wishes for it,
    (K,). Errors: `BadInput` for a policy without classes, or no known client.
    """
    classed(policy)
    earlier, later = halves(known_outcomes(policy, contexts, configuration, ms))
    by_site = export(policy, earlier.contexts, least_leaf=least_leaf)
    book = rulebook(policy, earlier.contexts)
    tune = tune_rules(policy, earlier, among, contexts, proven, loads=not unjudged)
    rules = served_by(policy, by_site, book, tune, later)
    unknown: dict[str, Loss | str] = dict.fromkeys(rules, f"not known: {unjudged}")
    losses = unknown if unjudged else judged(policy, earlier, later, rules)
    return RulesExport(by_site, book, tune, losses, len(earlier))


def tune_rules(
    policy: TablePolicy,
    earlier: JudgedOutcomes,
    among: Mask,
    latest: Contexts,
    proven: Callable[[Codes], Codes] | None = None,
    *,
    loads: bool = True,
) -> Rulebook:
    """What a stack is given, as in `export_rules`. latest: where prefixes are by now; loads: whether earlier outcomes
    speak for what a class gets."""
    made_on = earlier.contexts
    if proven is None:
        return _tune(policy, earlier if loads else earlier[:0], among, made_on, latest)
    wishes = _tune(policy, earlier if loads else earlier[:0], among, made_on, latest[:0]).by_class
    return rulebook(policy, made_on, latest=latest, given=proven(wishes))


def _tune(policy: TablePolicy, loads: JudgedOutcomes, among: Mask, made_on: Contexts, latest: Contexts) -> Rulebook:
    """What a stack is given: `loads` are those that may speak for what a class gets."""
    if policy.model.shared:
        return rulebook(policy, made_on, latest=latest, among=among)
    seen, instead = seen_of(policy, loads), fallback(policy, loads, among)
    return rulebook(policy, made_on, latest=latest, among=among, seen=seen, instead=instead)


def seen_of(policy: TablePolicy, outcomes: JudgedOutcomes) -> Mask:
    """(classes, configurations) whether the policy, or one of these outcomes, saw a load of it in the class."""
    found = np.zeros((len(classed(policy).classes_), len(policy.grid)), dtype=np.bool_)
    if policy.LEARNS:
        found |= policy.cells.tally_.count.reshape(len(found), -1, len(policy.grid)).any(axis=1)
    found[outcomes.network, outcomes.configuration] = True
    return found


def served_by(
    policy: TablePolicy, by_site: Export, book: Rulebook, tune: Rulebook, later: JudgedOutcomes
) -> dict[str, Codes]:
    """Each kind of rules' configurations for those clients, (n,)."""
    return {
        "cell": np.asarray(policy.likeliest()[later.row]),
        "tree": by_site.tree.predict(columns_of(policy, later.contexts)),
        "class": np.asarray(book.by_class[later.network]),
        "tune": tune.served(later.contexts, later.network, policy.grid.default),
    }
