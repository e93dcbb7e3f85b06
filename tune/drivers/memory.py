# SPDX-License-Identifier: MIT
"""A stack that is a dictionary: every contract of a driver, no kernel. It stands in tests beside the real ones."""

from __future__ import annotations

import json
from collections.abc import Mapping

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS, PER_CONNECTION, TUNABLE
from configtron.model.tuning import Changes, Place, Reach, Rules
from configtron.tune.rules import after, check


class MemoryDriver:
    """Keep rules in memory for the life of the process."""

    name = "memory"
    reachable: Mapping[str, Reach] = {
        name: Reach(name, values=knob.values)
        for name, knob in {knob.name: knob for knob in (*TUNABLE, *PER_CONNECTION)}.items()
    }
    unreachable: Mapping[str, str] = {}

    def __init__(self, place: Place) -> None:
        self.place = place
        self._rules = Rules()
        self._changes = 0

    def missing(self) -> str:
        return ""

    def settable(self) -> Mapping[str, Reach]:
        return self.reachable

    def before(self) -> str:
        return json.dumps({})

    def apply(self, changes: Changes) -> Rules:
        for profile in changes.profiles.values():
            for knob, value in profile.settings:
                if knob not in KNOBS:
                    raise BadInput(f"profile {profile.name}: no knob is called {knob!r}; see: configtron tune doctor")
                reach = self.settable().get(knob)
                if reach is None or not reach.takes(value):
                    raise BadInput(f"profile {profile.name}: {knob}={value!r} is out of reach of driver {self.name}")
        self._rules = check(after(self._rules, changes))
        self._changes += 1
        return Rules(
            {name: self._rules.profiles[name] for name in changes.profiles},
            {prefix: self._rules.prefixes[prefix] for prefix in changes.prefixes},
            self._rules.default,
        )

    def read(self) -> Rules:
        return self._rules

    def mark(self) -> str:
        return str(self._changes)

    def stamp(self) -> str:
        """Return the mark: it is a few calls."""
        return self.mark()

    def revert(self, before: str) -> None:
        json.loads(before)
        self._rules = Rules()
        self._changes += 1
