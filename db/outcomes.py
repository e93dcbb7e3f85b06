# SPDX-License-Identifier: MIT
"""Outcomes and decisions as SQL: columns in, columns out, half a million a second and in flat memory.

One call is one transaction, and what a policy decided, what it knows and how far it has read are one call: after
`kill -9` at any moment they fit one another, and a policy goes on as if nothing had happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, cast

import numpy as np

from configtron.db.connection import Database
from configtron.learner.columns import ARM, ARMS, Codes, Contexts, Decisions, Floats, with_further
from configtron.learner.logged import Logged
from configtron.model.errors import BadInput
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form, pairs_of

# What `plt_ms` is of where a log does not name it: a whole page, as its visitor's browser saw it.
PAGE_LOAD = "plt"
METRIC_OF = f"coalesce(json_extract(about, '$.metric'), '{PAGE_LOAD}')"
# Outcomes a call of `batches` hands out: some ten megabytes of Python objects meanwhile.
BATCH = 20_000

OUTCOME_COLUMNS = (
    "log", "measured_at", "plt_ms", "bandwidth_kbps", "rtt_ms", "loss", "site", "prefix", "device", "class",
    "configuration", "arm", "propensity", "expected_ms", "more",
)  # fmt: skip
INSERT = f"INSERT INTO outcome ({', '.join(OUTCOME_COLUMNS)}) VALUES (?{', ?' * (len(OUTCOME_COLUMNS) - 1)})"
SELECT = f"SELECT id, {', '.join(OUTCOME_COLUMNS[1:])} FROM outcome WHERE id > ?"
INSERT_DECISION = "INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?, ?)"
LEARNER = "id", "name", "policy", "log", "recipe", "warm", "begun_at", "saved_at", "position", "outcomes", "state"
INSERT_LEARNER = f"INSERT INTO learner ({', '.join(LEARNER[1:])}) VALUES (?{', ?' * 9}) ON CONFLICT (name) DO NOTHING"


class LogRow(NamedTuple):
    """Where outcomes came from; `about` is JSON."""

    id: int
    begun_at: str
    source: str
    about: str
    outcomes: int


class Learner(NamedTuple):
    """A policy as kept: its recipe, its tensor's file, how far it has read (number, how many), what it knows."""

    id: int
    name: str
    policy: str
    log: int
    recipe: str
    warm: bytes | None
    begun_at: str
    saved_at: str
    position: int
    outcomes: int
    state: str


class GainTest(NamedTuple):
    """A log as it was tested for gains; log 0: all; question and verdict: JSON text; position: the latest outcome."""

    log: int
    question: str
    position: int
    outcomes: int
    error: float
    verdict: str


class Outcomes(Database):
    """The database as the learner sees it."""

    # Logs of outcomes.

    def begin_log(self, source: str, about: str, first: Logged | None = None) -> int:
        """Keep where outcomes will come from: sim, lab or live, and how they were made (JSON); with the first of them,
        both or neither. Returns its number."""
        with self._clear(), self._transaction():
            row = (self._now(), source, about)
            cursor = self._connection.execute("INSERT INTO log (begun_at, source, about) VALUES (?, ?, ?)", row)
            log = cast(int, cursor.lastrowid)
            if first is not None:
                self._connection.executemany(INSERT, zip(*self._columns(log, first), strict=True))
        return log

    def drop_logs(self, about: str) -> int:
        """Forget logs that were made so, with their outcomes; how many there were."""
        with self._clear(), self._transaction():
            self._connection.execute("DELETE FROM outcome WHERE log IN (SELECT id FROM log WHERE about = ?)", (about,))
            return self._connection.execute("DELETE FROM log WHERE about = ?", (about,)).rowcount

    def logs(self) -> list[LogRow]:
        """Return every log, oldest first, with how many outcomes it holds."""
        query = (
            "SELECT id, begun_at, source, about, (SELECT count(*) FROM outcome WHERE outcome.log = log.id) FROM log"
            " ORDER BY id"
        )
        return [LogRow(*row) for row in self._read(query)]

    def not_taught(self) -> dict[str, int]:
        """Return how many page loads of the live loop are stored and do not teach, by reason."""
        query = "SELECT why_not, count(*) FROM fleet_outcome WHERE NOT teaches GROUP BY 1 ORDER BY 1"
        return dict(self._read(query))

    def metrics(self) -> dict[str, int]:
        """Return what the logs measured, each with the number of its first log."""
        query = f"SELECT {METRIC_OF}, min(id) FROM log GROUP BY 1 ORDER BY 2"
        return dict(self._read(query))

    def metric_of(self, log: int) -> str:
        """Return what a log measured; below 0: what all logs like log -n measured. "" if there is no such log."""
        row = self._row(f"SELECT {METRIC_OF} FROM log WHERE id = ?", abs(log))
        return row[0] if row else ""

    def _where(self, log: int) -> str:
        """Return the condition for outcomes of a log; of 0, all; of -n, all logs that measured what log n did. Errors:
        `BadInput` for all, where they measured different things: a request is no page."""
        if log > 0:
            return f"log = {log:d}"
        if log < 0:
            return f"log IN (SELECT id FROM log WHERE {METRIC_OF} = (SELECT {METRIC_OF} FROM log WHERE id = {-log:d}))"
        if len(found := self.metrics()) > 1:
            raise BadInput(f"the logs measured different things ({', '.join(found)}); name one of them by --metric,"
                           " or one log by --log; `configtron learn status` lists them")  # fmt: skip
        return "1"

    def add(self, log: int, logged: Logged) -> None:
        """Keep outcomes, all or none."""
        with self._clear(), self._transaction():
            self._connection.executemany(INSERT, zip(*self._columns(log, logged), strict=True))

    def _columns(self, log: int, logged: Logged) -> Iterator[Sequence[Any]]:
        n, seen, made = len(logged), logged.contexts, logged.decisions
        numbers = (logged.measured_at, logged.plt_ms, seen.bandwidth_kbps, seen.rtt_ms, seen.loss)
        yield [log] * n
        yield from (column.tolist() for column in numbers)
        for codes, names in ((seen.site, seen.sites), (seen.prefix, seen.prefixes), (seen.device, seen.devices)):
            yield self._words(names)[codes].tolist() if len(codes) else [0] * n
        yield self._words(logged.class_ids)[made.network].tolist()
        yield self._configurations(logged.profiles)[made.configuration].tolist()
        yield self._words(ARMS)[made.arm].tolist()
        yield made.propensity.tolist()
        yield made.expected_ms.tolist()
        yield [canonical(further) if further else None for further in seen.further()]

    def again(self, log: int) -> tuple[int, int]:
        """Return which earlier log of the same metric has most of a log's dated outcomes, and how many of them."""
        new = "SELECT measured_at, plt_ms, prefix, site FROM new"
        query = (
            "WITH new AS (SELECT * FROM outcome WHERE log = ? AND measured_at > 0) SELECT log, count(*) FROM outcome"
            f" WHERE log < ? AND {self._where(-log)} AND (measured_at, plt_ms, prefix, site) IN ({new})"
            " AND measured_at BETWEEN (SELECT min(measured_at) FROM new) AND (SELECT max(measured_at) FROM new)"
            " GROUP BY log ORDER BY 2 DESC, 1 LIMIT 1"
        )
        return self._row(query, log, log) or (0, 0)

    def count(self, log: int = 0, after: int = 0) -> int:
        """Return outcomes of a log (0: of all, whatever they measured) with numbers above `after`."""
        where = f" AND {self._where(log)}" if log else ""
        row = self._row(f"SELECT count(*) FROM outcome WHERE id > ?{where}", after)
        return int(row[0])

    def batches(self, log: int = 0, after: int = 0, size: int = BATCH) -> Iterator[Logged]:
        """Outcomes of a log (0: of all) with numbers above `after`, in order of arrival, at most `size` at a time."""
        where = f" AND {self._where(log)}"
        while True:
            rows = self._read(f"{SELECT}{where} ORDER BY id LIMIT ?", after, size)
            if not rows:
                return
            yield self._logged(rows)
            after = rows[-1][0]

    def sites(self, log: int = 0, most: int | None = None) -> tuple[str, ...]:
        """Return sites of a log (0: of all), by name; those with the most outcomes, if only so many are wanted."""
        with self._clear():
            query = f"SELECT site FROM outcome WHERE {self._where(log)} GROUP BY site ORDER BY count(*) DESC, site"
            numbers = [number for (number,) in self._connection.execute(query) if number]
            return tuple(sorted(self._coded(numbers[:most])[1]))

    def profiles(self, log: int = 0) -> tuple[Profile, ...]:
        """Return profiles that were decided for in a log (0: in any)."""
        with self._clear():
            query = f"SELECT DISTINCT configuration FROM outcome WHERE {self._where(log)} ORDER BY 1"
            rows = self._connection.execute(query).fetchall()
            return self._profiles([number for (number,) in rows])

    def last(self, n: int, log: int = 0) -> Logged | None:
        """Return the latest n outcomes, oldest first; None if there are none."""
        query = f"SELECT min(id) FROM (SELECT id FROM outcome WHERE {self._where(log)} ORDER BY id DESC LIMIT ?)"
        (first,) = self._row(query, n)
        return None if first is None else next(self.batches(log, first - 1, n))

    def of_prefixes(self, prefixes: tuple[str, ...], n: int, log: int = 0) -> Logged | None:
        """The latest n outcomes that a log (0: any) has of these prefixes, oldest first; None if there are none."""
        ids = "SELECT word.id FROM json_each(?) AS wanted JOIN word ON word.text = wanted.value"
        mine = f"{self._where(log)} AND prefix IN ({ids})"
        query = f"SELECT * FROM ({SELECT} AND {mine} ORDER BY id DESC LIMIT ?) ORDER BY id"
        rows = self._read(query, 0, canonical(list(prefixes)), n)
        return self._logged(rows) if rows else None

    def prefixes(self, log: int = 0) -> tuple[str, ...]:
        """Return every prefix that outcomes of a log (0: of any) are of."""
        named = f"SELECT DISTINCT prefix FROM outcome WHERE {self._where(log)}"
        query = f"SELECT text FROM word WHERE id IN ({named}) ORDER BY id"
        return tuple(text for (text,) in self._read(query))

    def _logged(self, rows: Sequence[Sequence[Any]]) -> Logged:
        columns = dict(zip(("id", *OUTCOME_COLUMNS[1:]), zip(*rows, strict=True), strict=True))
        kbps, rtt, loss = (_floats(columns[name]) for name in ("bandwidth_kbps", "rtt_ms", "loss"))
        site, prefix, device, network = (self._coded(columns[name]) for name in ("site", "prefix", "device", "class"))
        contexts = Contexts(kbps, rtt, loss, *site, *prefix, *device)
        arm, arms = self._coded(columns["arm"])
        kept, configuration = np.unique(np.array(columns["configuration"], dtype=np.int64), return_inverse=True)
        decisions = Decisions(
            np.full(len(rows), -1),
            network[0],
            configuration.reshape(-1).astype(np.int64),
            np.array([*(ARM.get(name, -1) for name in arms), -1], dtype=np.int64)[arm],
            _floats(columns["propensity"]),
            _floats(columns["expected_ms"]),
        )
        contexts = with_further(contexts, [json.loads(text) if text else {} for text in columns["more"]])
        number, measured_at = (np.array(columns[name], dtype=np.int64) for name in ("id", "measured_at"))
        profiles = self._profiles(kept.tolist())
        return Logged(number, contexts, decisions, _floats(columns["plt_ms"]), measured_at, profiles, network[1])

    # Policies that learn.

    def learners(self) -> list[Learner]:
        """Return every policy that was saved, oldest first, without its tensor."""
        names = ", ".join("NULL" if name == "warm" else name for name in LEARNER)
        return [Learner(*row) for row in self._read(f"SELECT {names} FROM learner ORDER BY id")]

    def learner(self, name: str) -> Learner | None:
        """Return the policy of that name as it was last saved."""
        query = f"SELECT {', '.join(LEARNER)} FROM learner WHERE name = ?"
        row = self._row(query, name)
        return Learner(*row) if row else None

    def drop_learner(self, name: str) -> bool:
        """Forget a policy and its decisions; whether there was one."""
        with self._clear(), self._transaction():
            return self._connection.execute("DELETE FROM learner WHERE name = ?", (name,)).rowcount > 0

    def begin_learner(self, name: str, policy: str, log: int, recipe: str, warm: bytes | None, state: str, *,
                      fresh: bool = False) -> Learner:  # fmt: skip
        """Keep a policy that has seen nothing; fresh: in place of the one of that name. Errors: `BadInput`."""
        row = (name, policy, log, recipe, warm, now := self._now(), now, 0, 0, state)
        with self._clear(), self._transaction():
            self._connection.execute("DELETE FROM learner WHERE name = ? AND ?", (name, fresh))
            made = self._connection.execute(INSERT_LEARNER, row)
        if not made.rowcount:
            raise BadInput(f"{name}: another `learn run` has just made it; wait for it to end, then run this again")
        return Learner(cast(int, made.lastrowid), *row)

    def bind_learner(self, found: Learner, log: int) -> Learner:
        """Have a policy that learned from all logs learn from those of one metric from now on (`log` below 0), the one
        that it has learned from. Errors: `BadInput` for another metric."""
        query = f"SELECT {METRIC_OF} FROM log JOIN outcome ON outcome.log = log.id WHERE outcome.id = ?"
        row = self._row(query, found.position)
        learned = self.metric_of(found.log) if found.log else row[0] if row else ""
        if learned and learned != self.metric_of(log):
            raise BadInput(f"{found.name} learned from {learned}, not {self.metric_of(log)}; start another: --name")
        if found.log:
            return found
        self._write("UPDATE learner SET log = ? WHERE id = ?", log, found.id)
        return found._replace(log=log)

    def save_learner(self, before: Learner, state: str, logged: Logged, chosen: Decisions, profiles: Sequence[Profile],
                     class_ids: tuple[str, ...], upto: int | None = None) -> Learner:  # fmt: skip
        """Keep, in one, what a policy decided for these outcomes, what it knows now, and that it has read them.

        before: as it was read or saved last, its recipe as it is now; profiles, class_ids: what the columns of `chosen`
        count in; upto: number of the last outcome that was read, None for the last of `logged`, which may lack outcomes
        that were set aside. Returns it as it is kept now. Errors: `BadInput` if it was changed meanwhile,
        by another `learn run`; then nothing is kept.
        """
        now, count = self._now(), before.outcomes + len(logged)
        upto = int(logged.number[-1]) if upto is None else upto
        with self._clear(), self._transaction():
            changed = self._connection.execute(
                "UPDATE learner SET recipe = ?, state = ?, saved_at = ?, position = ?, outcomes = ?"
                " WHERE id = ? AND position = ?",
                (before.recipe, state, now, upto, count, before.id, before.position),
            ).rowcount
            if not changed:
                why = "another `learn run` learns, made it anew or dropped it; wait for it to end, then run this again"
                raise BadInput(f"{before.name} changed meanwhile: {why}")
            used, configuration = np.unique(chosen.configuration, return_inverse=True)
            numbers = self._configurations([profiles[at] for at in used])[configuration.reshape(-1)]
            codes = (logged.number, numbers, self._words(class_ids)[chosen.network], self._words(ARMS)[chosen.arm])
            columns = [column.tolist() for column in (*codes, chosen.propensity, chosen.expected_ms)]
            rows = zip([before.id] * len(logged), *columns, strict=True)
            self._connection.executemany(INSERT_DECISION, rows)
        return before._replace(state=state, saved_at=now, position=upto, outcomes=count)

    def decisions(self, name: str) -> Iterator[tuple[Any, ...]]:
        """Yield a policy's decisions: outcome, settings (JSON), class, arm, propensity, expected ms; in order."""
        query = (
            "SELECT outcome, settings, coalesce(class.text, ''), arm.text, propensity, expected_ms FROM decision"
            " LEFT JOIN word AS class ON class.id = class JOIN word AS arm ON arm.id = arm"
            " JOIN configuration ON configuration.id = configuration"
            " WHERE learner = (SELECT id FROM learner WHERE name = ?) ORDER BY outcome"
        )
        with self._clear(), closing(self._connection.execute(query, (name,))) as rows:
            yield from rows

    # Tests for gains over Default.

    def gain_tests(self, log: int) -> list[GainTest]:
        """Return every test that may have had outcomes of a log (0 or less: of several), oldest first."""
        query = f"SELECT {', '.join(GainTest._fields)} FROM gain_test WHERE log <= 0 OR log = ? OR ? <= 0 ORDER BY id"
        return [GainTest(*row) for row in self._read(query, log, log)]

    def add_gain_test(self, test: GainTest) -> None:
        """Keep a test, and that it was made."""
        query = f"INSERT INTO gain_test (tested_at, {', '.join(GainTest._fields)}) VALUES (?{', ?' * len(test)})"
        with self._clear(), self._transaction():
            self._connection.execute(query, (self._now(), *test))

    # Words and configurations by number.

    def _words(self, names: Iterable[str]) -> Codes:
        """Return (names + 1,) the numbers of words, made where they are new; the last, for code -1, is that of none."""
        wanted = canonical(list(names))
        self._connection.execute("INSERT OR IGNORE INTO word (text) SELECT value FROM json_each(?)", (wanted,))
        query = "SELECT word.id FROM json_each(?) AS wanted JOIN word ON word.text = wanted.value ORDER BY wanted.key"
        return np.array([*(number for (number,) in self._connection.execute(query, (wanted,))), 0], dtype=np.int64)

    def _configurations(self, profiles: Sequence[Profile]) -> Codes:
        rows = [(profile.name, canonical(pairs_form(profile.settings))) for profile in profiles]
        self._connection.executemany("INSERT OR IGNORE INTO configuration (name, settings) VALUES (?, ?)", rows)
        query = "SELECT id FROM configuration WHERE settings = ?"
        found = [self._connection.execute(query, (settings,)).fetchone()[0] for _, settings in rows]
        return np.array([*found, -1], dtype=np.int64)

    def _coded(self, numbers: Sequence[int]) -> tuple[Codes, tuple[str, ...]]:
        """Return numbers of words as codes into the words that occur; -1 for none."""
        kept, code = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)
        query = "SELECT text FROM json_each(?) AS kept JOIN word ON word.id = kept.value ORDER BY kept.key"
        words = tuple(text for (text,) in self._connection.execute(query, (canonical(kept.tolist()),)))
        none = len(kept) > len(words)
        return code.reshape(-1).astype(np.int64) - none, words

    def _profiles(self, numbers: list[int]) -> tuple[Profile, ...]:
        query = (
            "SELECT name, settings FROM json_each(?) AS kept JOIN configuration ON configuration.id = kept.value"
            " ORDER BY kept.key"
        )
        rows = self._connection.execute(query, (canonical(cast(list[Any], numbers)),)).fetchall()
        if len(rows) < len(numbers):
            raise BadInput(f"{self.path}: outcomes have a configuration that is not there; restore a copy")
        return tuple(Profile(name, pairs_of(json.loads(settings))) for name, settings in rows)


def _floats(column: Sequence[float | None]) -> Floats:
    """NULL becomes NaN."""
    return np.array(column, dtype=np.float64)
