# SPDX-License-Identifier: MIT
"""POLICIES: every policy by its name, found by listing FOLDERS."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

from configtron.learner.imported import imported, is_imported, make_imported
from configtron.learner.setting import CLASSES, WARM, Setting
from configtron.learner.table_policy import PolicyRow, TablePolicy
from configtron.model.errors import BadInput

# The product's own choice: the one policy that keeps a budget. LinUCB is its equal in the end, and in its first
# thousand sessions as far from the best as Default.
PREFERRED = "thompson"
# The product's policies, and those of the papers and of the literature: a host of a fleet has no studies.
FOLDERS = ("configtron.learner.policies", "configtron.studies.policies")


def _found() -> dict[str, PolicyRow]:
    """Return the rows of every file of the folders, in the order of their places."""
    folders = [import_module(name) for name in FOLDERS if find_spec(name) is not None]
    files = [import_module(f"{of.__name__}.{module.name}") for of in folders for module in iter_modules(of.__path__)]
    rows: list[PolicyRow] = [row for file in files for row in file.ROWS]
    return {row.name: row for row in sorted(rows, key=lambda row: (row.place, row.name))}


POLICIES = _found()


def row_of(name: str) -> PolicyRow:
    """Return a policy of POLICIES, or the class that "package.module:Class" names. Errors: `BadInput`."""
    if is_imported(name):
        imported(name)
        return PolicyRow(
            name, lambda setting: make_imported(name, setting), "a policy of your own", takes=WARM + CLASSES
        )
    if name not in POLICIES:
        raise BadInput(f"no policy is called {name!r}; there is: {', '.join(POLICIES)}, or package.module:Class")
    return POLICIES[name]


def untaken(names: Iterable[str], what: str) -> str:
    """Return why `what`, as in `PolicyRow.takes`, makes no difference to any of these policies; "" where it does."""
    names = tuple(names)
    if any(what in row_of(name).takes for name in names):
        return ""
    takers = [row.name for row in POLICIES.values() if what in row.takes]
    return f"--{what} makes no difference to {', '.join(names)}; it does to: {', '.join(takers)}"


def policy(name: str, setting: Setting) -> TablePolicy:
    """Return a policy by name. Errors: `BadInput` for a name that is none."""
    warm = None if setting.warm is None else setting.warm.rated()
    row = row_of(name)
    made = row.make(replace(setting, warm=warm))
    if name in POLICIES:
        made.name = name
    if setting.damage is not None and not row.oracle:
        made.keep_within(setting.damage)
    return made
