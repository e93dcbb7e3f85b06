# SPDX-License-Identifier: MIT
"""What can be measured: every name is one that exists, grids are the papers', a layout comes back as it was."""

from __future__ import annotations

import json

import pytest

from configtron.lab.testbed.layout import Layout, laid_out, tensor_of
from configtron.lab.testbed.studies import ALIVE, STUDIES, study_of
from configtron.model.errors import BadInput
from configtron.model.grid import DEAD, paper_grid
from configtron.model.knobs import TUNABLE
from configtron.model.nouns import Profile
from configtron.model.repeats import Verdict
from configtron.model.samples import Kept


@pytest.mark.parametrize("name", STUDIES)
def test_every_name_is_one(name: str) -> None:
    layout = laid_out(STUDIES[name], 1)
    assert layout.sites == STUDIES[name].sites
    assert [condition.name for condition in layout.conditions] == list(STUDIES[name].conditions)
    assert all(page.objects for page in layout.pages)


def test_sizes_are_those_of_the_papers() -> None:
    """HotCloud's 48 x 96, with the default besides; CT's 96; 576 cells for a first look."""
    sizes = {name: (len(s.conditions), len(s.grid), len(s.sites)) for name, s in STUDIES.items()}
    assert sizes == {"hotcloud": (48, 97, 10), "configtron": (59, 96, 10), "smoke": (12, 16, 3), "realism": (46, 44, 3),
                     "visits": (24, 10, 3)}  # fmt: skip
    assert STUDIES["smoke"].cells == 576
    windows = {dict(p.settings)["initcwnd"] for p in STUDIES["hotcloud"].grid.profiles}
    assert windows == {3, 6, 9, 12, 15, 18, 10}


def test_every_study_has_the_default_to_compare_with() -> None:
    for study in STUDIES.values():
        default = study.grid.profiles[study.grid.default]
        assert default.settings == Profile("", tuple((k.name, k.default) for k in TUNABLE if k.name in ALIVE)).settings  # type: ignore[misc]
        assert len(set(study.grid.rows)) == len(study.grid.rows)


def test_the_grid_is_what_is_alive_of_the_papers() -> None:
    """CT's 768 without what cannot change a page load: the knobs that `grid.DEAD` names everywhere, and autocorking."""
    left_out = {knob.name for knob in TUNABLE} - set(ALIVE)
    assert left_out == {dead.knob for dead in DEAD if not dead.where} | {"tcp_autocorking"}
    sizes = {knob.name: len(knob.values) for knob in TUNABLE}
    assert len(paper_grid()) == len(STUDIES["configtron"].grid) * sizes["tcp_autocorking"] * 4


def test_a_study_can_be_narrowed() -> None:
    found = study_of("smoke").narrowed(["access:dsl"], ["news"], (6,))
    assert (found.conditions, found.sites, found.rule.looks, found.cells) == (("access:dsl",), ("news",), (6,), 16)
    assert study_of("smoke").narrowed([], [], []) == STUDIES["smoke"]
    strange = [["access:isdn"], ["access:dsl"] * 2, ["trace:nowhere"], ["access:4g;2:trace:/nowhere/x"]]
    for conditions, sites in [([], ["nowhere"]), *((one, []) for one in strange)]:
        with pytest.raises(BadInput):
            study_of("smoke").narrowed(conditions, sites, [])
    for trace in ("trace:nowhere", "access:4g;2:trace:/nowhere/x"):
        with pytest.raises(BadInput, match="no trace"):
            study_of("smoke").narrowed([trace], [], [])
    with pytest.raises(BadInput, match="must rise"):
        study_of("smoke").narrowed([], [], [0])
    with pytest.raises(BadInput, match="no study is called 'all'; there is: hotcloud"):
        study_of("all")


def test_a_layout_comes_back_as_it_was() -> None:
    layout = laid_out(study_of("hotcloud").narrowed(["pantheon:1;2:access:dsl"], [], []), 2**48 - 1, "apache", "ebpf")
    back = Layout.from_json(layout.to_json())
    assert back.to_json() == layout.to_json() and back.orders() == layout.orders()
    assert back.grid.profiles == layout.grid.profiles and back.grid.default == layout.grid.default
    assert (back.server, back.per_prefix, back.seed) == ("apache", "ebpf", 2**48 - 1)
    tea = json.loads(layout.to_json()) | {"knobs": [{"name": "tea", "values": [1]}]}
    for text in ("", "{}", "[]", json.dumps(tea)):
        with pytest.raises(BadInput, match="layout"):
            Layout.from_json(text)


def test_what_was_not_measured_is_a_hole() -> None:
    layout = laid_out(study_of("smoke").narrowed(["access:dsl", "trace:walk"], ["news"], []), 1)
    settings = layout.grid.profiles[3].settings
    verdict, nothing = Verdict(10.0, None, None, 2, "few-loads"), Verdict(None, None, None, 1, "timeout")
    cells = [
        Kept("trace:walk", 3, settings, "news", verdict, (), "", (9.0, 11.0)),
        Kept("trace:walk", 4, settings, "news", nothing, (), "", (None,)),
    ]
    tensor = tensor_of(layout, cells, (("a", "b"),))
    assert tensor.missing() == 2 * 16 - 1 and tensor.median_ms[1, 3, 0] == 10.0
    assert tensor.repeats_ms is not None and tensor.repeats_ms.shape == (2, 16, 1, 2)
    assert tensor.repeats_ms[1, 3, 0].tolist() == [9.0, 11.0]
    assert tensor.bandwidth_kbps[0] == 1500 and tensor.bandwidth_kbps[1] != tensor.bandwidth_kbps[1]
    assert tensor.provenance == (("a", "b"),)
