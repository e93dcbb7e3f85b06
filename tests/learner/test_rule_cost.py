# SPDX-License-Identifier: MIT
"""What rules cost, by later outcomes: near the truth, never by the policy's own word, and silent where none can
say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import reached
from configtron.learner.export import export
from configtron.learner.rule_cost import LEAST_OUTCOMES, JudgedOutcomes, Loss, _groups, halves, judged, known_outcomes
from configtron.learner.rulebook import rulebook
from configtron.learner.rules_export import RulesExport, export_rules, loaded_configurations, served_by
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)
AMONG = reached(TENSOR.grid, lambda knob, _: knob != "http_version")


@cache
def lives(name: str, sessions: int = 8000):  # type: ignore[no-untyped-def]
    # Without a budget: within 1 % of Default's time it tries too little here to judge every rule.
    world = (TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM)
    made = policy(name, Setting(*world, budget=None))
    contexts, condition, decisions, ms = lived(made, TENSOR, sessions)
    return made, contexts, condition, decisions.configuration, ms


def truth(made, later: JudgedOutcomes, condition: Codes, chosen: Codes) -> Floats:  # type: ignore[no-untyped-def]
    """(n,) true excess of those configurations over what the policy serves."""
    at = np.arange(len(later))
    ln = np.log(TENSOR.median_ms[condition][at, :, later.contexts.site].astype(np.float64))
    table = made.served_.probabilities(len(TENSOR.grid))[later.row]
    return np.expm1(ln[at, chosen] - (table * ln).sum(axis=1))


def exported(name: str) -> tuple[RulesExport, dict[str, Floats]]:
    made, contexts, condition, configuration, ms = lives(name)
    found = export_rules(made, contexts, configuration, ms, AMONG)
    earlier, later = halves(known_outcomes(made, contexts, configuration, ms))
    rules = served_by(made, found.by_site, found.book, found.tune, later)
    return found, {kind: truth(made, later, condition[len(earlier) :], at) for kind, at in rules.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_what_is_printed_is_what_clients_lose(name: str) -> None:
    found, true = exported(name)
    assert set(found.losses) == {"cell", "tree", "class", "tune"}
    for kind, loss in found.losses.items():
        assert isinstance(loss, Loss), (kind, loss)
        assert loss.mean.value == pytest.approx(true[kind].mean(), abs=0.03), kind
        p95 = np.percentile(true[kind], 95)
        # To the high side further: a policy that keeps to few configurations leaves little to judge others by. Where
        # less than half of the clients have a load of the rule's choice, the interval's upper end must come as near.
        upper = loss.p95.value if loss.loaded >= 0.5 else loss.p95.high
        assert p95 - max(0.08, 0.4 * abs(p95)) < upper and loss.p95.value < p95 + max(0.15, 0.4 * abs(p95)), kind
        assert loss.mean.low < loss.mean.value < loss.mean.high and loss.p95.low < loss.p95.value < loss.p95.high


def test_a_policy_does_not_judge_itself() -> None:
    """Rules that are best by the pooled expectations would be praised by them."""
    made, contexts, condition, configuration, ms = lives("mab_nc")
    earlier, later = halves(known_outcomes(made, contexts, configuration, ms))
    pooled = made.expected_ln().argmin(axis=1)[later.row]
    own = made.expected_ln()[later.row, pooled] - made.expected_ln()[later.row, made.likeliest()[later.row]]
    assert own.max() <= 0.0 and own.mean() < -0.05, "by its own expectations no client loses"
    (found,) = judged(made, earlier, later, {"pooled": pooled}).values()
    assert isinstance(found, str) or found.p95.value > 0.05


@pytest.mark.slow
def test_rules_are_made_on_the_earlier_and_judged_on_the_later() -> None:
    """What the later clients' loads were, and who they were, changes no rule."""
    made, contexts, _, configuration, ms = lives("thompson")
    slower = np.where(np.arange(len(ms)) < len(ms) // 2, ms, ms[::-1])
    one, other = (export_rules(made, contexts, configuration, y, AMONG) for y in (ms, slower))
    assert one.by_site.tree_rules == other.by_site.tree_rules and (one.tune.by_class == other.tune.by_class).all()
    assert one.losses["cell"] != other.losses["cell"] and one.made_on == 4000
    earlier, later = halves(known_outcomes(made, contexts, configuration, ms))
    assert (len(earlier), len(later)) == (4000, 4000) and (later.ms == ms[4000:]).all()
    mine, book = (one.by_site, one.book)
    alone = export(made, earlier.contexts)
    assert mine.tree_rules == alone.tree_rules != export(made, contexts).tree_rules
    assert book.classes == rulebook(made, earlier.contexts).classes != rulebook(made, contexts).classes


def test_where_no_outcome_decides_there_is_a_reason() -> None:
    made, contexts, _, configuration, ms = lives("mab_nc")
    few = slice(0, 2 * LEAST_OUTCOMES - 2)
    short = export_rules(made, contexts[few], configuration[few], ms[few], AMONG)
    assert all(isinstance(loss, str) and "outcomes" in loss for loss in short.losses.values())
    earlier, later = halves(known_outcomes(made, contexts, configuration * 0 + TENSOR.grid.default, ms))
    default = np.full(len(later), TENSOR.grid.default)
    blind = judged(made, earlier, later, {"served": made.likeliest()[later.row], "default": default})
    assert isinstance(blind["served"], str) and "no later load" in blind["served"]
    assert isinstance(blind["default"], Loss)
    other = export_rules(made, contexts, configuration * 0, ms, AMONG, unjudged="the log is another's")
    assert set(other.losses.values()) == {"not known: the log is another's"} and other.by_site.tree_rules


@pytest.mark.slow
def test_clients_are_served_by_their_prefix() -> None:
    """Where prefixes are reported: the class of the prefix, not of the client; Default where the prefix holds none."""
    made, contexts, _, configuration, ms = lives("thompson")
    book = export_rules(made, contexts, configuration, ms, AMONG).tune
    network = made.where(contexts)[1]
    served = book.served(contexts, network, TENSOR.grid.default)
    assert (served == book.by_prefix[contexts.prefix]).all() and (served != book.by_class[network]).any()
    nameless = Contexts(contexts.bandwidth_kbps, contexts.rtt_ms, contexts.loss, contexts.site, SITES)
    assert (book.served(nameless, network, 0) == book.by_class[network]).all()
    held = {prefix: name for prefix, name in zip(contexts.prefixes, book.by_prefix, strict=True) if name}
    names = {tuple(profile.settings): name for name, profile in book.profiles.items()}
    for prefix, at in held.items():
        defaults = dict(TENSOR.grid.profiles[TENSOR.grid.default].settings)
        off = tuple((k, v) for k, v in TENSOR.grid.profiles[at].settings if defaults[k] != v)
        assert book.prefixes.get(prefix, "") == names.get(off, "")


def of_prefixes(prefix: Codes) -> tuple[JudgedOutcomes, JudgedOutcomes, dict[str, Codes], object]:
    """Halves of a log of Default, served to clients of those prefixes; the rule is another, by every other load."""
    made, contexts, _, configuration, ms = lives("mab_nc")
    n = len(prefix)
    renamed = replace(contexts[:n], prefix=prefix, prefixes=tuple(map(str, range(prefix.max() + 1))))
    default = TENSOR.grid.default
    chosen = np.where(np.arange(n) // 25 % 2, default, default - 1)
    outcomes = known_outcomes(made, renamed, chosen, ms[:n])
    assert len(outcomes) == n
    earlier, later = halves(outcomes)
    return earlier, later, {"served": np.full(len(later), default - 1)}, made


def test_every_fifth_prefix_may_be_all_that_is_left() -> None:
    """25 prefixes, later clients of every fifth one only: their parts are not found by raw codes."""
    codes = np.arange(4000) % 25
    codes[2000:] -= codes[2000:] % 5
    earlier, later, rules, made = of_prefixes(codes)
    (found,) = judged(made, earlier, later, rules).values()  # type: ignore[arg-type]
    assert isinstance(found, Loss) and np.isfinite([found.p95.low, found.p95.high, found.mean.low]).all()
    assert found.mean.low < found.mean.value < found.mean.high
    one, other = _groups(earlier, later)
    assert [len(np.unique(later.contexts.prefix[other == part])) for part in range(5)] == [1] * 5
    for code in np.unique(later.contexts.prefix):
        mine = earlier.contexts.prefix == code
        assert (one[mine] == other[later.contexts.prefix == code][0]).all(), "a prefix is of one part in both halves"


def test_a_fifth_that_is_nearly_all_is_a_reason() -> None:
    codes = np.zeros(4000, dtype=np.int64)
    codes[::50] = np.arange(80) % 10
    earlier, later, rules, made = of_prefixes(codes)
    (found,) = judged(made, earlier, later, rules).values()  # type: ignore[arg-type]
    assert isinstance(found, str) and "without one fifth of the prefixes" in found and "are needed" in found
    codes[2000:] = 0
    earlier, later, rules, made = of_prefixes(codes)
    (alone,) = judged(made, earlier, later, rules).values()  # type: ignore[arg-type]
    assert isinstance(alone, Loss), "one prefix: fifths of the clients"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_no_class_gets_what_no_client_has_loaded(name: str) -> None:
    """Of a policy that only knows its own loads; a model over all cells speaks for what a class never loaded."""
    made, contexts, _, configuration, ms = lives(name, 2000)
    default, loaded = (
        TENSOR.grid.default,
        loaded_configurations(made, known_outcomes(made, contexts, configuration, ms)[:0]),
    )
    for k, count in enumerate(made.cells.tally_.count.reshape(len(loaded), -1, len(TENSOR.grid)).sum(axis=1)):
        assert (loaded[k] == (count > 0)).all()
    # every class does best with what is out of reach, and its twin within reach was never loaded
    free = rulebook(made, contexts, among=AMONG)
    blank = np.zeros(loaded.shape, dtype=np.bool_)
    held = rulebook(made, contexts, among=AMONG, seen=blank)
    assert (held.by_class == default).all() and not held.profiles and not held.prefixes
    assert held.unseen == (free.by_class != default).sum() > 0 and free.unseen == 0
    kept = rulebook(made, contexts, among=AMONG, seen=loaded)
    at = np.arange(len(loaded))
    assert (kept.by_class == np.where(loaded[at, free.by_class], free.by_class, default)).all()


@pytest.mark.slow
def test_only_a_model_speaks_for_what_was_not_loaded() -> None:
    """An offline policy has loaded nothing itself: the log's own earlier outcomes say what its classes have seen."""
    made = policy("offline", Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM))
    contexts, _ = clients(TENSOR, 2000)
    nothing = np.full(len(contexts), TENSOR.grid.default)
    blind = export_rules(made, contexts, nothing, np.full(len(contexts), 900.0), AMONG).tune
    assert not blind.profiles and blind.unseen > 0
    assert export_rules(made, contexts, nothing, np.full(len(contexts), 900.0), AMONG).book.profiles
    seen = export_rules(
        made, contexts, made.choose_many(contexts).configuration, np.full(len(contexts), 900.0), AMONG
    ).tune
    assert seen.profiles and seen.unseen < blind.unseen
    learned, contexts, _, configuration, ms = lives("thompson", 2000)
    assert export_rules(learned, contexts, configuration * 0 + TENSOR.grid.default, ms, AMONG).tune.unseen == 0
    other = export_rules(made, contexts, made.choose_many(contexts).configuration, ms, AMONG, unjudged="another's").tune
    assert not other.profiles, "a log of other configurations shows no load of these"
