# SPDX-License-Identifier: MIT
"""The rules of policies: one file each, found by listing; parts that are held; typed constructors; declared states."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.learner import registry
from configtron.learner.registry import POLICIES, policy
from configtron.learner.setting import Setting
from configtron.learner.state import decode, encode
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput
from tests.support.sources import parsed
from tests.support.worlds import lived, small_classes, small_tensor

FILES = sorted(
    f"{folder}.{file.stem}"
    for folder in registry.FOLDERS
    for file in Path(import_module(folder).__path__[0]).glob("*.py")
    if file.stem != "__init__"
)
LEARNER = Path(registry.__file__).parent
GRID = small_tensor().grid
EIGHT = GRID.only(sorted({GRID.default, *range(0, 168, 24)}))
TENSOR, WARM = small_tensor().over(EIGHT), small_tensor(seed=9).over(EIGHT)
CLASSES = small_classes(TENSOR)


def made(name: str) -> TablePolicy:
    return policy(name, Setting(TENSOR.grid, TENSOR.sites, CLASSES, np.random.default_rng(7), 150, WARM, TENSOR))


def kinds(file: str) -> list[type[TablePolicy]]:
    module = import_module(file)
    own = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
    return [one for one in own if issubclass(one, TablePolicy)]


def test_every_file_is_listed_and_every_policy_has_its_file() -> None:
    rows = [row.name for file in FILES for row in import_module(file).ROWS]
    assert sorted(rows) == sorted(POLICIES) and len(set(rows)) == len(rows) > 15
    assert all(row.name == name for name, row in POLICIES.items())
    assert {type(made(name)).__module__ for name in POLICIES} == set(FILES)


@pytest.mark.parametrize("file", FILES)
def test_a_policy_inherits_from_nothing_but_the_table_policy(file: str) -> None:
    assert kinds(file) and all(kind.__bases__ == (TablePolicy,) for kind in kinds(file))


@pytest.mark.parametrize("file", FILES)
def test_constructors_name_and_type_every_argument(file: str) -> None:
    for kind in kinds(file):
        for given in list(inspect.signature(kind.__init__).parameters.values())[1:]:
            assert given.kind not in (given.VAR_POSITIONAL, given.VAR_KEYWORD), (kind, given)
            assert given.annotation not in (inspect.Parameter.empty, "Any", Any), (kind, given)


def test_generators_are_arguments() -> None:
    """One file of the learner makes generators from seeds; simulated worlds have their own."""
    found = []
    for file in LEARNER.rglob("*.py"):
        if file.name != "chance.py":
            names = (node.attr for node in ast.walk(parsed(file)) if isinstance(node, ast.Attribute))
            found += [f"{file.name}: {name}" for name in names if name in ("default_rng", "PCG64", "RandomState")]
    assert found == []


def test_one_policy_is_imported_without_the_others() -> None:
    shown = "import sys; import configtron.learner.policies.thompson; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    others = {file for file in FILES if not file.endswith(".thompson")}
    assert "configtron.learner.policies.thompson" in loaded
    assert not loaded & (others | {"configtron.learner.registry", "configtron.learner.engines.grid", "sklearn"})


# Values that no field of a state has, but for those of whatever type.
JUNK = ("x", -1, None, [], np.zeros(3), np.zeros((2, 2), dtype=np.int64))


# Fields that states of earlier versions do not have, so that a state without them loads.
ADDED = ("noise_ln_",)
# One policy of each part that has a state.
STATES = ("default", "reuse", "bo", "configtron", "thompson")


@pytest.mark.slow
@pytest.mark.parametrize("name", STATES)
def test_a_damaged_state_is_refused_in_one_line(name: str) -> None:
    """Each field of a saved policy left out, or replaced: refused, or taken because it is of the declared type."""
    one, other = made(name), made(name)
    lived(one, TENSOR, 300)
    text = one.save()
    for end in (0, 1, len(text) // 2, len(text) - 1):
        with pytest.raises(BadInput) as refused:
            other.restore(text[:end])
        assert "\n" not in str(refused.value)
    whole, refusals = decode(text), 0
    for field in whole["own"]:
        for junk in ("left out", *JUNK):
            state = whole | {"own": whole["own"] | {field: junk}}
            if isinstance(junk, str) and junk == "left out":
                del state["own"][field]
            try:
                other.restore(encode(state))
            except BadInput as error:
                refusals += 1
                assert "\n" not in str(error) and "damaged" in str(error), str(error)
                continue
            missing_from_earlier = field in ADDED and junk == "left out"
            assert missing_from_earlier or not isinstance(junk, str), f"{field} is taken without a value"
    assert refusals >= 5 * len(whole["own"])


@pytest.mark.parametrize("own", [None, 3, "x", [], {}, {"served_": 1}])
def test_a_state_that_is_no_state_is_refused(own: object) -> None:
    state = decode(made("mab_nc").save()) | {"own": own}
    with pytest.raises(BadInput, match="damaged.*--fresh"):
        made("mab_nc").restore(encode(state))


def test_a_state_of_other_classes_does_not_fit() -> None:
    other = Setting(TENSOR.grid, TENSOR.sites, small_classes(TENSOR, 4), np.random.default_rng(7), 150)
    state = decode(policy("thompson", other).save())
    state["own"]["classes_"] = CLASSES
    with pytest.raises(BadInput, match="damaged: tally_ has shape"):
        made("thompson").restore(encode(state))
