# SPDX-License-Identifier: MIT
"""Read rules back from the kernel, and write rules and check that they read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from configtron.model.errors import Mismatch
from configtron.model.protocols import Driver
from configtron.model.tuning import Rules
from configtron.tune.plan import advise, changes, recognised
from configtron.tune.rules import difference


def in_force(driver: Driver, known: Iterable[Rules]) -> Rules:
    """Return our rules as the driver reads them, with the profile names of `known` restored."""
    return recognised(driver.read(), known)


def write(driver: Driver, have: Rules, target: Rules, *, named: bool = False) -> None:
    """Change the rules in force to the target and compare the rules read back with it.

    named   the driver has the profiles of all changed prefixes in force by their names: none is written again

    A driver reads back the changed rules; after a removal it reads all rules. Errors: the driver's; `Mismatch`.
    """
    todo = difference(have, target) if named else changes(have, target)
    back = driver.apply(todo)
    if todo.dropped_profiles or todo.dropped_prefixes:
        found = in_force(driver, [target])
    else:
        unchanged = {name: target.profiles[name] for name in target.profiles.keys() - todo.profiles.keys()}
        back = recognised(back, [target])
        found = replace(back, profiles={**back.profiles, **unchanged})
        target = replace(target, prefixes=todo.prefixes)
    if wrong := advise(driver.name, target, found):
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise Mismatch(f"driver {driver.name}: does not read back as written: {wrong[0].text}{more}")
