# SPDX-License-Identifier: MIT
"""Rules of a policy: what it serves for classes, prefixes and trees, what rules cost by later outcomes, and why."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.driver_support import find_substitutes, list_unreachable, loaded_mask, reachable_mask
from configtron.learner.explain import explain
from configtron.learner.export import EXPORT_LEAF, export, relabelled
from configtron.learner.fallback import LEAST_LOADS, fallback
from configtron.learner.rule_cost import LEAST_OUTCOMES, JudgedOutcomes, Loss, _groups, halves, judged, known_outcomes
from configtron.learner.rulebook import Rulebook, present, rulebook
from configtron.learner.rules_export import export_rules, loaded_configurations, served_by
from configtron.learner.table_policy import TablePolicy
from configtron.learner.tree import grow, tree_columns
from configtron.model.errors import BadInput
from configtron.model.nearest import nearest
from configtron.model.nouns import Context, Value
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)


@cache
def learned(name: str, sessions: int = 4000) -> TablePolicy:
    setting = Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM)
    found = policy(name, setting)
    lived(found, TENSOR, sessions)
    return found


@pytest.fixture(scope="module")
def thompson() -> Any:
    return learned("thompson")


def test_an_agents_lookup_serves_the_policys_likeliest(thompson: Any) -> None:
    contexts, _ = clients(TENSOR, 200, seed=4)
    done = export(thompson, contexts)
    held = {(rule.class_id, rule.site): rule.profile for rule in done.rules}
    row, _ = thompson.where(contexts)
    likely = thompson.likeliest()[row]
    for i in range(200):
        context = contexts.row(i)
        found = nearest(thompson.cells.classes_.nouns(), context)
        assert found is not None and held[found.id, context.site] == TENSOR.grid.profiles[likely[i]]


def test_the_trees_words_are_what_it_does(thompson: Any) -> None:
    contexts, condition = clients(TENSOR, 1500, seed=4)
    done = export(thompson, contexts)
    chosen = done.tree.predict(tree_columns(contexts.points(), contexts.site, len(SITES)))
    for i in range(0, 1500, 50):
        context = contexts.row(i)
        (matching,) = [profile for text, profile, _ in done.tree_rules if spoken(text, context)]
        assert matching == TENSOR.grid.profiles[chosen[i]]
    assert sum(share for *_, share in done.tree_rules) == pytest.approx(1.0)
    rules_ms = TENSOR.lookup(condition, thompson.likeliest()[thompson.where(contexts)[0]], contexts.site)
    assert np.median(TENSOR.lookup(condition, chosen, contexts.site) / rules_ms) - 1.0 <= 0.015


def spoken(text: str, context: Context) -> bool:
    """Whether a rule's words hold of a client."""
    for part in [] if text == "always" else text.split(" and "):
        name, sign, bound = part.split(" ")
        holds = context.site == bound if name == "site" else getattr(context, name) <= float(bound)
        if holds != (sign in ("==", "<=")):
            return False
    return True


def test_a_leaf_takes_what_is_fastest_not_what_is_most_frequent() -> None:
    columns, label = np.zeros((10, 3)), np.array([0] * 6 + [1] * 4)
    expected = np.array([[7.0, 7.01]] * 6 + [[7.5, 7.0]] * 4)
    tree = grow(columns, label, (), least_leaf=5)
    assert tree.predict(columns[:1])[0] == 0
    assert relabelled(tree, columns, expected).predict(columns[:1])[0] == 1


def test_larger_leaves_are_fewer_and_cost_more(thompson: Any) -> None:
    contexts, _ = clients(TENSOR, 1500, seed=4)
    fine, coarse = export(thompson, contexts), export(thompson, contexts, least_leaf=20 * EXPORT_LEAF)
    columns = tree_columns(contexts.points(), contexts.site, len(SITES))
    cost = thompson.cost(np.ones(len(TENSOR.grid), dtype=np.bool_))
    row = thompson.where(contexts)[0]
    took = [cost[row, done.tree.predict(columns)].mean() for done in (fine, coarse)]
    assert len(coarse.tree_rules) < len(fine.tree_rules) and took[1] > took[0]


def test_a_policy_that_searches_cells_is_exported_as_what_it_serves() -> None:
    """Leaves of single cells serve each cell's likeliest; the pooled expectations would have it otherwise."""
    made: Any = learned("mab_nc")
    contexts, _ = clients(TENSOR, 1500, seed=4)
    done = export(made, contexts, least_leaf=1)
    row, likely = made.where(contexts)[0], made.likeliest()
    served = done.tree.predict(tree_columns(contexts.points(), contexts.site, len(SITES)))
    assert (served == likely[row]).mean() > 0.98
    assert (made.expected_ln().argmin(axis=1)[row] == likely[row]).mean() < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thompson", "configtron", "mab_nc", "offline", "bo", "default"])
def test_every_kind_of_policy_can_say_why(name: str) -> None:
    asked = Context(bandwidth_kbps=4000.0, rtt_ms=80.0, loss=0.005, site="shop", prefix="192.0.3.0/24")
    found = explain(learned(name) if name == "thompson" else learned(name, 600), asked)
    shares = [choice.share for choice in found.choices]
    assert shares == sorted(shares, reverse=True) and 0.0 < sum(shares) <= 1.0 + 1e-9
    if name == "thompson":
        assert found.class_id and found.distance is not None and found.runner_up_distance is not None
        assert found.distance <= found.runner_up_distance and found.runner_up != found.class_id
        assert {effect.knob for effect in found.effects} <= {knob.name for knob in TENSOR.grid.knobs}
        assert any(effect.excess > 0.02 for effect in found.effects), "nothing it changed is expected to help"


def test_an_unknown_client_is_reported(thompson: Any) -> None:
    found = explain(thompson, Context(site="shop"))
    assert not found.class_id and "unknown" in found.reason and found.choices[0].arm == "default"


AMONG = reachable_mask(TENSOR.grid, lambda knob, _: knob != "http_version")
DEFAULT, EVERY = TENSOR.grid.default, np.ones(len(TENSOR.grid), dtype=np.bool_)
OTHER, THIRD = [at for at in range(len(TENSOR.grid)) if at != DEFAULT][:2]


@cache
def offline() -> Any:
    """A policy without a model of its own that has loaded nothing itself."""
    return policy("offline", Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM))


def class_loads(*parts: tuple[int, int, float, int], network: int = 0, spread: float = 0.05, seed: int = 7
          ) -> JudgedOutcomes:  # fmt: skip
    """Outcomes of one class: (site, configuration, ms, how many) each, with a little noise."""
    rng, width = np.random.default_rng(seed), len(SITES) + 1
    column: list[list[float]] = [[], [], []]
    for site, configuration, ms, count in parts:
        column[0] += [network * width + site] * count
        column[1] += [configuration] * count
        column[2] += list(ms * np.exp(spread * rng.normal(size=count)))
    row, at, ms_ = (np.array(one) for one in column)
    contexts = clients(TENSOR, len(row))[0]
    return JudgedOutcomes(contexts, row.astype(np.int64), np.full(len(row), network), at.astype(np.int64), ms_)


FAST = (0, DEFAULT, 1000, 40), (0, OTHER, 800, 40), (0, THIRD, 700, 40)


@pytest.mark.parametrize(
    ("parts", "taken"),
    [
        (FAST, THIRD), ((*FAST[:2], (0, THIRD, 1100, 40)), OTHER), (((0, DEFAULT, 600, 40), *FAST[1:]), DEFAULT),
        # a slow site is no slow configuration: by plain means the other one would look slower by half
        (((0, DEFAULT, 100, 40), (1, DEFAULT, 1000, 10), (1, OTHER, 800, 40)), OTHER),
        (((0, DEFAULT, 100, 10), (1, DEFAULT, 1000, 40), (0, OTHER, 130, 40)), DEFAULT),
        # a site's level is not that of what it was loaded with most
        (((0, DEFAULT, 100, 20), (0, OTHER, 60, 200), (1, DEFAULT, 100, 200), (1, THIRD, 80, 20)), OTHER),
        # a few class_loads are not enough
        *(((FAST[0], (0, OTHER, 500, count)), taken)
          for count, taken in ((1, DEFAULT), (LEAST_LOADS - 1, DEFAULT), (LEAST_LOADS, OTHER))),
        # Default without a load is taken for usual; with nothing to hold it against, it is kept
        (((0, OTHER, 500, 60), (0, THIRD, 900, 60)), OTHER), (((0, OTHER, 900, 60),), DEFAULT),
    ],
)  # fmt: skip
def test_the_fastest_that_was_loaded_enough_is_taken(
    parts: tuple[tuple[int, int, float, int], ...], taken: int
) -> None:
    found = fallback(offline(), class_loads(*parts, network=2), EVERY)
    assert found[2] == taken and (np.delete(found, 2) == DEFAULT).all(), "classes without a load keep Default"
    within = fallback(offline(), class_loads(*FAST, network=2), EVERY & (np.arange(len(EVERY)) != THIRD))
    assert within[2] == OTHER


def test_what_chance_may_have_done_is_not_taken() -> None:
    """One standard error: 16 % of what is alike is taken, more than 14 of 40 in one of a thousand runs."""
    alike = (0, DEFAULT, 1000.0, LEAST_LOADS), (0, OTHER, 1000.0, LEAST_LOADS)
    taken = [fallback(offline(), class_loads(*alike, spread=0.3, seed=seed), EVERY)[0] == OTHER for seed in range(40)]
    many = (0, DEFAULT, 1000.0, 2000), (0, OTHER, 960.0, 2000)
    assert sum(taken) <= 14 and fallback(offline(), class_loads(*many, spread=0.3), EVERY)[0] == OTHER


def life(configuration: Codes, slow: int) -> Floats:
    """Page load times: 900 ms, half of that for what is not `slow`."""
    noise = np.random.default_rng(5).normal(size=len(configuration))
    return 900.0 * np.where(configuration == slow, 1.0, 0.5) * np.exp(0.1 * noise)


def test_it_is_handed_over_where_the_best_was_never_loaded() -> None:
    """And only there; nothing is handed over that its class has no load of."""
    made, (contexts, _) = offline(), clients(TENSOR, 4000)
    free = rulebook(made, contexts, among=AMONG)
    wanted = set(free.by_class.tolist())
    spare = next(at for at in range(len(TENSOR.grid)) if AMONG[at] and at not in wanted and at != DEFAULT)
    configuration = np.where(np.arange(len(contexts)) % 2 == 0, DEFAULT, spare)
    ms = life(configuration, DEFAULT)
    out = export_rules(made, contexts, configuration, ms, AMONG).tune
    assert out.instead > 0 and (out.by_class[free.by_class != DEFAULT] == spare).mean() > 0.9
    assert (out.by_class[free.by_class == DEFAULT] == DEFAULT).all()
    seen = loaded_configurations(made, known_outcomes(made, contexts, configuration, ms))
    assert (seen[np.arange(len(seen)), out.by_class] | (out.by_class == DEFAULT)).all()
    assert out.instead + out.unseen == (free.by_class != DEFAULT).sum()
    kept = export_rules(made, contexts, configuration, life(configuration, spare), AMONG).tune
    assert kept.instead == 0 and kept.unseen > 0 and not kept.profiles
    other = export_rules(made, contexts, configuration, ms, AMONG, unjudged="another's").tune
    assert other.instead == 0 and not other.profiles, "a log of other configurations says nothing of these"


def test_the_later_half_has_no_say() -> None:
    """Those that judge must not choose."""
    contexts, _ = clients(TENSOR, 4000)
    choice = np.where(np.arange(len(contexts)) % 2 == 0, DEFAULT, OTHER)
    ms = life(choice, DEFAULT)
    late = np.where(np.arange(len(ms)) < len(ms) // 2, ms, ms[::-1] * np.where(choice == OTHER, 9.0, 1.0))
    one, two = (export_rules(offline(), contexts, choice, y, AMONG) for y in (ms, late))
    assert (one.tune.by_class == two.tune.by_class).all() and one.losses["tune"] != two.losses["tune"]
    assert one.tune.instead == two.tune.instead > 0


@cache
def lives(name: str, sessions: int = 8000) -> Any:
    # Without a budget: within 1 % of Default's time it tries too little here to judge every rule.
    world = (TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM)
    made = policy(name, Setting(*world, budget=None))
    contexts, condition, decisions, ms = lived(made, TENSOR, sessions)
    return made, contexts, condition, decisions.configuration, ms


def truth(made: Any, later: JudgedOutcomes, condition: Codes, chosen: Codes) -> Floats:
    """(n,) true excess of those configurations over what the policy serves."""
    at = np.arange(len(later))
    ln = np.log(TENSOR.median_ms[condition][at, :, later.contexts.site].astype(np.float64))
    table = made.served_.probabilities(len(TENSOR.grid))[later.row]
    return np.expm1(ln[at, chosen] - (table * ln).sum(axis=1))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_what_is_printed_is_what_clients_lose(name: str) -> None:
    made, contexts, condition, configuration, ms = lives(name)
    found = export_rules(made, contexts, configuration, ms, AMONG)
    earlier, later = halves(known_outcomes(made, contexts, configuration, ms))
    rules = served_by(made, found.by_site, found.book, found.tune, later)
    assert set(found.losses) == set(rules) == {"cell", "tree", "class", "tune"}
    for kind, loss in found.losses.items():
        assert isinstance(loss, Loss), (kind, loss)
        true = truth(made, later, condition[len(earlier) :], rules[kind])
        assert loss.mean.value == pytest.approx(true.mean(), abs=0.03), kind
        p95 = np.percentile(true, 95)
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
    assert one.by_site.tree_rules == export(made, earlier.contexts).tree_rules != export(made, contexts).tree_rules
    assert one.book.classes == rulebook(made, earlier.contexts).classes != rulebook(made, contexts).classes


def test_where_no_outcome_decides_there_is_a_reason() -> None:
    made, contexts, _, configuration, ms = lives("mab_nc")
    few = slice(0, 2 * LEAST_OUTCOMES - 2)
    short = export_rules(made, contexts[few], configuration[few], ms[few], AMONG)
    assert all(isinstance(loss, str) and "outcomes" in loss for loss in short.losses.values())
    earlier, later = halves(known_outcomes(made, contexts, configuration * 0 + DEFAULT, ms))
    rules = {"served": made.likeliest()[later.row], "default": np.full(len(later), DEFAULT)}
    blind = judged(made, earlier, later, rules)
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


def of_prefixes(prefix: Codes) -> tuple[JudgedOutcomes, JudgedOutcomes, Loss | str]:
    """Halves of a log of Default, served to those prefixes' clients; the loss of another rule, by every other load."""
    made, contexts, _, configuration, ms = lives("mab_nc")
    n = len(prefix)
    renamed = replace(contexts[:n], prefix=prefix, prefixes=tuple(map(str, range(prefix.max() + 1))))
    outcomes = known_outcomes(made, renamed, np.where(np.arange(n) // 25 % 2, DEFAULT, DEFAULT - 1), ms[:n])
    assert len(outcomes) == n
    earlier, later = halves(outcomes)
    (found,) = judged(made, earlier, later, {"served": np.full(len(later), DEFAULT - 1)}).values()
    return earlier, later, found


def test_every_fifth_prefix_may_be_all_that_is_left() -> None:
    """25 prefixes, later clients of every fifth one only: their parts are not found by raw codes."""
    codes = np.arange(4000) % 25
    codes[2000:] -= codes[2000:] % 5
    earlier, later, found = of_prefixes(codes)
    assert isinstance(found, Loss) and np.isfinite([found.p95.low, found.p95.high]).all()
    assert found.mean.low < found.mean.value < found.mean.high
    one, other = _groups(earlier, later)
    assert [len(np.unique(later.contexts.prefix[other == part])) for part in range(5)] == [1] * 5
    for code in np.unique(later.contexts.prefix):
        mine = earlier.contexts.prefix == code
        assert (one[mine] == other[later.contexts.prefix == code][0]).all(), "a prefix is of one part in both halves"


def test_a_fifth_that_is_nearly_all_is_a_reason() -> None:
    codes = np.zeros(4000, dtype=np.int64)
    codes[::50] = np.arange(80) % 10
    found = of_prefixes(codes)[2]
    assert isinstance(found, str) and "without one fifth of the prefixes" in found and "are needed" in found
    codes[2000:] = 0
    assert isinstance(of_prefixes(codes)[2], Loss), "one prefix: fifths of the clients"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_no_class_gets_what_no_client_has_loaded(name: str) -> None:
    """Of a policy that only knows its own loads; a model over all cells speaks for what a class never loaded."""
    made, contexts, _, configuration, ms = lives(name, 2000)
    loaded = loaded_configurations(made, known_outcomes(made, contexts, configuration, ms)[:0])
    for k, count in enumerate(made.cells.tally_.count.reshape(len(loaded), -1, len(TENSOR.grid)).sum(axis=1)):
        assert (loaded[k] == (count > 0)).all()
    # every class does best with what is out of reach, and its twin within reach was never loaded
    free = rulebook(made, contexts, among=AMONG)
    held = rulebook(made, contexts, among=AMONG, seen=np.zeros(loaded.shape, dtype=np.bool_))
    assert (held.by_class == DEFAULT).all() and not held.profiles and not held.prefixes
    assert held.unseen == (free.by_class != DEFAULT).sum() > 0 and free.unseen == 0
    kept = rulebook(made, contexts, among=AMONG, seen=loaded)
    at = np.arange(len(loaded))
    assert (kept.by_class == np.where(loaded[at, free.by_class], free.by_class, DEFAULT)).all()
    # an offline policy has loaded nothing itself: the log's own earlier outcomes say what its classes have seen
    nothing = export_rules(made, contexts, configuration * 0 + DEFAULT, ms, AMONG).tune
    assert name == "mab_nc" or nothing.unseen == 0, "a model speaks for what was not loaded"


CLASSES = small_classes(TENSOR)


@cache
def taught(name: str = "mab_nc") -> Any:
    made = policy(name, Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2), 500, TENSOR, TENSOR))
    lived(made, TENSOR, 4000)
    return made


def whole(book: Rulebook, k: int) -> dict[str, object]:
    """All settings of a class's profile, defaults and all."""
    named, default = book.classes[k][1], dict(TENSOR.grid.profiles[DEFAULT].settings)
    return default | (dict(book.profiles[named].settings) if named else {})


@pytest.mark.slow
def test_a_class_gets_what_is_fastest_over_its_sites() -> None:
    """Where a model says so. Held against the long way round: every class's clients, site by site."""
    made, (contexts, _) = taught("thompson"), clients(TENSOR, 2000, 5)
    book = rulebook(made, contexts)
    expected, (row, network) = made.expected_ln(), made.where(contexts)
    default = dict(TENSOR.grid.profiles[DEFAULT].settings)
    for k, (name, named, share) in enumerate(book.classes):
        if not (network == k).any():
            continue
        cells = row[network == k]
        relative = np.exp(expected[cells] - expected[cells][:, [DEFAULT]]).mean(axis=0)
        # Configurations that the model cannot distinguish tie: either is best.
        assert relative[book.by_class[k]] == pytest.approx(relative.min(), rel=1e-12)
        assert whole(book, k) == dict(TENSOR.grid.profiles[book.by_class[k]].settings) and name == made.class_ids_[k]
        assert share == pytest.approx((network == k).mean())
        assert not named or all(default[knob] != value for knob, value in book.profiles[named].settings)


def test_a_class_gets_what_most_of_its_clients_are_served() -> None:
    """Where every cell is searched on its own, its clients vote; nothing is carried from one cell to another."""
    made, (contexts, _) = taught(), clients(TENSOR, 2000, 5)
    book, (row, network) = rulebook(made, contexts), made.where(contexts)
    for k in range(len(book.classes)):
        votes = np.bincount(made.likeliest()[row[network == k]], minlength=len(TENSOR.grid))
        assert votes[book.by_class[k]] == votes.max() > 0
        assert whole(book, k) == dict(TENSOR.grid.profiles[book.by_class[k]].settings)
    # names are those that tune takes
    assert book.profiles and all(re.fullmatch(r"learned[A-Za-z0-9-]{1,24}", name) for name in book.profiles)
    assert set(book.prefixes.values()) <= set(book.profiles)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_values_that_no_driver_reaches_stay_at_their_default(name: str) -> None:
    def takes(knob: str, value: Value) -> bool:
        return knob == "tcp_congestion_control" or (knob == "initcwnd" and value != 1)

    among = reachable_mask(TENSOR.grid, takes)
    made, (contexts, _) = taught(name), clients(TENSOR, 2000, 5)
    every, book = rulebook(made, contexts), rulebook(made, contexts, among=among)
    assert set(list_unreachable(TENSOR.grid, takes)) == {"pacing", "tcp_autocorking", "http_version"}
    assert all(takes(knob, value) for profile in book.profiles.values() for knob, value in profile.settings)
    assert among[book.by_class].all() and not among[every.by_class].all(), "or nothing unreached was wanted"
    if name == "thompson":
        # the best of those within reach, not the best of all with its other knobs put back
        (row, network), cost = made.where(contexts), made.cost(among)
        total = np.array([cost[row[network == k]].sum(axis=0) for k in range(len(book.classes))])
        ours = total[np.arange(len(total)), book.by_class]
        assert ours == pytest.approx(total.min(axis=1), rel=1e-12), "or a tie of the best"
        assert (book.by_class != find_substitutes(TENSOR.grid, among)[every.by_class]).any()


def test_the_nearest_within_reach_shares_most_settings() -> None:
    grid = TENSOR.grid
    found, column = find_substitutes(grid, AMONG), grid.column("http_version")
    away = (grid.positions != grid.positions[found]).sum(axis=1)
    assert (found[AMONG] == np.flatnonzero(AMONG)).all() and (away[~AMONG] == 1).all()
    assert (column[found] == column[grid.default]).all()
    # values that were never loaded are not met
    least = grid.column("initcwnd") == 0
    loads = np.where(least, 0.0, 50.0)
    found = loaded_mask(grid, loads)
    assert found[DEFAULT] and not found[least].any() and found[~least].all()
    assert loaded_mask(grid, np.zeros(len(grid))).sum() == 1


def test_a_prefix_is_where_its_clients_are() -> None:
    made = taught()
    far = Contexts(np.array([1e5, 1e5, 2e2]), np.array([10.0, 11.0, 500.0]), np.zeros(3), np.zeros(3, np.int64),
                   TENSOR.sites, np.zeros(3, np.int64), ("192.0.2.0/24",))  # fmt: skip
    book, classes = rulebook(made, far), made.cells.classes_
    named = {class_id: name for class_id, name, _ in book.classes}
    median, other = (classes.ids[int(classes.of(far[at : at + 1])[0])] for at in (1, 2))
    assert book.prefixes.get("192.0.2.0/24", "") == named[median] and median != other
    assert present(far).bandwidth_kbps == 1e5 and present(far).rtt_ms == 11.0 and present(far, "shop").site == "shop"
    unknown = Contexts(*(np.array([np.nan]) for _ in range(3)), np.array([-1]), (), np.array([0]), ("192.0.2.0/24",))
    assert present(unknown).rtt_ms is None
    default = policy("default", Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(2)))
    with pytest.raises(BadInput, match="no client"):
        rulebook(made, unknown)
    for rules in (rulebook, export):
        with pytest.raises(BadInput, match="no classes"):
            rules(default, far)
