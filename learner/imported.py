# SPDX-License-Identifier: MIT
"""A policy of your own by the name of its class, "package.module:Class".

The class is a `TablePolicy`. A `ClassPolicy` gets network classes as well; a class with a class method `make(setting)`
gets everything (`learner.Setting`). Its table is checked after each update: a table that no agent could serve, or an
exception in its code, is an error of one line with the file and line that raised it.

Differs    from ConfigTron, which has one learner. MABWiser and Vowpal Wabbit are asked in the same way by wrapping.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from configtron.learner.classpolicy import ClassPolicy
from configtron.learner.policy import TablePolicy
from configtron.learner.served import Served
from configtron.model.errors import BadInput, ConfigtronError

if TYPE_CHECKING:
    from configtron.learner import Setting

# Separates a module from its class, as in an entry point.
MARK = ":"
# How far a row's weights may be from one in all: rounding of some hundred choices.
ROUNDING = 1e-6


def is_imported(name: str) -> bool:
    """Whether a policy's name is that of a class to import."""
    return MARK in name


def imported(name: str) -> type[TablePolicy]:
    """The class. Errors: `BadInput` for a module or a class that is not there, or a class that is no policy."""
    module, _, attribute = name.partition(MARK)
    if not all(part.isidentifier() for part in (*module.split("."), attribute)):
        raise BadInput(f"policy {name!r}: write package.module:Class")
    try:
        with blamed(name):
            found = getattr(import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        raise BadInput(f"policy {name!r}: {error}; the current folder and installed packages are searched") from error
    if not (isinstance(found, type) and issubclass(found, TablePolicy)):
        what = f"no {attribute} in {module}" if found is None else f"{attribute} is no configtron.learner.TablePolicy"
        raise BadInput(f"policy {name!r}: {what}")
    return found


def make_imported(name: str, setting: Setting) -> TablePolicy:
    """The policy, made for a world; its table is checked now and after each update. Errors: `BadInput`."""
    kind = imported(name)
    if not hasattr(kind, "name"):
        kind.name = name
    more: dict[str, Any] = {"update_every": setting.update_every}
    with blamed(name):
        if (own := getattr(kind, "make", None)) is not None:
            made = own(setting)
        elif issubclass(kind, ClassPolicy):
            made = kind(setting.grid, setting.sites, setting.rng, setting.classes, **more)
        else:
            made = kind(setting.grid, setting.sites, setting.rng, **more)
        check_table(name, made)
    return _checked(name, made)


def _checked(name: str, made: TablePolicy) -> TablePolicy:
    """The policy, whose `where` and `update` report errors in its name."""
    where, update = made.where, made.update

    def checked_where(contexts: Any) -> Any:
        with blamed(name):
            return where(contexts)

    def checked_update() -> None:
        with blamed(name):
            update()
            check_table(name, made)

    made.where, made.update = checked_where, checked_update  # type: ignore[method-assign]
    return made


def check_table(name: str, policy: TablePolicy) -> None:
    """Errors: `BadInput` for a policy whose table cannot be served."""
    served = getattr(policy, "served_", None)
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
    """Turn an exception of an imported policy into one line: what, and the file and line that raised it."""
    try:
        yield
    except (ConfigtronError, ModuleNotFoundError):
        raise
    # Somebody else's code may raise anything; KeyboardInterrupt and SystemExit pass.
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise BadInput(f"policy {name!r}: {what} ({last.filename}, line {last.lineno})") from error
