# SPDX-License-Identifier: MIT
"""Export a policy as rules made on the earlier half of clients, with each rule set's loss on the later half.

Rules for this file: the rules that are printed and stored are those that were judged; from the latest clients, rules
take only the class of each prefix, never page load times. A stack gets only configurations that its class has loaded,
unless a model over all cells predicts them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import Mask
from configtron.learner.export import EXPORT_LEAF, Export, columns_of, export
from configtron.learner.fallback import fallback
from configtron.learner.rule_cost import JudgedOutcomes, Loss, halves, judged, known_outcomes
from configtron.learner.rulebook import Rulebook, rulebook
from configtron.learner.table_policy import TablePolicy


@dataclass(frozen=True, slots=True, eq=False)
class RulesExport:
    """by_site: rules by cell, and as a tree; book: one profile per class, over all configurations; tune: the same over
    the configurations that a driver can put in force.

    losses: of "cell", "tree", "class" and "tune" rules, or why one is not known; made_on: number of earlier clients
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
    """Return the policy as rules, from logged outcomes (n,).

    among: (configurations,) whether a driver can put it in force by prefix; unjudged: why these outcomes cannot judge
    the policy ("": they can; otherwise their configurations are not used); proven: maps each class's preferred
    configuration, (K,), to the one that it may get, (K,).
    Errors: `BadInput` for a policy without classes, or no known client.
    """
    classed(policy)
    earlier, later = halves(known_outcomes(policy, contexts, configuration, ms))
    by_site = export(policy, earlier.contexts, least_leaf=least_leaf)
    book = rulebook(policy, earlier.contexts)
    tune = tune_rules(policy, earlier, among, contexts, proven, use_outcomes=not unjudged)
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
    use_outcomes: bool = True,
) -> Rulebook:
    """Return the rules for a stack, with the arguments of `export_rules`.

    latest: clients whose contexts show the present class of each prefix; use_outcomes: whether earlier outcomes
    show which configurations a class has loaded, and which one is its fallback.
    """
    made_on, outcomes = earlier.contexts, earlier if use_outcomes else earlier[:0]
    if proven is None:
        return _tune(policy, outcomes, among, made_on, latest)
    wishes = _tune(policy, outcomes, among, made_on, latest[:0]).by_class
    return rulebook(policy, made_on, latest=latest, given=proven(wishes))


def _tune(policy: TablePolicy, outcomes: JudgedOutcomes, among: Mask, made_on: Contexts, latest: Contexts) -> Rulebook:
    """Return the rules for a stack; `outcomes` show which configurations each class has loaded."""
    if policy.model.shared:
        return rulebook(policy, made_on, latest=latest, among=among)
    loaded = loaded_configurations(policy, outcomes)
    fallback_configuration = fallback(policy, outcomes, among)
    return rulebook(policy, made_on, latest=latest, among=among, seen=loaded, instead=fallback_configuration)


def loaded_configurations(policy: TablePolicy, outcomes: JudgedOutcomes) -> Mask:
    """Return whether a class has a load of a configuration, in the policy or in these outcomes, (K, configurations)."""
    found = np.zeros((len(classed(policy).classes_), len(policy.grid)), dtype=np.bool_)
    if policy.LEARNS:
        found |= policy.cells.tally_.count.reshape(len(found), -1, len(policy.grid)).any(axis=1)
    found[outcomes.network, outcomes.configuration] = True
    return found


def served_by(
    policy: TablePolicy, by_site: Export, book: Rulebook, tune: Rulebook, later: JudgedOutcomes
) -> dict[str, Codes]:
    """Return the configurations, (n,), that each kind of rules gives the later clients, by kind."""
    return {
        "cell": np.asarray(policy.likeliest()[later.row]),
        "tree": by_site.tree.predict(columns_of(policy, later.contexts)),
        "class": np.asarray(book.by_class[later.network]),
        "tune": tune.served(later.contexts, later.network, policy.grid.default),
    }
