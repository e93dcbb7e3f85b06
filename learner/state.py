# SPDX-License-Identifier: MIT
"""Learned state as JSON text and back, bit for bit.

Numbers of Python are exact in JSON already; an array goes as its bytes (little-endian, deflated, base64), so a table of
a hundred thousand counts stays small and a NaN stays a NaN. Reading refuses a value that is neither JSON, array nor one
of `KINDS`.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import types
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from configtron.model.errors import BadInput
from configtron.model.nouns import NetworkClass

State = TypeVar("State")

# Arrays that `encode` writes: little-endian or bytes; truth, whole numbers, fractions, text.
DTYPE = re.compile(r"[<|][biufU]\d{1,4}")
# Frozen dataclasses that may stand in a state, by name; modules that define more add theirs on import.
KINDS: dict[str, type] = {"NetworkClass": NetworkClass}
# Names that kinds have in a state, where these are not their classes' own.
SAVED_NAMES: dict[type, str] = {}
# Fields that kinds had in earlier versions, by kind; modules add theirs on import.
FORMER: dict[str, tuple[str, ...]] = {}


class OtherVersion(BadInput):
    """A state whose fields are another version's. what: the complaint without the advice."""

    def __init__(self, kind: str) -> None:
        self.what = f"saved by another version of configtron, whose {kind} has other fields"
        super().__init__(f"{self.what}; make it anew: `configtron learn run --policy NAME --fresh` (outcomes and rules"
                         " stay)")  # fmt: skip


def keep(kind: type) -> type:
    """Register this frozen dataclass as one that may stand in a state (a class decorator)."""
    KINDS[kind.__name__] = kind
    return kind


def keep_as(name: str) -> Callable[[type], type]:
    """Return a class decorator as `keep`; name: of the kind in saved states, where the class had it first."""

    def named(kind: type) -> type:
        KINDS[name] = kind
        SAVED_NAMES[kind] = name
        return kind

    return named


def keep_without(*former: str) -> Callable[[type], type]:
    """Return a class decorator as `keep`; former: fields of earlier versions, which are left out of a saved state."""

    def named(kind: type) -> type:
        FORMER[kind.__name__] = former
        return keep(kind)

    return named


def encode(state: dict[str, Any]) -> str:
    """Return state as JSON text; equal states are equal texts."""
    return json.dumps(_plain(state), sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(text: str) -> dict[str, Any]:
    """Return the state that `encode` wrote. Errors: `BadInput` for text that it did not write."""
    try:
        state = _rich(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, zlib.error) as error:
        raise BadInput(f"this is no saved policy ({error}); save one with `configtron learn run`") from error
    if not isinstance(state, dict):
        raise BadInput("this is no saved policy; save one with `configtron learn run`")
    return state


def rng_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return a generator's state: which kind, and where in its stream."""
    return dict(rng.bit_generator.state)


def set_rng_state(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Put a generator there. Errors: `BadInput` when it is of another kind."""
    try:
        rng.bit_generator.state = state
    except (ValueError, TypeError) as error:
        raise BadInput(f"the saved policy drew from another kind of generator: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        packed = base64.b64encode(zlib.compress(little.tobytes(), 6)).decode("ascii")
        return {"array": packed, "dtype": little.dtype.str, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return _plain(value.item())
    name = SAVED_NAMES.get(type(value), type(value).__name__)
    if dataclasses.is_dataclass(value) and KINDS.get(name) is type(value):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": name, "fields": fields}
    if isinstance(value, dict):
        return {"map": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} cannot stand in a state")


def _rich(value: Any) -> Any:
    if isinstance(value, list):
        return [_rich(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        raw = zlib.decompress(base64.b64decode(value["array"]))
        if not DTYPE.fullmatch(value["dtype"]):
            raise ValueError(f"no array is of {value['dtype']!r}")
        return np.frombuffer(raw, dtype=np.dtype(value["dtype"])).reshape(value["shape"]).copy()
    if "kind" in value:
        return _of_kind(KINDS[value["kind"]], {name: _rich(item) for name, item in value["fields"].items()})
    if "float" in value:
        return float(value["float"])
    if "tuple" in value:
        return tuple(_rich(item) for item in value["tuple"])
    return {_rich(key): _rich(item) for key, item in value["map"]}


def _of_kind(kind: type, given: dict[str, Any]) -> Any:
    """Return one of `KINDS`, without its former fields. Errors: `BadInput` where it had other fields when saved."""
    former = FORMER.get(kind.__name__, ())
    try:
        return kind(**{name: value for name, value in given.items() if name not in former})
    except TypeError as error:
        raise OtherVersion(kind.__name__) from error


# --- declared states -------------------------------------------------------------------------------------------------


def read(kind: type[State], saved: object) -> State:
    """Return the state that a dataclass declares, from the fields of a saved one; others are another part's.

    Errors: `BadInput` where a field is missing, or is not of its declared type.
    """
    if not isinstance(saved, dict):
        raise BadInput(_junk("it has no fields"))
    declared: Any = kind
    hints: dict[str, Any] = _hints(declared)
    for name, hint in hints.items():
        if name not in saved:
            raise BadInput(_junk(f"{name} is missing"))
        if not _is(saved[name], hint):
            raise BadInput(_junk(f"{name} is no {_words(hint)}"))
    return kind(**{name: saved[name] for name in hints})


def check_shapes(name: str, shape: tuple[int, ...], *arrays: np.ndarray[Any, Any]) -> None:
    """Errors: `BadInput` for an array of another shape."""
    for array in arrays:
        if array.shape != shape:
            raise BadInput(_junk(f"{name} has shape {array.shape}, not {shape}"))


def check_codes(name: str, codes: np.ndarray[Any, Any], below: int) -> None:
    """Errors: `BadInput` for a code that is none of 0 to `below` - 1."""
    if codes.size and not (codes.min() >= 0 and codes.max() < below):
        raise BadInput(_junk(f"{name} has codes {codes.min()} to {codes.max()}, and there are {below}"))


def check_positive(name: str, value: float) -> None:
    """Errors: `BadInput` for a number that is not above 0, or infinite."""
    if not 0.0 < value < np.inf:
        raise BadInput(_junk(f"{name} is {value:g}, and must be above 0"))


def _junk(what: str) -> str:
    return f"this saved policy is damaged: {what}; make it anew: `configtron learn run --policy NAME --fresh`"


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _words(hint: object) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("numpy.", "").replace("typing.", "")


def _is(value: object, hint: Any) -> bool:
    """Return whether a value is of a declared type, its parts too."""
    origin, given = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_is(value, one) for one in given)
    if origin is np.ndarray:
        # (shape, dtype[number])
        return isinstance(value, np.ndarray) and issubclass(value.dtype.type, get_args(given[1])[0])
    if origin is tuple:
        return isinstance(value, tuple) and _are(value, given)
    if origin is list:
        return isinstance(value, list) and all(_is(one, given[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is(k, given[0]) and _is(v, given[1]) for k, v in value.items())
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return isinstance(value, hint) and all(_is(getattr(value, k), h) for k, h in _hints(hint).items())
    return isinstance(value, origin or hint)


def _are(values: tuple[object, ...], given: tuple[Any, ...]) -> bool:
    if len(given) == 2 and given[1] is Ellipsis:
        return all(_is(one, given[0]) for one in values)
    return len(values) == len(given) and all(_is(one, hint) for one, hint in zip(values, given, strict=True))
