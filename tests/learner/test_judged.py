"""What rules cost, by later outcomes: near the truth, never by the policy's own word, and silent where nobody can
say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.export import export
from configtron.learner.handed import Handed, handed, served_by
from configtron.learner.judged import LEAST_OUTCOMES, Loss, Told, halves, judged, told
from configtron.learner.reached import reached
from configtron.learner.rulebook import rulebook
from tests.learner.worlds import SITES, lived, small_classes, small_tensor

TENSOR, WARM = small_tensor(), small_tensor(seed=9)
AMONG = reached(TENSOR.grid, lambda knob, _: knob != "http_version")


@cache
def lives(name: str, sessions: int = 8000):  # type: ignore[no-untyped-def]
    made = policy(name, Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 500, WARM))
    contexts, condition, decisions, ms = lived(made, TENSOR, sessions)
    return made, contexts, condition, decisions.configuration, ms


def truth(made, later: Told, condition: Codes, chosen: Codes) -> Floats:  # type: ignore[no-untyped-def]
    """(n,) true excess of those configurations over what the policy serves."""
    at = np.arange(len(later))
    ln = np.log(TENSOR.median_ms[condition][at, :, later.contexts.site].astype(np.float64))
    table = made.served_.probabilities(len(TENSOR.grid))[later.row]
    return np.expm1(ln[at, chosen] - (table * ln).sum(axis=1))


def exported(name: str) -> tuple[Handed, dict[str, Floats]]:
    made, contexts, condition, configuration, ms = lives(name)
    found = handed(made, contexts, configuration, ms, AMONG)
    earlier, later = halves(told(made, contexts, configuration, ms))
    rules = served_by(made, found.by_site, found.book, found.tune, later)
    return found, {kind: truth(made, later, condition[len(earlier) :], at) for kind, at in rules.items()}


@pytest.mark.parametrize("name", ["mab_nc", "thompson"])
def test_what_is_printed_is_what_clients_lose(name: str) -> None:
    found, true = exported(name)
    assert set(found.losses) == {"cell", "tree", "class", "tune"}
    for kind, loss in found.losses.items():
        assert isinstance(loss, Loss), (kind, loss)
        assert loss.mean.value == pytest.approx(true[kind].mean(), abs=0.03), kind
        p95 = np.percentile(true[kind], 95)
        assert loss.p95.value == pytest.approx(p95, abs=max(0.08, 0.4 * abs(p95))), kind
        assert loss.mean.low < loss.mean.value < loss.mean.high and loss.p95.low < loss.p95.value < loss.p95.high


def test_a_policy_does_not_judge_itself() -> None:
    """Rules that are best by the pooled expectations would be praised by them."""
    made, contexts, condition, configuration, ms = lives("mab_nc")
    earlier, later = halves(told(made, contexts, configuration, ms))
    pooled = made.expected_ln().argmin(axis=1)[later.row]
    own = made.expected_ln()[later.row, pooled] - made.expected_ln()[later.row, made.likeliest()[later.row]]
    assert own.max() <= 0.0 and own.mean() < -0.05, "by its own expectations nobody loses"
    (found,) = judged(made, earlier, later, {"pooled": pooled}).values()
    assert isinstance(found, str) or found.p95.value > 0.05


def test_rules_are_made_on_the_earlier_and_judged_on_the_later() -> None:
    """What the later clients' loads were, and who they were, changes no rule."""
    made, contexts, _, configuration, ms = lives("thompson")
    slower = np.where(np.arange(len(ms)) < len(ms) // 2, ms, ms[::-1])
    one, other = (handed(made, contexts, configuration, y, AMONG) for y in (ms, slower))
    assert one.by_site.tree_rules == other.by_site.tree_rules and (one.tune.by_class == other.tune.by_class).all()
    assert one.losses["cell"] != other.losses["cell"] and one.made_on == 4000
    earlier, later = halves(told(made, contexts, configuration, ms))
    assert (len(earlier), len(later)) == (4000, 4000) and (later.ms == ms[4000:]).all()
    mine, book = (one.by_site, one.book)
    alone = export(made, earlier.contexts)
    assert mine.tree_rules == alone.tree_rules != export(made, contexts).tree_rules
    assert book.classes == rulebook(made, earlier.contexts).classes != rulebook(made, contexts).classes


def test_where_nobody_can_tell_a_reason_stands() -> None:
    made, contexts, _, configuration, ms = lives("mab_nc")
    few = slice(0, 2 * LEAST_OUTCOMES - 2)
    short = handed(made, contexts[few], configuration[few], ms[few], AMONG)
    assert all(isinstance(loss, str) and "outcomes" in loss for loss in short.losses.values())
    earlier, later = halves(told(made, contexts, configuration * 0 + TENSOR.grid.default, ms))
    default = np.full(len(later), TENSOR.grid.default)
    blind = judged(made, earlier, later, {"served": made.likeliest()[later.row], "default": default})
    assert isinstance(blind["served"], str) and "no later load" in blind["served"]
    assert isinstance(blind["default"], Loss)
    other = handed(made, contexts, configuration * 0, ms, AMONG, unjudged="the log is another's")
    assert set(other.losses.values()) == {"not known: the log is another's"} and other.by_site.tree_rules


def test_clients_are_served_by_their_prefix() -> None:
    """Where prefixes are told: the class of the prefix, not of the client; Default where the prefix holds none."""
    made, contexts, _, configuration, ms = lives("thompson")
    book = handed(made, contexts, configuration, ms, AMONG).tune
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
