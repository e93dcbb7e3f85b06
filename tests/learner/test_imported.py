# SPDX-License-Identifier: MIT
"""A policy of one's own: imported by name, checked, blamed for what it does wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.learner import Setting, policy, row_of, untaken
from configtron.model.errors import BadInput
from tests.support.worlds import FASTEST, SITES, clients, small_classes, small_tensor

TENSOR = small_tensor()
OWN = f"""{FASTEST}

class Raises(Fastest):
    def learn(self, seen):
        super().learn(seen)
        if len(seen):
            raise ZeroDivisionError("none left")

class Lost(Fastest):
    def where(self, contexts):
        return contexts.nothing

class Beyond(Fastest):
    def learn(self, seen):
        super().learn(seen)
        self.served_.configuration[:] = 10_000 if len(seen) else 0

class Heavy(Fastest):
    def learn(self, seen):
        super().learn(seen)
        self.served_.weight[:] = 0.7 if len(seen) else 1.0

class Empty(Fastest):
    def learn(self, seen):
        self.served_ = None

class Made(Fastest):
    @classmethod
    def make(cls, setting):
        made = cls(setting)
        made.update_every = 7
        return made

class Wanting(Fastest):
    def __init__(self, one, two):
        pass

class Nothing(Fastest):
    def where(self, contexts):
        return None

class Short(Fastest):
    def where(self, contexts):
        row, network = super().where(contexts)
        return row[:-1], network

class Outside(Fastest):
    def where(self, contexts):
        row, network = super().where(contexts)
        return row + 10_000, network

class Ends(Fastest):
    def where(self, contexts):
        raise SystemExit(0)

class Unread(Fastest):
    def decide(self, contexts, chance):
        raise OSError("x")

class Undecided(Fastest):
    def decide(self, contexts, chance):
        return None

class Other:
    pass

number = 3
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "own_policy.py").write_text(OWN)
    (tmp_path / "broken_policy.py").write_text("import nothing_of_the_kind")
    (tmp_path / "ending_policy.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "unreadable_policy.py").write_text("def :")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "own_policy"
    for name in ("own_policy", "broken_policy", "ending_policy", "unreadable_policy"):
        sys.modules.pop(name, None)


def setting(**more: Any) -> Setting:
    made = Setting(TENSOR.grid, SITES, small_classes(TENSOR), np.random.default_rng(3), 100)
    return replace(made, **more)


def lived(name: str) -> Any:
    made = policy(name, setting())
    contexts, condition = clients(TENSOR, 300)
    for start in range(0, 300, 100):
        rows = slice(start, start + 100)
        chosen = made.choose_many(contexts[rows])
        made.observe_many(
            contexts[rows], chosen, TENSOR.lookup(condition[rows], chosen.configuration, contexts.site[rows])
        )
    return made


def test_it_learns_as_any_other_does(own: str) -> None:
    made = lived(f"{own}:Fastest")
    assert made.updates_ == 3 and made.cells.tally_.count.sum() == 300
    again = policy(f"{own}:Fastest", setting())
    again.restore(made.save())
    assert again.save() == made.save()


def test_it_may_be_made_by_a_method_of_its_own(own: str) -> None:
    assert policy(f"{own}:Made", setting()).update_every == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_policy:Raises", "ZeroDivisionError: none left .*own_policy.py, line 23"),
        ("own_policy:Lost", "AttributeError: .*nothing.*own_policy.py, line 27"),
        ("own_policy:Beyond", "configuration that the grid"),
        ("own_policy:Heavy", "sum to 1"),
        ("own_policy:Empty", "served_ is NoneType"),
        ("own_policy:Wanting", "TypeError"),
        (
            "own_policy:Nothing",
            r"'own_policy:Nothing': where.. \(.*own_policy.py, line 55. returns NoneType;",
        ),
        ("own_policy:Short", "returns an array of int64 .*an array of 100 integers"),
        ("own_policy:Outside", "returns 10000 to 100[0-9][0-9] where there are 0 to"),
        ("own_policy:Ends", "SystemExit: 0 .*own_policy.py, line 70"),
        ("own_policy:Unread", "OSError: x .*own_policy.py, line 74"),
        ("own_policy:Undecided", r"decide\(\) .*own_policy.py, line 77\) returns NoneType"),
        ("ending_policy:X", "'ending_policy:X': SystemExit: 0 .*ending_policy.py, line 2"),
        ("own_policy:Other", "no configtron.learner.TablePolicy"),
        ("own_policy:number", "no configtron.learner.TablePolicy"),
        ("own_policy:Nowhere", "no Nowhere in own_policy"),
        ("no_policy_here:Fastest", "No module named 'no_policy_here'"),
        ("broken_policy:X", "No module named 'nothing_of_the_kind'"),
        ("unreadable_policy:X", "SyntaxError"),
        ("own policy:Fastest", "write package.module:Class"),
        (":Fastest", "write package.module:Class"),
        ("own_policy:", "write package.module:Class"),
    ],
)
def test_what_it_does_wrong_is_one_line(own: str, name: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as caught:
        lived(name)
    assert "\n" not in str(caught.value)


def test_a_name_without_a_colon_is_a_policy_of_the_list() -> None:
    with pytest.raises(BadInput, match="no policy is called 'fastest'.*package.module:Class"):
        row_of("fastest")


def test_options_that_make_no_difference_are_named(own: str) -> None:
    assert "--engine" in untaken([f"{own}:Fastest"], "engine")
