# SPDX-License-Identifier: MIT
"""A policy of your own by the name of its class, "package.module:Class".

The class is a `TablePolicy`, made from a `Setting` as those in `policies/` are. Its table is checked after each update:
a table that no agent could serve, or an exception in its code, is an error of one line with the file and line that
raised it.

Differs    from ConfigTron, which has one learner. MABWiser and Vowpal Wabbit are asked in the same way by wrapping.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from configtron.learner.columns import Codes, Contexts, Decisions, Floats
from configtron.learner.serving_table import Served
from configtron.learner.table_policy import TablePolicy
from configtron.model.errors import BadInput, ConfigtronError

if TYPE_CHECKING:
    from configtron.learner.setting import Setting

# Separates a module from its class, as in an entry point.
MARK = ":"
# How far a row's weights may be from one in all: rounding of some hundred choices.
ROUNDING = 1e-6
# Methods that a policy's class may have of its own, and their callers.
METHODS = (
    "where", "decide", "chances", "commit", "screen_many", "choose_many", "observe_many", "due", "update", "save",
    "restore",
)  # fmt: skip


def is_imported(name: str) -> bool:
    """Return whether a policy's name is that of a class to import."""
    return MARK in name


def imported(name: str) -> type[TablePolicy]:
    """Return the class. Errors: `BadInput` for a module or a class that is not there, or a class that is no policy."""
    module, _, attribute = name.partition(MARK)
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise BadInput(f"policy {name!r}: write package.module:Class")
    with blamed(name):
        try:
            found = getattr(import_module(module), attribute, None)
        except ModuleNotFoundError as error:
            searched = "the current folder and installed packages are searched"
            raise BadInput(f"policy {name!r}: {error}; {searched}") from error
    if not (isinstance(found, type) and issubclass(found, TablePolicy)):
        what = f"no {attribute} in {module}" if found is None else f"{attribute} is no configtron.learner.TablePolicy"
        raise BadInput(f"policy {name!r}: {what}")
    return found


def make_imported(name: str, setting: Setting) -> TablePolicy:
    """Return the policy, made for a world; its table is checked now and after each update. Errors: `BadInput`."""
    kind = imported(name)
    with blamed(name):
        made = kind.make(setting)
        made.name = made.name or name
        check_table(name, made)
    return _checked(name, made)


def _checked(name: str, made: TablePolicy) -> TablePolicy:
    """Return the policy, whose methods report errors in its name, and whose answers are checked."""
    for method in METHODS:
        setattr(made, method, _blamed_method(name, getattr(made, method)))
    where, decide, update = made.where, made.decide, made.update

    def checked_where(contexts: Contexts) -> tuple[Codes, Codes]:
        found = where(contexts)
        _check_rows(f"policy {name!r}: where() {_place(made, 'where')}", found, len(contexts), made)
        return found

    def checked_decide(contexts: Contexts, chance: Floats) -> Decisions:
        found = decide(contexts, chance)
        if not isinstance(found, Decisions) or len(found) != len(contexts):
            wanted = f"return Decisions of all {len(contexts)} contexts"
            raise BadInput(f"policy {name!r}: decide() {_place(made, 'decide')} returns {_kind(found)}; {wanted}")
        return found

    def checked_update() -> None:
        update()
        check_table(name, made)

    made.where, made.decide, made.update = checked_where, checked_decide, checked_update  # type: ignore[method-assign]
    return made


def _blamed_method(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method, whose exceptions are one line."""

    def call(*given: Any, **named: Any) -> Any:
        with blamed(name):
            return method(*given, **named)

    return call


def _check_rows(what: str, found: object, n: int, made: TablePolicy) -> None:
    """Errors: `BadInput` for an answer of `where` that is no (row, network class) for each of n contexts."""
    wanted = f"return (row, network class), an array of {n} integers each, -1 where unknown"
    if not isinstance(found, tuple) or len(found) != 2:
        raise BadInput(f"{what} returns {_kind(found)}; {wanted}")
    for one, most in zip(found, (len(made.served_.weight), len(made.class_ids_)), strict=True):
        whole = isinstance(one, np.ndarray) and one.shape == (n,) and np.issubdtype(one.dtype, np.integer)
        if not whole:
            raise BadInput(f"{what} returns {_kind(one)} in it; {wanted}")
        if n and not (one.min() >= -1 and one.max() < most):
            raise BadInput(f"{what} returns {one.min()} to {one.max()} where there are 0 to {most - 1}; {wanted}")


def _kind(found: object) -> str:
    return f"an array of {found.dtype} {found.shape}" if isinstance(found, np.ndarray) else type(found).__name__


def _place(made: TablePolicy, method: str) -> str:
    """Return where the method of a policy's class stands, as file and line."""
    code = getattr(getattr(type(made), method), "__code__", None)
    return f"({code.co_filename}, line {code.co_firstlineno})" if code is not None else ""


def check_table(name: str, policy: TablePolicy) -> None:
    """Errors: `BadInput` for a policy whose table cannot be served."""
    served: object = policy.served_
    if not isinstance(served, Served):
        raise BadInput(f"policy {name!r}: served_ is {type(served).__name__}; set it to a Served in __init__ and learn")
    choices, shape = (served.configuration, served.arm, served.weight, served.expected_ms), served.weight.shape
    if len(shape) != 2 or any(np.shape(one) != shape for one in choices) or np.shape(served.explore) != shape[:1]:
        raise BadInput(f"policy {name!r}: a table's columns have shapes {[np.shape(one) for one in choices]}")
    wrong = (served.weight < 0).any() or (np.abs(served.weight.sum(axis=1) - 1.0) > ROUNDING).any()
    if wrong or not ((served.explore >= 0) & (served.explore <= 1)).all():
        raise BadInput(f"policy {name!r}: weights of a row are shares that sum to 1, explore is a share")
    every = np.concatenate((served.configuration.ravel(), served.pool, [served.default]))
    if (every < 0).any() or (every >= len(policy.grid)).any() or (served.explore.any() and not len(served.pool)):
        raise BadInput(f"policy {name!r}: its table has a configuration that the grid of {len(policy.grid)} lacks")


@contextmanager
def blamed(name: str) -> Iterator[None]:
    """Turn an exception of an imported policy into one line: the error, and the file and line that raised it."""
    try:
        yield
    except ConfigtronError:
        raise
    # Foreign code may raise anything, and ask the process to end; KeyboardInterrupt passes.
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = name.partition(MARK)[0].rpartition(".")[2]
        mine = (frame for frame in reversed(frames) if f"/{frame.filename}".endswith(f"/{own}.py"))
        last = next(mine, frames[-1])
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BadInput(f"policy {name!r}: {what} ({last.filename}, line {last.lineno})") from error
