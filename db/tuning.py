# SPDX-License-Identifier: MIT
"""What tuning keeps, as SQL: wanted rules, muted advice, the journal of acts, frozen scopes.

One call is one transaction. The journal's promise is that an act's row is on the way to the disk before its first write
to the host: after `kill -9` at any moment the database says at least as much as was done. A power cut may lose the last
rows, and with them all that they describe: nothing that a driver sets outlives the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from configtron.db.act_rules import LONG_BYTES, NO_RULES
from configtron.db.changed_prefixes import ChangedPrefixes
from configtron.db.many_rows import Insertion, insert_values
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form
from configtron.model.tuning import MANY, Changes, Place, Rules, prefix_counts
from configtron.model.tuning_json import changes_of, place_of, place_text, rules_of, rules_text
from configtron.tune.journal import IN_FORCE, OPEN, Transaction
from configtron.tune.rules import after, inside

# Enough that an observer of the prefixes that are held back cannot compute which others would be.
SALT_BYTES = 8
# Letters of a profile's name.
LONGEST_NAME = 31

ACT_COLUMNS = (
    "id", "driver", "place", "space", "boot", "begun_at", "status", "before", "rules", "lease_s", "expires_s", "over",
    "held", "keeper", "why",
)  # fmt: skip
# The field of `Transaction` for a column, where its name is another.
FIELD = {"keeper": "watchdog"}
FIELDS = tuple(FIELD.get(name, name) for name in ACT_COLUMNS)
SELECT_ACT = f"SELECT {', '.join(ACT_COLUMNS)} FROM act"
BEGIN_ACT = f"INSERT INTO act ({', '.join(ACT_COLUMNS)}) VALUES (?{', ?' * (len(ACT_COLUMNS) - 1)})"
AT_RULES = ACT_COLUMNS.index("rules")
# The same with the rules of another act.
BEGIN_OVER = (
    f"INSERT INTO act ({', '.join(ACT_COLUMNS)}) SELECT"
    f" {', '.join('rules' if name == 'rules' else '?' for name in ACT_COLUMNS)} FROM act WHERE id = ?"
)
# What changes in the life of an act.
CHANGING = ("status", "lease_s", "expires_s", "over", "keeper", "why")
PUT_ACT = f"UPDATE act SET {', '.join(f'{name} = :{name}' for name in CHANGING)} WHERE id = :id"
SELECT_BARE = SELECT_ACT.replace(" rules,", f" '{NO_RULES}',")
EMPTY_ACT = "UPDATE act SET rules = ?, before = '' WHERE id = ?"
STANDING = f" WHERE driver = ? AND place = ? AND space = ? AND status IN {OPEN} ORDER BY id DESC LIMIT 1"


OR_CHANGE = "ON CONFLICT (prefix) DO UPDATE SET profile = excluded.profile"
PREFIXES = Insertion("prefix", ("prefix", "profile"), OR_CHANGE)
# From a JSON object. Without the condition SQLite reads ON as one of the table before it.
PUT_MANY = f"INSERT INTO prefix SELECT key, value FROM json_each(?) WHERE true {OR_CHANGE}"


class Frozen(NamedTuple):
    """A scope that another program changed."""

    driver: str
    place: str
    space: str
    scope: str
    was: str
    found: str
    frozen_at: str


class Left(NamedTuple):
    """What an export left alone: prefixes that a human set, and those inside a wider one that a human set."""

    set: tuple[str, ...]
    inside: tuple[str, ...]


NOTHING: Mapping[str, float] = MappingProxyType({})


class Tuning(ChangedPrefixes):
    """The database as tuning sees it."""

    # What is wanted.

    def wanted(self) -> Rules:
        """Profiles, prefixes and default as they were asked for."""
        with self._clear():
            return replace(self.wanted_profiles(), prefixes=self._wanted_prefixes())

    def _wanted_prefixes(self) -> Mapping[str, str]:
        """Return the wanted prefixes; many of them as two lists of words."""
        if self.prefix_count() >= MANY:
            from configtron.model.prefix_columns import columns_of_lists

            lists = ", ".join(f"CAST(group_concat({name}, ' ') AS BLOB)" for name in ("prefix", "profile"))
            columns = columns_of_lists(*self._connection.execute(f"SELECT {lists}, count(*) FROM prefix").fetchone())
            if columns is not None:
                return columns
        return dict(self._connection.execute("SELECT prefix, profile FROM prefix"))

    def set_profiles(self, profiles: Iterable[Profile]) -> None:
        """Keep profiles as a human's; one of the same name is replaced."""
        profiles = list(profiles)
        with self._clear(), self._transaction():
            self._forget_applied()
            self._put_profiles(profiles)
            self._disown("profile", [profile.name for profile in profiles])

    def _put_profiles(self, profiles: Iterable[Profile]) -> None:
        rows = [(profile.name, canonical(pairs_form(profile.settings))) for profile in profiles]
        self._connection.executemany(
            "INSERT INTO profile VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET settings = excluded.settings", rows
        )
        self._connection.execute("INSERT OR IGNORE INTO tuning VALUES ('salt', ?)", (os.urandom(SALT_BYTES).hex(),))

    # Who set it.

    def learned(self, kind: str) -> frozenset[str]:
        """Names of kind "profile" or "prefix" that the learner's export set; all others are a human's."""
        with self._clear():
            rows = self._connection.execute("SELECT name FROM learned WHERE kind = ?", (kind,))
            return frozenset(name for (name,) in rows)

    def _disown(self, kind: str, names: Iterable[str]) -> None:
        if not self._connection.execute("SELECT EXISTS (SELECT 1 FROM learned WHERE kind = ?)", (kind,)).fetchone()[0]:
            return
        rows = ((kind, name) for name in names)
        self._connection.executemany("DELETE FROM learned WHERE (kind, name) = (?, ?)", rows)

    def measured_damage(self) -> dict[str, float]:
        """Return what neighbours lose by profiles, as measured near the classes that the export gave them to. A profile
        that a human changed, gave to a prefix or made the default is not among them: that is another use."""
        humans = "SELECT profile FROM prefix WHERE prefix NOT IN (SELECT name FROM learned WHERE kind = 'prefix')"
        own = "SELECT name FROM learned WHERE kind = 'profile'"
        query = (
            f"SELECT profile, bytes FROM learned_damage WHERE profile IN ({own}) AND profile NOT IN ({humans})"
            " AND profile <> ?"
        )
        with self._clear():
            # the query reads all prefixes
            if not self._connection.execute("SELECT EXISTS (SELECT 1 FROM learned_damage)").fetchone()[0]:
                return {}
            return dict(self._connection.execute(query, (self._fact("default") or "",)))

    def hand_over(
        self, profiles: Iterable[Profile], prefixes: Mapping[str, str], damage: Mapping[str, float] = NOTHING
    ) -> Left:
        """Make these the learner's rules, in place of its earlier ones. What a human set stays as it is, and inside a
        prefix that a human set there is no learned one. damage: of a profile, where it was measured. Returns the
        prefixes that were left."""
        with self._clear(), self._transaction():
            self._forget_applied()
            before, mine = self.wanted(), self.learned("prefix")
            humans = {prefix for prefix in before.prefixes if prefix not in mine}
            own = {prefix for prefix in prefixes if prefix in humans}
            within = inside(prefixes.keys() - own, humans)
            taken = {prefix: name for prefix, name in prefixes.items() if prefix not in own | within}
            self._connection.executemany("DELETE FROM prefix WHERE prefix = ?", ((prefix,) for prefix in mine))
            named = self._renamed(before, [profile for profile in profiles if profile.name in set(taken.values())])
            self._connection.executemany(
                "INSERT INTO prefix VALUES (?, ?)", ((prefix, named[name]) for prefix, name in taken.items())
            )
            self._connection.execute("DELETE FROM learned_damage")
            measured = ((named[name], lost) for name, lost in damage.items() if name in named)
            self._connection.executemany("INSERT INTO learned_damage VALUES (?, ?)", measured)
            self._connection.execute("DELETE FROM learned WHERE kind = 'prefix'")
            self._connection.executemany("INSERT INTO learned VALUES ('prefix', ?)", ((prefix,) for prefix in taken))
            self._forget_unused()
        return Left(tuple(sorted(own)), tuple(sorted(within)))

    def _renamed(self, before: Rules, profiles: Iterable[Profile]) -> dict[str, str]:
        """Keep the learner's profiles; each one's name, another where a human's profile of that name differs."""
        mine, names = self.learned("profile"), {}
        for profile in profiles:
            name, at = profile.name, 1
            while name in before.profiles and name not in mine and before.profiles[name].settings != profile.settings:
                at += 1
                name = f"{profile.name[: LONGEST_NAME - 3]}-{at}"
            names[profile.name] = name
            if name in mine or name not in before.profiles:
                self._put_profiles([Profile(name, profile.settings)])
                self._connection.execute("INSERT OR IGNORE INTO learned VALUES ('profile', ?)", (name,))
        return names

    def _forget_unused(self) -> None:
        """Drop the learner's profiles that no prefix and no default has any more."""
        unused = "kind = 'profile' AND name NOT IN (SELECT profile FROM prefix) AND name <> ?"
        rows = self._connection.execute(f"SELECT name FROM learned WHERE {unused}", (self._fact("default"),)).fetchall()
        self._connection.executemany("DELETE FROM profile WHERE name = ?", rows)
        self._disown("profile", [name for (name,) in rows])

    def drop_profile(self, name: str) -> bool:
        """Forget a profile; whether there was one. Errors: `BadInput` while prefixes or the default have it."""
        with self._clear(), self._transaction():
            (used,) = self._connection.execute("SELECT count(*) FROM prefix WHERE profile = ?", (name,)).fetchone()
            if used or self._fact("default") == name:
                whose = f"{used} prefixes have" if used else "the default is"
                raise BadInput(f"profile {name}: {whose} it; give them another first (configtron tune prefix set)")
            self._forget_applied()
            self._disown("profile", [name])
            return self._connection.execute("DELETE FROM profile WHERE name = ?", (name,)).rowcount > 0

    def set_prefixes(self, prefixes: Mapping[str, str], *, whole: bool = False) -> int:
        """Give prefixes their profiles, which must be there, for a human. `whole`: all others go. Returns how many are
        new."""
        with self._clear(), self._names_checked(), self._transaction():
            known = {name for (name,) in self._connection.execute("SELECT name FROM profile")}
            if absent := sorted(prefix_counts(prefixes).keys() - known):
                there = ", ".join(sorted(known)) or "none"
                name = absent[0] if absent[0].isprintable() else "NAME"
                make = f"make it: configtron tune profile set {name} KNOB=VALUE"
                raise BadInput(f"no profile is called {absent[0]!r} (there is: {there}); {make}")
            (before,) = self._connection.execute("SELECT count(*) FROM prefix").fetchone()
            if whole:
                self._forget_applied()
                self._connection.execute("DELETE FROM prefix")
                self._connection.execute("DELETE FROM learned WHERE kind = 'prefix'")
            self._note_changed(prefixes)
            self._disown("prefix", prefixes)
            self._put_prefixes(prefixes)
            (now,) = self._connection.execute("SELECT count(*) FROM prefix").fetchone()
            return int(now - before)

    def _put_prefixes(self, prefixes: Mapping[str, str]) -> None:
        """Write prefixes in the order of the table, whose pages are then written once each."""
        if isinstance(prefixes, dict):
            insert_values(self._connection, PREFIXES, list(chain.from_iterable(sorted(prefixes.items()))))
            return
        # Few prefixes are a dictionary, and need no numpy.
        from configtron.model.prefix_columns import columns_of, json_of

        # As one text they are no objects of Python's, of which a million take as long as the table.
        self._connection.execute(PUT_MANY, (f"{{{json_of(columns_of(prefixes))}}}",))

    def drop_prefixes(self, prefixes: Iterable[str]) -> int:
        """Forget prefixes; how many there were."""
        with self._clear(), self._transaction():
            prefixes = list(prefixes)
            self._note_changed(prefixes)
            self._disown("prefix", prefixes)
            cursor = self._connection.executemany("DELETE FROM prefix WHERE prefix = ?", ((p,) for p in prefixes))
            return cursor.rowcount

    def set_default(self, name: str) -> None:
        """The profile of clients that no prefix holds; "" is the untouched stack. Errors: `BadInput`."""
        with self._clear(), self._transaction():
            if name and not self._connection.execute("SELECT 1 FROM profile WHERE name = ?", (name,)).fetchone():
                raise BadInput(f"no profile is called {name!r}; make it: configtron tune profile set {name} KNOB=VALUE")
            self._forget_applied()
            self._connection.execute("INSERT OR REPLACE INTO tuning VALUES ('default', ?)", (name,))

    def salt(self) -> str:
        """Return the salt that decides which prefixes a share holds; drawn once, with the first profile."""
        return self._fact("salt")

    # Muted advice.

    def acknowledge(self, advices: Mapping[str, str]) -> None:
        """Keep ids of advice that plans are not to show or follow, each with a remark."""
        rows = [(advice, about, self._now()) for advice, about in advices.items()]
        with self._clear(), self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO muted VALUES (?, ?, ?)", rows)

    def unacknowledge(self, advices: Iterable[str]) -> int:
        """Hear of them again; how many were muted."""
        with self._clear(), self._transaction():
            return self._connection.executemany("DELETE FROM muted WHERE advice = ?", ((a,) for a in advices)).rowcount

    def acknowledged(self) -> dict[str, str]:
        """Ids that are muted, and what each is about."""
        return dict(self._read("SELECT advice, about FROM muted ORDER BY muted_at, advice"))

    # The journal.

    def begin(self, act: Transaction) -> Transaction:
        """Write a new act; it as kept, with its number and date."""
        act, text = replace(act, begun_at=self._now()), rules_text(act.rules)
        long = len(text) > LONG_BYTES
        with self._clear(), self._transaction():
            row = _act_row(act, NO_RULES if long else text)
            number = cast(int, self._connection.execute(BEGIN_ACT, (None, *row[1:])).lastrowid)
            if long:
                self._put_full_text(number, text)
        return replace(act, id=number)

    def begin_over(self, act: Transaction, base: int, changes: Changes) -> Transaction:
        """Write a new act whose rules are those of another and these changes; it without rules, with number and date.

        The rules pass through no program: of a hundred thousand prefixes they are megabytes.
        """
        act = replace(act, begun_at=self._now(), rules=Rules())
        with self._clear(), self._transaction():
            row = _act_row(act, NO_RULES)
            cursor = self._connection.execute(BEGIN_OVER, (None, *row[1:AT_RULES], *row[AT_RULES + 1 :], base))
            act = replace(act, id=cast(int, cursor.lastrowid))
            self._share_full_text(act.id, base, changes)
            self._begin_over(act.id, base)
        return act

    def put(self, *acts: Transaction) -> None:
        """Write the new status of transactions, all or none; the rules of one that is over are dropped."""
        with self._clear(), self._transaction():
            for act in acts:
                values = {name: getattr(act, FIELD.get(name, name)) for name in (*CHANGING, "id")}
                self._connection.execute(PUT_ACT, values)
                self._deploy(act)
                if not act.before:
                    self._connection.execute(EMPTY_ACT, (NO_RULES, act.id))
                    self._forget_rules(act.id)

    def note_sockets(self, newest: Sequence[int]) -> None:
        """Note the newest sockets at a time when all that is to be in force is."""
        with self._clear(), self._transaction():
            text = " ".join(map(str, newest))
            self._connection.execute("INSERT OR REPLACE INTO tuning VALUES ('sockets', ?)", (text,))

    def newest_sockets(self) -> list[int]:
        """Return the newest sockets as noted last."""
        return [int(number) for number in self._fact("sockets").split()]

    def acts(self, *statuses: str, bare: bool = False) -> list[Transaction]:
        """Acts, oldest first; only those of these statuses, if any is named. `bare`: without their rules."""
        where = f" WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
        query = f"{SELECT_BARE if bare else SELECT_ACT}{where} ORDER BY id"
        return [each if bare else self._changed(each) for each in map(_act_of, self._read(query, *statuses))]

    def act(self, number: int, *, bare: bool = False) -> Transaction | None:
        """Return the act of that number; `bare`: without its rules."""
        query = f"{SELECT_BARE if bare else SELECT_ACT} WHERE id = ?"
        with self._clear():
            row = self._connection.execute(query, (number,)).fetchone()
            return None if row is None else _act_of(row) if bare else self._changed(_act_of(row))

    def open_act(self, driver: str, place: Place, space: str, *, bare: bool = False) -> Transaction | None:
        """Return the open act of a driver at a place; `bare`: without its rules."""
        with self._clear():
            query = f"{SELECT_BARE if bare else SELECT_ACT}{STANDING}"
            row = self._connection.execute(query, (driver, place_text(place), space)).fetchone()
            if row is None:
                return None
            return _act_of(row) if bare else self._changed(_act_of(row))

    def _changed(self, act: Transaction) -> Transaction:
        if not act.before:
            return act  # it is over; what stands beside it is another's now
        rules = begun = rules_of(self._rules_text(act.id))
        for text in self._changes(act.id):
            rules = after(rules, changes_of(text))
        return act if rules is begun is act.rules else replace(act, rules=rules)

    def fleet_act(self) -> int:
        """Return the number of the fleet's latest transaction; 0: there was none."""
        return int(self._fact("fleet-act") or 0)

    def in_force(self) -> dict[int, str]:
        """Status of every act whose rules are in force, by number; cheap enough for 4 Hz."""
        return dict(self._read(f"SELECT id, status FROM act WHERE status IN {IN_FORCE} ORDER BY id"))

    def state(self, number: int) -> tuple[str, float]:
        """Status and end of the lease of an act (seconds since boot); cheap enough for 4 Hz."""
        row = self._row("SELECT status, expires_s FROM act WHERE id = ?", number)
        return row if row else ("undone", 0.0)

    def set_watchdog(self, number: int, process: str) -> None:
        """Keep which process undoes that act when its lease ends."""
        self._write("UPDATE act SET keeper = ? WHERE id = ?", process, number)

    def note(self, number: int, why: str) -> None:
        """Keep what is in the way of an act's end."""
        self._write("UPDATE act SET why = ? WHERE id = ?", why, number)

    def renew(self, number: int, expires_s: float, lease_s: float | None = None) -> bool:
        """Put off the end of a lease, which is from now on `lease_s` long; False if the act is no longer leased."""
        query = "UPDATE act SET expires_s = ?, lease_s = coalesce(?, lease_s) WHERE id = ? AND status = 'leased'"
        return self._write(query, expires_s, lease_s, number).rowcount == 1

    # Frozen scopes.

    def freeze(self, act: Transaction, scopes: Mapping[str, tuple[str, str]]) -> None:
        """Hands off these scopes of an act: each with what we had set and what was found."""
        whose = (act.driver, place_text(act.place), act.space)
        rows = [(act.id, *whose, scope, *pair, self._now()) for scope, pair in scopes.items()]
        names = "act, driver, place, space, scope, was, found, frozen_at"
        query = f"INSERT INTO frozen ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        with self._clear(), self._transaction():
            self._connection.executemany(query, rows)

    def frozen(self) -> list[Frozen]:
        """Return the frozen settings, oldest first."""
        query = f"SELECT {', '.join(Frozen._fields)} FROM frozen WHERE resumed_at IS NULL ORDER BY id"
        return [Frozen(*row) for row in self._read(query)]

    def known(self, number: int) -> set[tuple[str, str]]:
        """Return what was found of a transaction's scopes by now, unfrozen or not: each is reported once."""
        return set(self._read("SELECT scope, found FROM frozen WHERE act = ?", number))

    def unfreeze(self, scopes: Collection[str] | None) -> int:
        """Touch these scopes again (None: all); how many were frozen."""
        query = "UPDATE frozen SET resumed_at = ? WHERE resumed_at IS NULL"
        with self._clear(), self._transaction():
            if scopes is None:
                return self._connection.execute(query, (self._now(),)).rowcount
            rows = [(self._now(), scope) for scope in scopes]
            return self._connection.executemany(f"{query} AND scope = ?", rows).rowcount


def _act_row(act: Transaction, rules: str) -> tuple[str | int | float, ...]:
    return (
        act.id, act.driver, place_text(act.place), act.space, act.boot, act.begun_at, act.status, act.before,
        rules, act.lease_s, act.expires_s, act.over, act.held, act.watchdog, act.why,
    )  # fmt: skip


def _act_of(row: Sequence[Any]) -> Transaction:
    found = dict(zip(FIELDS, row, strict=True))
    return Transaction(**{**found, "place": place_of(found["place"]), "rules": rules_of(found["rules"])})
