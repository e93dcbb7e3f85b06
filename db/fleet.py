# SPDX-License-Identifier: MIT
"""What a manager of a fleet keeps, as SQL: terms, agents, maps, and each outcome once.

One call is one transaction. A row of an agent is named by (agent, boot, sequence); rows of a boot come in order, so
that the highest number says which are here. A row that teaches is in the learner's table too (`db/outcomes.py`), in the
same transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from configtron.db.connection import Database
from configtron.db.end_state_rows import INSERT_END_STATE, end_state_values
from configtron.db.many_rows import Insertion, insert_rows
from configtron.db.outcomes import OUTCOME_COLUMNS
from configtron.intake.end_reports import state_of
from configtron.learner.initial.end_states import checked, of_rows
from configtron.model.bounds import check_text
from configtron.model.errors import BadInput
from configtron.model.fleet import END_STATE, OutcomeRow
from configtron.model.nouns import Profile
from configtron.model.records import canonical, pairs_form

# Maps that are kept whole: 2 MB each for a hundred thousand prefixes.
WHOLE_MAPS = 20
# Rows of `rows_after` at a time.
ROWS = 5000
# Words that are remembered by number: sites, prefixes, classes.
WORDS = 200_000
# Connections' ends that are kept, the latest.
END_STATES = 500_000
# Why a row does not teach whose map, or the profile in it, is not in this database.
UNKNOWN_MAP = "unknown-map"
FLEET_LOG = canonical({"fleet": "agents", "metric": "plt"})
STREAM_COLUMNS = ("agent", "boot", "through", "lost")
FLEET_COLUMNS = (
    "stream", "sequence", "outcome", "received_ns", "at_ns", "site", "prefix", "unit", "plt_ms", "term", "map_version",
    "epoch", "class", "arm", "profile", "propensity", "held", "failure", "teaches", "why_not", "device", "protocol",
    "rtt_ms", "bandwidth_kbps", "loss", "more",
)  # fmt: skip
OF_AGENTS = Insertion("fleet_outcome", FLEET_COLUMNS, "ON CONFLICT (stream, sequence) DO NOTHING")
TAUGHT = Insertion("outcome", OUTCOME_COLUMNS)
WORD_COLUMNS = [attrgetter(name) for name in ("site", "prefix", "class_name", "profile", "device")]
SELECT_ROWS = (
    "SELECT fleet_outcome.id, agent, boot, sequence, at_ns, coalesce(site.text, ''), coalesce(prefix.text, ''), unit,"
    " plt_ms, term, map_version, epoch, coalesce(class.text, ''), arm, coalesce(profile.text, ''), propensity, held,"
    " failure, teaches, why_not, coalesce(device.text, ''), protocol, rtt_ms, bandwidth_kbps, loss, more"
    " FROM fleet_outcome JOIN fleet_stream ON fleet_stream.id = stream"
    " LEFT JOIN word AS site ON site.id = site LEFT JOIN word AS prefix ON prefix.id = prefix"
    " LEFT JOIN word AS class ON class.id = class LEFT JOIN word AS profile ON profile.id = profile"
    " LEFT JOIN word AS device ON device.id = device"
)


class EnrolledAgent(NamedTuple):
    """An agent's key, since when it may connect, and since when it may not ("": it may)."""

    name: str
    key: str
    enrolled_at: str
    revoked_at: str


class MapRow(NamedTuple):
    """A map that was published; `whole`: 1 where it is kept and can be rolled back to."""

    term: int
    version: int
    made_at: str
    why: str
    prefixes: int
    whole: int


class Stream(NamedTuple):
    """Rows of one start of an agent: here up to `through`, of which `lost` were dropped by its spool."""

    agent: str
    boot: str
    through: int
    lost: int


class FleetStore(Database):
    """The database as a manager sees it."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        super().__init__(path, read_only=read_only)
        self._word_ids: dict[str, int] = {"": 0}
        self._configuration_ids: dict[tuple[int, int, str], int | None] = {}
        # The rows of the latest `add_rows` that were new, and the number of the last of them.
        self.added: tuple[Sequence[OutcomeRow], int] = ((), 0)

    # Terms.

    def begin_term(self, manager: str) -> int:
        """Return the term of a manager that starts: one more than any before. Errors: `BadInput` for a name twice."""
        with self._clear(), self._transaction():
            row = (manager, self._now())
            cursor = self._connection.execute("INSERT INTO fleet_term (manager, begun_at) VALUES (?, ?)", row)
            return cast(int, cursor.lastrowid)

    def latest_term(self) -> tuple[int, str]:
        """Return (term, manager) of the latest start; (0, ""): none."""
        with self._clear():
            query = "SELECT term, manager FROM fleet_term ORDER BY term DESC LIMIT 1"
            row = self._connection.execute(query).fetchone()
        return (row[0], row[1]) if row else (0, "")

    def raise_term(self, term: int) -> None:
        """Let the next term be higher than that one: an agent has seen it."""
        with self._clear(), self._transaction():
            update = "UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'fleet_term'"
            if not self._connection.execute(update, (term,)).rowcount:
                self._connection.execute("INSERT INTO sqlite_sequence VALUES ('fleet_term', ?)", (term,))

    # Agents.

    def enroll(self, name: str, key: str) -> None:
        """Let an agent connect by that key. Errors: `BadInput` while the name, or the key, is in use."""
        try:
            with self._transaction():
                row = (key, name, self._now())
                self._connection.execute("INSERT INTO fleet_agent VALUES (?, ?, ?, NULL)", row)
        except sqlite3.IntegrityError as error:
            remedy = f"first: configtron learn manager revoke {name}"
            raise BadInput(f"agent {name}: the name or its key is enrolled already; {remedy}") from error

    def revoke(self, name: str) -> bool:
        """Let an agent connect no more; whether it could."""
        query = "UPDATE fleet_agent SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL"
        with self._clear(), self._transaction():
            return self._connection.execute(query, (self._now(), name)).rowcount > 0

    def enrolled(self) -> list[EnrolledAgent]:
        """Return every agent that was enrolled, revoked ones too, by name."""
        query = "SELECT name, key, enrolled_at, coalesce(revoked_at, '') FROM fleet_agent ORDER BY name, enrolled_at"
        return [EnrolledAgent(*row) for row in self._read(query)]

    def allowed(self) -> dict[str, str]:
        """Return key -> name of the agents that may connect."""
        return dict(self._read("SELECT key, name FROM fleet_agent WHERE revoked_at IS NULL"))

    # Maps.

    def put_map(self, term: int, version: int, why: str, profiles: Mapping[str, Profile], prefixes: int,
                document: bytes, facts: Mapping[str, str] | None = None) -> None:  # fmt: skip
        """Keep a map before it is published, with facts of what made it. Errors: `BadInput` for a pair used before."""
        text = canonical({name: pairs_form(profile.settings) for name, profile in sorted(profiles.items())})
        old = "UPDATE fleet_map SET document = NULL WHERE rowid <= (SELECT max(rowid) FROM fleet_map) - ?"
        with self._clear(), self._transaction():
            row = (term, version, self._now(), why, prefixes, text, document)
            self._connection.execute("INSERT INTO fleet_map VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            self._connection.execute(old, (WHOLE_MAPS,))
            self._put_facts(facts or {})

    def maps(self) -> list[MapRow]:
        """Return every map that was published, oldest first."""
        query = "SELECT term, version, made_at, why, prefixes, document IS NOT NULL FROM fleet_map ORDER BY 1, 2"
        return [MapRow(*row) for row in self._read(query)]

    def document(self, term: int, version: int) -> bytes | None:
        """Return a map as it was signed, whole; None: there is none, or it is too old."""
        query = "SELECT document FROM fleet_map WHERE term = ? AND version = ?"
        row = self._row(query, term, version)
        return row[0] if row else None

    def facts(self) -> dict[str, str]:
        """Return the single facts."""
        return dict(self._read("SELECT name, value FROM fleet_fact"))

    def put_facts(self, facts: Mapping[str, str]) -> None:
        """Keep facts, all or none."""
        with self._clear(), self._transaction():
            self._put_facts(facts)

    def drop_fact(self, name: str) -> bool:
        """Forget a fact; whether there was one."""
        with self._clear(), self._transaction():
            return self._connection.execute("DELETE FROM fleet_fact WHERE name = ?", (name,)).rowcount > 0

    def _put_facts(self, facts: Mapping[str, str]) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO fleet_fact VALUES (?, ?)", facts.items())

    # Outcomes.

    def add_rows(self, agent: str, boot: str, first: int, rows: Sequence[OutcomeRow], received_ns: int) -> int:
        """Keep rows `first`, `first + 1`, ... of a boot, each once; return the number up to which all are here.

        What lies between the last row that came and `first` counts as lost: an agent sends its oldest rows first.
        Errors: `Unwritten` on a full disk; then none is kept.
        """
        known, self.added = len(self._word_ids), ((), 0)
        try:
            with self._clear(), self._transaction():
                stream, through = self._stream(agent, boot)
                fresh = rows[max(through + 1 - first, 0) :]
                last = first + len(rows) - 1
                if fresh:
                    self._keep(stream, fresh, received_ns)
                    lost = max(first - through - 1, 0)
                    update = "UPDATE fleet_stream SET through = ?, lost = lost + ? WHERE id = ?"
                    self._connection.execute(update, (last, lost, stream))
                return max(last, through)
        except BaseException:
            # Words of a transaction that was taken back have no numbers.
            if len(self._word_ids) != known:
                self._word_ids = {"": 0}
            self._configuration_ids.clear()
            raise

    def _stream(self, agent: str, boot: str) -> tuple[int, int]:
        self._connection.execute("INSERT OR IGNORE INTO fleet_stream (agent, boot) VALUES (?, ?)", (agent, boot))
        query = "SELECT id, through FROM fleet_stream WHERE agent = ? AND boot = ?"
        stream, through = self._connection.execute(query, (agent, boot)).fetchone()
        return stream, through

    def _keep(self, stream: int, rows: Sequence[OutcomeRow], received_ns: int) -> None:
        """Keep page loads, and connections' ends in their own table (`configtron/intake/end_reports.py`)."""
        loads = [row for row in rows if row.failure != END_STATE]
        if loads:
            self._insert(stream, loads, received_ns)
        if len(loads) < len(rows):
            ends = of_rows([state_of(row) for row in rows if row.failure == END_STATE])
            # An agent's clock may be hours ahead.
            ends = replace(ends, at_s=np.minimum(ends.at_s, received_ns / 1e9))
            good, _ = checked(ends, received_ns / 1e9)
            self._connection.executemany(INSERT_END_STATE, end_state_values(good))
            old = "DELETE FROM end_state WHERE id <= (SELECT max(id) FROM end_state) - ?"
            self._connection.execute(old, (END_STATES,))

    def _insert(self, stream: int, rows: Sequence[OutcomeRow], received_ns: int) -> None:
        ids = self._ids({"default", "static"}.union(*(map(column, rows) for column in WORD_COLUMNS)))
        known = self._configurations(rows)
        taught = [(row, configuration) for row, configuration in zip(rows, known, strict=True) if configuration]
        first = self._teach(taught, ids)
        values = []
        for row, configuration in zip(rows, known, strict=True):
            unknown = configuration is None and row.teaches and row.plt_ms is not None
            values.append((
                stream, row.sequence, first if configuration else None, received_ns, row.at_ns, ids[row.site],
                ids[row.prefix], row.unit, row.plt_ms, row.term, row.map_version, row.epoch, ids[row.class_name],
                row.arm, ids[row.profile], row.propensity, row.held, row.failure, row.teaches and not unknown,
                UNKNOWN_MAP if unknown else row.why_not, ids[row.device], row.protocol, row.rtt_ms,
                row.bandwidth_kbps, row.loss, canonical(dict(row.more)) if row.more else None,
            ))  # fmt: skip
            first += configuration is not None
        insert_rows(self._connection, OF_AGENTS, values)
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'fleet_outcome'"
        self.added = rows, int(self._connection.execute(query).fetchone()[0])

    def _teach(self, rows: Sequence[tuple[OutcomeRow, int]], ids: Mapping[str, int]) -> int:
        """Add rows, each with the number of its settings, to the learner's table; return the number of the first."""
        query = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outcome'), 0) + 1"
        (first,) = self._connection.execute(query).fetchone()
        log = self._log() if rows else 0
        insert_rows(self._connection, TAUGHT, [(
            log, row.at_ns, row.plt_ms, row.bandwidth_kbps, row.rtt_ms, row.loss, ids[row.site], ids[row.prefix],
            ids[row.device], ids[row.class_name], configuration, ids["default" if row.arm is None else "static"],
            row.propensity, None, None,
        ) for row, configuration in rows])  # fmt: skip
        return int(first)

    def _log(self) -> int:
        row = self._connection.execute("SELECT id FROM log WHERE about = ?", (FLEET_LOG,)).fetchone()
        if row:
            return int(row[0])
        insert = "INSERT INTO log (begun_at, source, about) VALUES (?, 'live', ?)"
        return cast(int, self._connection.execute(insert, (self._now(), FLEET_LOG)).lastrowid)

    def _ids(self, words: set[str]) -> dict[str, int]:
        if len(self._word_ids) > WORDS:
            self._word_ids = {"": 0}
        if unknown := words - self._word_ids.keys():
            check_text("an outcome", [*unknown])
            wanted = canonical([*sorted(unknown)])
            self._connection.execute("INSERT OR IGNORE INTO word (text) SELECT value FROM json_each(?)", (wanted,))
            query = "SELECT word.text, word.id FROM json_each(?) AS wanted JOIN word ON word.text = wanted.value"
            self._word_ids |= dict(self._connection.execute(query, (wanted,)))
        return self._word_ids

    def _configurations(self, rows: Sequence[OutcomeRow]) -> list[int | None]:
        """Return the number of the settings that each row's client had; None: the row does not teach, or its map or
        profile is not known."""
        ids = self._configuration_ids
        keys = [
            None if not row.teaches or row.plt_ms is None else
            (0, 0, "") if row.arm is None else (row.term, row.map_version, row.profile)
            for row in rows
        ]  # fmt: skip
        for key in dict.fromkeys(keys):
            if key is not None and ids.get(key) is None:
                ids[key] = self._settings_id(*key)
        return [None if key is None else ids[key] for key in keys]

    def _settings_id(self, term: int, version: int, name: str) -> int | None:
        settings: str | None = "{}"
        if name:
            # Not by json_extract: its paths have no way to write a quotation mark.
            query = ("SELECT each.value FROM fleet_map, json_each(profiles) AS each"
                     " WHERE term = ? AND version = ? AND each.key = ?")  # fmt: skip
            found = self._connection.execute(query, (term, version, name)).fetchone()
            settings = found[0] if found else None
        if settings is None:
            return None
        insert = "INSERT OR IGNORE INTO configuration (name, settings) VALUES (?, ?)"
        self._connection.execute(insert, (name or "default", settings))
        query = "SELECT id FROM configuration WHERE settings = ?"
        return int(self._connection.execute(query, (settings,)).fetchone()[0])

    def rows_after(self, position: int, most: int = ROWS) -> list[tuple[int, OutcomeRow]]:
        """Return the rows with numbers above `position`, in order of arrival, each with its number."""
        query = f"{SELECT_ROWS} WHERE fleet_outcome.id > ? ORDER BY fleet_outcome.id LIMIT ?"
        rows = self._read(query, position, most)
        return [(row[0], _outcome_row(row)) for row in rows]

    def latest_rows(self, most: int) -> tuple[int, list[OutcomeRow]]:
        """Return how many rows there are, and the latest of them, in order of arrival."""
        query = f"SELECT * FROM ({SELECT_ROWS} ORDER BY fleet_outcome.id DESC LIMIT ?) ORDER BY 1"
        with self._clear():
            (count,) = self._connection.execute("SELECT count(*) FROM fleet_outcome").fetchone()
            return count, [_outcome_row(row) for row in self._connection.execute(query, (most,))]

    def every_row(self) -> Iterator[OutcomeRow]:
        """Yield all rows in order of arrival."""
        position = 0
        while rows := self.rows_after(position):
            yield from (row for _, row in rows)
            position = rows[-1][0]

    def streams(self) -> list[Stream]:
        """Return every start of every agent that sent rows."""
        with self._clear():
            query = f"SELECT {', '.join(STREAM_COLUMNS)} FROM fleet_stream ORDER BY id"
            return [Stream(*row) for row in self._connection.execute(query)]


def manager_store(path: Path, *, read_only: bool = False) -> FleetStore:
    """Open a manager's database, which is not made here: a mistyped path must not pass for an empty fleet.

    Errors: `BadInput`.
    """
    if not path.is_file():
        raise BadInput(f"{path}: no database here; name the manager's by --db FILE")
    return FleetStore(path, read_only=read_only)


def _outcome_row(row: Sequence[object]) -> OutcomeRow:
    values = list(row[1:])
    values[15], values[17] = bool(values[15]), bool(values[17])
    values[24] = json.loads(cast(str, values[24])) if values[24] else {}
    return OutcomeRow(*values)  # type: ignore[arg-type]
