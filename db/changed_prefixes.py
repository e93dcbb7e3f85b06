# SPDX-License-Identifier: MIT
"""Which prefixes were given another profile since all that is wanted was put in force.

Question   One prefix among a hundred thousand is changed. How does an apply find it without reading them all?
Method     An apply that leaves in force exactly what is wanted keeps a *base*: its act, the driver's stamp of the
           kernel's state (`Stamper`), how many prefixes each profile in use has. Every write to wanted prefixes then
           notes, in the same transaction, the profile that each had in that base; any other write to what is wanted
           drops the base.
Reads as   `applied()`: the act, the stamp, and the prefixes with their earlier profiles.
Fails as   None: no base, too many changes, or a number of prefixes that the notes do not explain. Then all is read.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from configtron.db.deployments import DeploymentRows
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_of
from configtron.model.tuning import Rules

# Enough that no two states are taken for one.
TOKEN_BYTES = 8
# Above it reading everything costs no more than asking for each.
MOST = 1000


class AppliedState(NamedTuple):
    """The state in which all that was wanted was in force.

    act       its number
    stamp     the driver's, of the kernel's state
    profiles  name of each profile that some client had -> how many prefixes had it
    prefixes  how many there were
    was       prefix -> its profile then, of those written since; None: it had none
    """

    act: int
    stamp: str
    profiles: Mapping[str, int]
    prefixes: int
    was: Mapping[str, str | None]

    def with_profiles(self, now: Mapping[str, str]) -> dict[str, int]:
        """Return how many prefixes each profile has since, where `now` is what the written prefixes have."""
        counts = Counter(self.profiles)
        counts.subtract(name for name in self.was.values() if name is not None)
        counts.update(now.values())
        return dict(counts)


class ChangedPrefixes(DeploymentRows):
    """The database as the difference between what is wanted and what was put in force."""

    def expect_applied(self) -> str:
        """Return a word for the state of what is wanted, before it is read: every later write voids it."""
        with self._clear():
            expected = AppliedState(0, os.urandom(TOKEN_BYTES).hex(), {}, 0, {})
            self._put_applied(expected)
            return _text(expected)

    def set_applied(self, base: AppliedState, expected: str) -> None:
        """Keep that all that was wanted is in force, unless something was written to it since that word was given."""
        with self._clear():
            query = "UPDATE tuning SET value = ? WHERE name = 'base' AND value = ?"
            self._connection.execute(query, (_text(base), expected))

    def applied(self) -> tuple[AppliedState, str] | None:
        """Return the last such state, if the notes since then explain their number; and the word for what is wanted."""
        with self._clear():
            found = self._applied()
            if found is None or not found.act:
                return None
            now = self.wanted_profile_of(found.was)
            came = len(now) - sum(was is not None for was in found.was.values())
            return (found, _text(found)) if self.prefix_count() == found.prefixes + came else None

    def wanted_profile_of(self, prefixes: Iterable[str]) -> dict[str, str]:
        """Return the profiles of those of these prefixes that are wanted."""
        query = "SELECT prefix, profile FROM prefix WHERE prefix = ?"
        with self._clear():
            rows = (self._connection.execute(query, (prefix,)).fetchone() for prefix in prefixes)
            return dict(row for row in rows if row)

    def wanted_profiles(self) -> Rules:
        """Return what is wanted without its prefixes."""
        rows = self._read("SELECT name, settings FROM profile ORDER BY name")
        profiles = {name: Profile(name, pairs_of(json.loads(settings))) for name, settings in rows}
        return Rules(profiles, {}, self._fact("default"))

    def steps(self, act: int) -> int:
        """Return how many changes an act's rules have over those that are written whole."""
        with self._clear():
            return len(self._changes(act))

    def prefix_count(self) -> int:
        """Return how many prefixes are wanted."""
        return int(self._row("SELECT count(*) FROM prefix")[0])

    def _note_changed(self, prefixes: Collection[str]) -> None:
        """Note the profiles of prefixes before they are written; a part of the writer's transaction."""
        base = self._applied()
        if base is None:
            return
        if len(base.was) + len(prefixes) > MOST:
            self._forget_applied()
            return
        before = self.wanted_profile_of(prefixes)
        was = {prefix: before.get(prefix) for prefix in prefixes if prefix not in base.was}
        self._put_applied(base._replace(was={**base.was, **was}))

    def _applied(self) -> AppliedState | None:
        text = self._fact("base")
        if not text:
            return None
        act, stamp, profiles, prefixes, was = json.loads(text)
        return AppliedState(act, stamp, profiles, prefixes, was)

    def _put_applied(self, base: AppliedState) -> None:
        self._connection.execute("INSERT OR REPLACE INTO tuning VALUES ('base', ?)", (_text(base),))

    def _forget_applied(self) -> None:
        """Drop the base: another write than of prefixes; a part of the writer's transaction."""
        self._connection.execute("DELETE FROM tuning WHERE name = 'base'")

    def _fact(self, name: str) -> str:
        row = self._row("SELECT value FROM tuning WHERE name = ?", name)
        return row[0] if row else ""


def _text(base: AppliedState) -> str:
    act, stamp, profiles, prefixes, was = base
    return canonical([act, stamp, dict(profiles), prefixes, dict(was)])
