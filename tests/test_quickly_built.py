# SPDX-License-Identifier: MIT
"""A dataclass that is built faster is the dataclass that it was."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, replace
from typing import Any

import pytest

from configtron.model.fleet import OutcomeRow
from configtron.model.quickly_built import quickly_built


@dataclass(frozen=True, slots=True)
class Slow:
    name: str
    size: int = 3
    more: Mapping[str, float] = field(default_factory=dict)


@quickly_built
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    size: int = 3
    more: Mapping[str, float] = field(default_factory=dict)


@pytest.mark.parametrize(("values", "named"), [
    (("a",), {}), (("a", 4), {}), (("a", 4, {"b": 1.0}), {}), ((), {"name": "a", "size": 9}),
])  # fmt: skip
def test_it_has_the_fields_of_the_slow_one(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    one = Quick(*values, **named)
    assert type(one) is Quick and asdict(one) == asdict(Slow(*values, **named))
    assert one == Quick(*values, **named) and hash(Quick("a").name) and one != Quick("other")
    assert copy.copy(one) == one and pickle.loads(pickle.dumps(one)) == one
    assert replace(one, size=7).size == 7 and repr(one) == repr(Slow(*values, **named)).replace("Slow", "Quick")
    assert Quick("a").more is not Quick("a").more, "a mapping of its own for each"


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), (("a", 1, {}, 2), {}), (("a",), {"name": "b"}), (("a",), {"x": 1})]
)
def test_wrong_arguments_are_refused(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Quick(*values, **named)


def test_it_cannot_be_changed() -> None:
    one = Quick("a")
    with pytest.raises(FrozenInstanceError):
        one.size = 4  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del one.size
    with pytest.raises((AttributeError, TypeError)):
        one.other = 4  # type: ignore[attr-defined]


def test_rows_of_outcomes_are_of_their_class() -> None:
    row = OutcomeRow("web1", "b", 1, 2, "a.example", "192.0.2.0/24", "ab", 800.0)
    assert type(row) is OutcomeRow and row.more == {} and row.teaches and OutcomeRow.__name__ in repr(row)
