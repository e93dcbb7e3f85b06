# SPDX-License-Identifier: MIT
"""The study `realism` over tensors whose regrets are known: figures of both measurements side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.lab.testbed import realism
from configtron.lab.testbed.studies import STUDIES
from configtron.model.errors import BadInput
from configtron.model.tensor import Tensor
from configtron.studies import heterogeneity
from configtron.studies.output.results import ABSENT, HOLDS, PARTLY, Evaluated, Table
from configtron.studies.registry.kinds import Arguments
from configtron.studies.tensors.published import NamedStack, stack_of
from tests.support.studies import made

GRID = STUDIES["realism"].grid
STACKS = [stack_of(profile) for profile in GRID.profiles]
SHALLOW, DEEP = "link:10/40/0.25,neighbours=1", "link:10/40/8,neighbours=1"
LOSSY, QUIET = "link:10/80/1,loss=3", "link:20/60/1,spread=6"
SITES = ("search", "reference", "shop")


def tensor(names: tuple[str, ...], ms: Callable[[str, NamedStack], float], damage: float | None = None) -> Tensor:
    """Six equal loads a cell; damage: of bbr/30/h2 in `SHALLOW`, 1.0 elsewhere."""
    medians = np.array([[[ms(name, one)] * len(SITES) for one in STACKS] for name in names], dtype=np.float32)
    count = len(names)
    found = Tensor(GRID, SITES, names, np.full(count, 1e4), np.full(count, 40.0), np.zeros(count), medians, "made",
                   (), np.repeat(medians[..., None], 6, axis=3))  # fmt: skip
    if damage is None:
        return found
    lost = np.ones_like(medians)
    lost[names.index(SHALLOW), [one.name for one in STACKS].index("bbr/30/h2")] = damage
    return replace(found, damage=lost, damage_high=lost + np.float32(0.5))


def by_version(name: str, one: NamedStack) -> float:
    """cubic/30/fq is best: over h2, but over six connections, twice as fast, in `LOSSY`."""
    right = one.control == "cubic" and one.window == 30 and one.paced
    late = (one.version == "h1") != (name == LOSSY)
    return 100.0 * (2 if late else 1) * (1 if right else 3)


def studied(given: Tensor) -> Evaluated:
    return heterogeneity.run(Arguments(Path("/nowhere"), tensor=given, source="made"))


def table(found: Evaluated, name: str) -> Table:
    return next(one for one in found.tables if one.name == name)


def test_figures_stand_beside_published_ones() -> None:
    found = studied(tensor((QUIET, SHALLOW, DEEP, LOSSY), by_version))
    rows = {row[:3]: row for row in table(found, "static").rows}
    assert rows["grid", "published", "cubic/30/fq/h2"][3:] == (72, 7.5, 36, 83, 4.3, 1.5, 7.8, None)
    # 0, 0, 0 and 100 % over the best; choosing by condition halves a quarter of the loads' time
    ours = rows["grid", "measured", "cubic/30/fq/h2"][3:]
    assert ours[:4] == (75.0, 25.0, 100.0, 100.0)
    arms = {row[0]: row for row in table(found, "arms").rows}
    assert arms["cubic/30/fq/h2 cubic/30/fq/h1"] == ("cubic/30/fq/h2 cubic/30/fq/h1", 2, 1.2, 0.0, 8, 0.0, 0)
    assert arms["cubic/10/h2"][2:4] == (33, pytest.approx(100 * (3 * 2 + 5) / 4))
    # largest first: HTTP's version decides
    assert [row[0] for row in table(found, "knobs").rows][0] == "http_version"
    assert found.missing == "not in the tensor: 42 of 46 conditions"


def test_gain_on_held_out_loads_is_known() -> None:
    rows = table(studied(tensor((QUIET, SHALLOW, DEEP, LOSSY), by_version)), "static").rows
    gains = [row[7:10] for row in rows if row[:2] == ("grid", "measured") and row[7] is not None]
    assert gains == [(12.5, 12.5, 12.5)]


def test_conditions_show_both_measurements() -> None:
    (row,) = table(studied(tensor((LOSSY,), by_version)), "conditions").rows
    published = next(one for one in realism.ROWS if one.condition == LOSSY)
    assert row == (
        LOSSY, published.default_h1_ms, 300, published.default_h2_ms, 600, published.best, "cubic/30/fq/h1",
        published.best_ms, 100, published.guarded, "cubic/30/fq/h1", published.guarded_ms, 100, 79, 100.0,
    )  # fmt: skip


def test_price_beside_the_published_one() -> None:
    found = studied(tensor((SHALLOW, DEEP), by_version, damage=2.5))
    rows = {tuple(row[:3]): tuple(row[3:]) for row in table(found, "price").rows}
    assert rows[SHALLOW, "reference", "bbr/30/h2"] == (2.87, 2.5, 3.0)
    assert rows[SHALLOW, "shop", "bbr/30/h2"] == (1.61, 2.5, 3.0)
    assert rows[DEEP, "shop", "cubic/10/h1"] == (1.02, 1.0, 1.5)
    costs = {one.claim: one.verdict for one in found.facts if "neighbours" in one.claim or "costs them" in one.claim}
    assert list(costs.values()) == [HOLDS, HOLDS]
    harmless = studied(tensor((SHALLOW, DEEP), by_version, damage=1.1))
    assert [one.verdict for one in harmless.facts if "bbr over one" in one.claim] == [ABSENT]


def test_verdicts_come_from_the_numbers() -> None:
    def alone(name: str, one: NamedStack) -> float:
        # each condition wants a window of its own, and HTTP's version is the same everywhere
        wanted = {QUIET: 4, SHALLOW: 10, DEEP: 30, LOSSY: 64}[name]
        return (100.0 if one.window == wanted else 200.0) + (10 if one.version == "h2" else 0)

    found = {one.claim[:20]: one.verdict for one in studied(tensor((QUIET, SHALLOW, DEEP, LOSSY), alone)).facts}
    assert found["Where bbr is permitt"] in (ABSENT, PARTLY)
    assert found["The choice most wort"] == ABSENT
    assert found["The best static conf"] == ABSENT
    same = {one.claim[:20]: one.verdict for one in studied(tensor((QUIET, SHALLOW), by_version)).facts}
    assert same["Where bbr is permitt"] == HOLDS


def test_figures_are_of_published_sites_alone() -> None:
    given = tensor((QUIET, LOSSY), by_version)
    given.median_ms[:, :, 1] = np.linspace(1, 9, len(STACKS))
    found = studied(replace(given, sites=("search", "feed", "shop")))
    assert [row[0] for row in table(found, "static").rows] != []
    assert next(iter(table(found, "conditions").rows))[6] == "cubic/30/fq/h2"
    assert found.missing == "not in the tensor: 44 of 46 conditions, site reference"


def test_a_failed_configuration_is_left_out_and_counted() -> None:
    given = tensor((QUIET, DEEP), by_version)
    at = [one.name for one in STACKS].index("cubic/30/fq/h2")
    given.median_ms[1, at, 0] = np.nan
    found = studied(given)
    rows = [row for row in table(found, "static").rows if row[:2] == ("grid", "measured")]
    assert rows[0][2] != "cubic/30/fq/h2"
    assert rows[1][2:5] == ("cubic/30/fq/h2", 100.0, 0.0) and rows[1][-1] == 1


def test_a_tensor_of_other_networks_or_knobs() -> None:
    found = studied(tensor(("link:1/2/3",), by_version))
    assert not found.facts and not found.whole and found.missing == "not in the tensor: 46 of 46 conditions"
    elsewhere = replace(tensor((QUIET,), by_version), sites=("feed", "mail", "blog"))
    assert studied(elsewhere).missing.endswith("46 of 46 conditions, site search, site reference, site shop")
    few = {"tcp_congestion_control": ("cubic", "bbr")}
    with pytest.raises(BadInput, match="does not vary initcwnd, pacing, http_version"):
        studied(made.tensor([[1, 2]], [(1.0, 1.0, 0.0)], values=few))
    with pytest.raises(BadInput, match="measure --study realism"):
        heterogeneity.run(Arguments(Path("/nowhere")))


def test_what_changes_where_a_page_is_visited_again() -> None:
    """On warm connections HTTP/1.1 wins by a half instead of h2, and windows no longer matter; the others stay."""

    def ms(name: str, one: NamedStack) -> float:
        warm = "warm" in name
        late = one.version == ("h2" if warm else "h1")
        return 100.0 * (1.5 if late else 1.0) * (1.0 if warm or one.window == 30 else 1.2)

    names = tuple(f"{name}{option}" for name in realism.VISITED for option in realism.VISITS)
    rows = {row[:2]: row for row in table(studied(tensor(names, ms)), "visits").rows}
    changes = {visit: rows[visit, "grid"][-1] for visit in ("first", "think=100", "resumed=1", "warm=4")}
    assert changes["first"] == changes["think=100"] == changes["resumed=1"] == "-"
    warm = rows["warm=4", "grid"]
    assert warm[2] == len(realism.VISITED) and warm[4:7] == (100.0, 0.0, 50.0)
    assert (warm[9], warm[10]) == (50.0, 50.0)
    assert "static" in str(warm[-1]) and f"the faster version of HTTP in {len(realism.VISITED)}" in str(warm[-1])


def test_first_visits_alone_have_no_table_of_visits() -> None:
    assert "visits" not in [one.name for one in studied(tensor((QUIET,), by_version)).tables]
