# SPDX-License-Identifier: MIT
"""What may be handed to `configtron tune`: profiles that are faster than Default, by a test that the database keeps.

Rules for this file: a test of a log is made once, and again when the log has grown by a quarter (`GROWN`). Each test
may err less often than the one before, so that all of them together, however often an export is asked for, err by
`gain.ERROR`. In between the verdict stands.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from configtron.db.outcomes import GainTest, Learner, Outcomes
from configtron.learner.class_cells import classed
from configtron.learner.columns import Codes
from configtron.learner.driver_support import Mask
from configtron.learner.gain import Compared, GainVerdict, LoggedLoads, Power, Proof, chosen, error_of, examined
from configtron.learner.groups import groups
from configtron.learner.logged import Logged, grid_of
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from configtron.model.grid import Grid
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form, pairs_of

# By how much a log must have grown before it is tested again.
GROWN = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Tested:
    """What is proven of each class (K,), and of each that keeps Default the reason; test: as it is kept. made: False
    where a test is due that was not made: the verdict then holds what the log can show, and no class."""

    policy: TablePolicy
    verdict: GainVerdict
    test: GainTest
    tests: int
    made: bool = True

    def given(self, wishes: Codes) -> Codes:
        """(K,) what each class gets, of what the policy wishes for it (K,)."""
        found = np.full(len(self.policy.class_ids_), self.policy.grid.default)
        harmless = None if self.policy.bound is None else self.policy.allowed()[0]
        for k, proofs in self.verdict.proven.items():
            may = tuple(one for one in proofs if harmless is None or harmless[k, one.configuration])
            found[k] = chosen(may, int(wishes[k])).configuration if may else found[k]
        return found

    def proof(self, k: int, configuration: int) -> Proof | None:
        """Return the proof of what a class gets; None for Default."""
        found = self.verdict.proven.get(k, ())
        return next((proof for proof in found if proof.configuration == configuration), None)

    @property
    def next_at(self) -> int:
        """Outcomes after which the log is tested again, from this test on."""
        return max(1, int(np.ceil(GROWN * self.test.outcomes)))


def tested(store: Outcomes, found: Learner, policy: TablePolicy, log: int, logged: Logged, among: Mask, *,
           spend: bool = True) -> Tested:  # fmt: skip
    """Return the verdict that stands; where none does, a new one, which is kept. spend: without it no test is made, and
    nothing of the error spent: a due test shows only what the log can show, which no effect changes. log: 0 is all;
    among: (configurations,)."""
    question = _question(found, policy, among, log)
    before = store.gain_tests(log)
    same = [test for test in before if test.question == question]
    if same and _grown(store, log, len(logged), same[-1]) < GROWN:
        return Tested(policy, _read(policy, same[-1].verdict), same[-1], len(before))
    error = error_of(len(before))
    verdict = verdict_of(policy, logged, among, error, store.profiles(log))
    test = GainTest(log, question, int(logged.number[-1]), len(logged), error, _written(policy, verdict))
    if not spend:
        return Tested(policy, replace(verdict, proven={}, held={}), test, len(before) + 1, made=False)
    store.add_gain_test(test)
    return Tested(policy, verdict, test, len(before) + 1)


def _grown(store: Outcomes, log: int, outcomes: int, test: GainTest) -> float:
    """By which share there is more to look at than there was."""
    return max(store.count(log, test.position), outcomes - test.outcomes) / test.outcomes


def verdict_of(policy: TablePolicy, logged: Logged, among: Mask, error: float, profiles: Sequence[Profile] = ()
               ) -> GainVerdict:  # fmt: skip
    """Logged outcomes compared, with that chance of any bound above its gain. profiles: all that the log has, if that
    is more than these outcomes'. Errors: `BadInput` for a log of other configurations."""
    grid, place = finer(policy.grid, profiles or logged.profiles)
    trial, names = trial_of(policy, logged, grid), policy.class_ids_
    if not len(trial):
        return GainVerdict(
            {}, dict.fromkeys(range(len(names)), "no-propensities"), (Power("", 0, np.inf, np.inf, np.inf),)
        )
    loads = np.bincount(trial.network, minlength=len(names)).astype(np.float64)
    able = np.zeros(len(grid), dtype=np.bool_)
    able[place[among]] = True
    found = examined(Compared(trial, grid, able), groups(classed(policy).classes_.centroid, loads), names, error)
    back = {int(fine): at for at, fine in enumerate(place)}
    proven = {
        k: tuple(replace(proof, configuration=back[proof.configuration]) for proof in proofs)
        for k, proofs in found.proven.items()
    }
    return replace(found, proven=proven)


def finer(grid: Grid, profiles: Sequence[Profile]) -> tuple[Grid, Codes]:
    """The grid of all that was logged, and where each of the policy's configurations is in it: a policy without a knob
    that did nothing has outcomes with that knob set, which are compared like any others."""
    try:
        logged = grid_of(profiles)
        return logged, np.array([logged.index(profile) for profile in grid.profiles], dtype=np.int64)
    except BadInput:
        return grid, np.arange(len(grid))


def trial_of(policy: TablePolicy, logged: Logged, grid: Grid) -> LoggedLoads:
    """Outcomes of known classes whose propensity is known; a client without a prefix is its own cluster."""
    decided = logged.judging(grid)
    network = policy.where(logged.contexts)[1]
    with np.errstate(invalid="ignore"):
        at = np.flatnonzero((network >= 0) & np.isfinite(decided.propensity) & (decided.propensity > 0.0))
    contexts = logged.contexts[at]
    cluster = contexts.prefix if len(contexts.prefix) else np.full(len(at), -1)
    cluster = np.where(cluster < 0, len(contexts.prefixes) + np.arange(len(at)), cluster)
    return LoggedLoads(
        contexts, network[at], decided.configuration[at], decided.propensity[at], logged.plt_ms[at], cluster
    )


def _question(found: Learner, policy: TablePolicy, among: Mask, log: int) -> str:
    """Return the same text as long as the same profiles are compared for the same policy."""
    able = sha256(canonical([pairs_form(policy.grid.profiles[at].settings) for at in np.flatnonzero(among)]).encode())
    return canonical({"policy": found.id, "log": log, "profiles": able.hexdigest()[:16]})


def _written(policy: TablePolicy, verdict: GainVerdict) -> str:
    names = policy.class_ids_
    proven = {
        names[k]: [[pairs_form(policy.grid.profiles[one.configuration].settings), one.gain_ln, one.low_ln, one.classes]
                   for one in proofs]
        for k, proofs in verdict.proven.items()
    }  # fmt: skip
    power = [[one.of, one.loads, *map(_number, (one.critical, one.median_ln, one.least_ln))] for one in verdict.power]
    return json.dumps({"proven": proven, "held": {names[k]: why for k, why in verdict.held.items()}, "power": power})


def _number(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _read(policy: TablePolicy, text: str) -> GainVerdict:
    kept, place = json.loads(text), {name: k for k, name in enumerate(policy.class_ids_)}
    proven = {
        place[name]: tuple(
            Proof(policy.grid.index(Profile("", pairs_of(settings))), gain, low, classes)
            for settings, gain, low, classes in proofs
        )
        for name, proofs in kept["proven"].items()
        if name in place
    }
    held = {place[name]: why for name, why in kept["held"].items() if name in place}
    new = {k: "new-class" for k in range(len(place)) if k not in proven and k not in held}
    power = [
        Power(of, loads, *(np.inf if number is None else number for number in numbers))
        for of, loads, *numbers in kept["power"]
    ]
    return GainVerdict(proven, {**held, **new}, tuple(power))
