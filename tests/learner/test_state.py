# SPDX-License-Identifier: MIT
"""States as text: what `encode` wrote comes back, any other text is one clear line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from configtron.learner.state import decode, encode
from configtron.model.errors import BadInput


def test_what_is_encoded_comes_back() -> None:
    state = {"a": np.arange(6.0).reshape(2, 3), "b": ("x", float("nan"), None), "c": {1: [True]}, "d": np.array(["é"])}
    back = decode(encode(state))
    assert encode(back) == encode(state) and back["a"].dtype == state["a"].dtype and back["b"][0] == "x"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 5000,
        '{"tuple":' * 900 + "1" + "}" * 900,
        '{"map": 5}',
        '{"map": [["a"]]}',
        '{"map": [["a", {"kind": "NetworkClass", "fields": []}]]}',
        '{"map": [["a", {"kind": "nothing", "fields": {}}]]}',
        '{"map": [["a", {"float": 1%s}]]}' % ("0" * 400),
        '{"map": [["a", {"array": 5, "dtype": "<f8", "shape": [1]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "O", "shape": [0]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "f4,(2,", "shape": [0]}]]}',
        '{"map": [["a", {"array": "eJwDAAAAAAE=", "dtype": "<f8", "shape": [1180591620717411303424]}]]}',
    ],
)
def test_what_was_not_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="no saved policy"):
        decode(text)


@pytest.mark.parametrize("fields", [{}, {"hops": 3}])
def test_a_state_with_other_fields_is_one_of_another_version(fields: dict[str, int]) -> None:
    kept = {"map": [["a", {"kind": "NetworkClass", "fields": fields}]]}
    with pytest.raises(BadInput, match="saved by another version.*--fresh") as refused:
        decode(json.dumps(kept))
    assert "__init__" not in str(refused.value) and "\n" not in str(refused.value)
