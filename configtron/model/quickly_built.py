# SPDX-License-Identifier: MIT
"""Frozen dataclasses of which a hundred thousand a second are built: the same class with a faster `__init__`.

A frozen dataclass stores each field by a call of `object.__setattr__`, and 25 fields take 2.2 us. Here the object is,
as long as its `__init__` runs, of a class with the same slots that is not frozen: 0.6 us.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def quickly_built(kind: type[T]) -> type[T]:
    """Return a frozen dataclass with slots, changed: it is built faster. It may not have subclasses, nor a
    `__post_init__`."""
    open_kind: Any = make_dataclass(kind.__name__, [_copied(each) for each in fields(kind)], slots=True)  # type: ignore[arg-type]
    fill = open_kind.__init__
    set_class: Any = object.__dict__["__class__"].__set__

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        set_class(self, open_kind)
        fill(self, *values, **named)
        self.__class__ = kind

    kind.__init__ = __init__  # type: ignore[method-assign]
    return kind


def _copied(one: Any) -> tuple[str, Any, Any]:
    """Return a field's name, any type, and its default."""
    if one.default_factory is not MISSING:
        return one.name, Any, field(default_factory=one.default_factory)
    return one.name, Any, field(default=one.default) if one.default is not MISSING else field()
