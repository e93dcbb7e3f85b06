# SPDX-License-Identifier: MIT
"""`learn export`: a policy as rules, the loss of each kind of rules, and the rules that `configtron tune` is to want.

Only rules that are handed over are a look at the log, and spend a test of the error budget (`gains.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from configtron.db.outcomes import Learner, Outcomes
from configtron.db.tuning import Left, Tuning
from configtron.learner.class_cells import classed, has_classes
from configtron.learner.classes import NO_CONTEXTS
from configtron.learner.columns import Codes
from configtron.learner.damage import bound_of
from configtron.learner.driver_support import LEAST_LOADS, Mask, list_unreachable, loaded_mask, reachable_mask
from configtron.learner.logged import Logged
from configtron.learner.rulebook import Rulebook
from configtron.learner.rules_export import RulesExport, export_rules
from configtron.learner.table_policy import TablePolicy
from configtron.model.bounds import WIDEST, check_number, check_texts
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.tensor import Tensor
from configtron.model.wording import count_of
from configtron.service.learning.gains import Tested, tested
from configtron.service.learning.learners import damage_of, restored_policy, saved
from configtron.service.learning.parts import known_alone
from configtron.service.learning.reach import Held, allowed, by_prefix
from configtron.service.progress import Progress, notice, unheard
from configtron.tune.guard import Limits
from configtron.tune.rules import canonical


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """name: of the policy, "" for the one saved last; log, last: as in `EvaluateOptions`, log 0 for the policy's own;
    leaf: clients in a leaf of the tree, at least; hand_over: store the rules as wanted by `tune`; unjudged: without a
    test; damage, damage_from: another bound on damage than the policy's, another tensor that measured it."""

    db: Path
    name: str = ""
    log: int = 0
    last: int = 100_000
    leaf: int = 20
    hand_over: bool = False
    unjudged: bool = False
    damage: str = ""
    damage_from: Tensor | None = None
    limits: Limits = field(default_factory=lambda: Limits({}))

    def __post_init__(self) -> None:
        """Check texts and ranges. Errors: `BadInput`."""
        check_texts(self)
        check_number("log", self.log, -WIDEST, whole=True)
        check_number("last", self.last, 1, whole=True)
        check_number("leaf", self.leaf, 1, whole=True)


@dataclass(frozen=True, slots=True)
class Exported:
    """made: all rules and their losses; book: those of classes and prefixes that are meant; test: None where nothing
    can be tested, or is to be; driver: which one's reach counts, and what it leaves out; left: prefixes that stay a
    human's, where rules were handed over."""

    made: RulesExport
    book: Rulebook
    test: Tested | None
    driver: str
    left: Left | None = None
    prefixes: dict[str, str] = field(default_factory=dict)


def export(options: ExportOptions, progress: Progress = unheard) -> Exported:
    """Write a policy as rules. Errors: `BadInput` for no outcomes, no such policy, a log of other configurations."""
    if options.unjudged and not options.hand_over:
        raise BadInput("--unjudged changes what --to-tune exports: give --to-tune with it, or leave it out")
    with Outcomes(options.db) as store:
        found = saved(store, options.name, progress)
        logged = store.last(options.last, options.log or found.log)
        if logged is None:
            raise BadInput("no clients to write rules for: the log has no outcomes")
        policy = restored_policy(found)
        logged = known_alone(logged, policy.grid, found.name, progress)
        _bound_damage(policy, options, progress)
        held = by_prefix(policy.grid)
        configuration, why = _configurations(logged, policy.grid)
        _check_handing(found, options, why)
        among = _among(policy, held, options.limits, warm=bool(found.warm))
        test = None
        if has_classes(policy) and not options.unjudged and not why:
            log = options.log or found.log
            test = tested(store, found, policy, log, logged, among, spend=options.hand_over)
    proven = test.given if test is not None and test.made else None
    made = export_rules(policy, logged.contexts, configuration, logged.plt_ms, among, least_leaf=options.leaf,
                        unjudged=why, proven=proven)  # fmt: skip
    out = list_unreachable(policy.grid, held.takes)
    unset = f"; without {', '.join(out)}" if out else ""
    untested = "; not tested" if test is not None and not test.made else ""
    tune = made.tune
    without = tune.instead + tune.unseen
    words = (
        f"; {without} of {len(tune.classes)} classes have loaded nothing of what they would get: {tune.instead} get "
        f"the fastest that they did load, {tune.unseen} keep Default"
    )
    exported = Exported(made, made.book, test, f"{held.name}{unset}{untested}{words if without else ''}")
    if has_classes(policy) and classed(policy).classes_.everyone:
        notice(progress, NO_CONTEXTS)
    if test is not None:
        notice(progress, _of_test(test, made.tune))
    return _handed_over(exported, options, _damage(policy, made.tune), progress) if options.hand_over else exported


def _check_handing(found: Learner, options: ExportOptions, why: str) -> None:
    """Errors: `BadInput` for rules that nothing can be known of, before a test is spent on them."""
    if not options.hand_over or options.unjudged:
        return
    if why:
        raise BadInput(f"{why}; nothing is handed over: learn from this log, or give --unjudged")
    if found.outcomes < LEAST_LOADS:
        raise BadInput(f"{found.name} has learned from {count_of(found.outcomes, 'outcome')}, too few to test profiles;"
                       f" go on: configtron learn run --policy {found.name}")  # fmt: skip


def _bound_damage(policy: TablePolicy, options: ExportOptions, progress: Progress) -> None:
    """Set another bound on damage than the policy was made with, or by another tensor. Errors: `BadInput`."""
    if options.damage_from is not None:
        found = damage_of(options.damage, options.damage_from, policy.grid, progress)
        policy.keep_within(found)
    elif options.damage and policy.bound is not None:
        bound = bound_of(options.damage)
        policy.keep_within(None if bound is None else replace(policy.bound, bound=bound))
    elif options.damage:
        damage_of(options.damage, None, policy.grid, progress)


def _among(policy: TablePolicy, held: Held, limits: Limits, *, warm: bool) -> Mask:
    """Return (configurations,) those that `configtron tune` takes here, and that are more than a guess."""
    among = reachable_mask(policy.grid, held.takes) & allowed(policy.grid, limits, policy.bound).allowed
    if policy.model.shared and not warm:
        among &= loaded_mask(policy.grid, policy.cells.tally_.count.sum(axis=0))
    return among


def _configurations(logged: Logged, grid: Grid) -> tuple[Codes, str]:
    """Return the log's configurations, or why they are none of the policy's: rules can be written for its clients even
    so."""
    try:
        return logged.on(grid).configuration, ""
    except BadInput as error:
        return logged.decisions.configuration * 0, f"the log is of other configurations ({error})"


def _of_test(test: Tested, tune: Rulebook) -> str:
    if not test.made:
        return "no profile is tested here: --to-tune tests them, and spends a test of the log's error budget"
    share = {class_id: part for class_id, _, part in tune.classes}
    held = sum(share[test.policy.class_ids_[k]] for k in test.verdict.held)
    of = f"{len(test.verdict.held)} of {len(share)} classes keep Default ({held:.0%} of the clients)"
    why = "not proven to gain" if test.verdict.held else "each class has a profile that is proven to gain"
    return f"{of}: {why}; the log is tested again {test.next_at} outcomes after test {test.tests}"


def _damage(policy: TablePolicy, book: Rulebook) -> dict[str, float]:
    """Return the greatest measured damage of each profile over the classes that have it; those without one are left
    out."""
    if policy.bound is None or not has_classes(policy):
        return {}
    most = policy.bound.most(classed(policy).classes_)[np.arange(len(book.by_class)), book.by_class]
    found: dict[str, float] = {}
    for (_, name, _), lost in zip(book.classes, most.tolist(), strict=True):
        if name and not np.isnan(lost):
            found[name] = max(lost, found.get(name, 0.0))
    return found


def _handed_over(exported: Exported, options: ExportOptions, damage: dict[str, float], progress: Progress) -> Exported:
    """Keep the rules as wanted in place of an earlier export's."""
    book, unknown = exported.made.tune, exported.made.losses["tune"]
    prefixes = {canonical(prefix): name for prefix, name in book.prefixes.items()}
    with Tuning(options.db) as wanted:
        left = wanted.hand_over(book.profiles.values(), prefixes, damage)
    count = len(prefixes) - len(left.set) - len(left.inside)
    untested = "; unjudged" + (f": {unknown}" if isinstance(unknown, str) else "") if options.unjudged else ""
    rules = f"{count_of(len(book.profiles), 'profile')} and {count_of(count, 'prefix')}"
    kept = f"{rules} are wanted ({exported.driver}){untested}"
    notice(progress, f"{kept}; see: configtron tune plan")
    if left.set or left.inside:
        own = f"{count_of(len(left.set), 'prefix')} that a human set, and {len(left.inside)} within a wider one"
        notice(progress, f"{own}, are left alone; see: configtron tune prefix list")
    return replace(exported, book=book, left=left, prefixes=prefixes)
