-- SPDX-License-Identifier: MIT
-- What a manager of a fleet keeps, and what an agent's applier journals beside its transaction.

-- Each start of a manager: agents refuse one whose term is lower than the last that they obeyed.
CREATE TABLE fleet_term (
    term     INTEGER PRIMARY KEY AUTOINCREMENT,
    manager  TEXT NOT NULL UNIQUE,                -- host and start
    begun_at TEXT NOT NULL                        -- UTC, ISO 8601
) STRICT;

-- Agents that may connect, and those that may not any more. A name has one key at a time.
CREATE TABLE fleet_agent (
    key         TEXT PRIMARY KEY,                 -- public, Z85
    name        TEXT NOT NULL,
    enrolled_at TEXT NOT NULL,
    revoked_at  TEXT                              -- NULL: it may connect
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX fleet_agent_name ON fleet_agent (name) WHERE revoked_at IS NULL;

-- Maps that were published. The latest ones whole, so that one can be rolled back to; of all, what they were made of.
CREATE TABLE fleet_map (
    term     INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    made_at  TEXT NOT NULL,
    why      TEXT NOT NULL,
    prefixes INTEGER NOT NULL,                    -- how many
    profiles TEXT NOT NULL CHECK (json_valid(profiles)),  -- JSON object: name, settings
    document BLOB,                                -- signed, whole (`fleet/map_document.py`); NULL: too old
    PRIMARY KEY (term, version)
) STRICT;

-- Rows of one start of an agent: all up to `through` are here, but for those that its spool dropped.
CREATE TABLE fleet_stream (
    id      INTEGER PRIMARY KEY,
    agent   TEXT NOT NULL,
    boot    TEXT NOT NULL,
    through INTEGER NOT NULL DEFAULT 0,
    lost    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, boot)
) STRICT;

-- One outcome as an agent reported it, once. Words by number; the learner's row of it, if it teaches, is in `outcome`.
CREATE TABLE fleet_outcome (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    stream         INTEGER NOT NULL,
    sequence       INTEGER NOT NULL,
    outcome        INTEGER,                       -- NULL: it does not teach
    received_ns    INTEGER NOT NULL,              -- manager's clock; the order of rows is that of their numbers
    at_ns          INTEGER NOT NULL,              -- agent's clock
    site           INTEGER NOT NULL,              -- word
    prefix         INTEGER NOT NULL,              -- word: /24 or /48
    unit           TEXT NOT NULL,                 -- what intervals cluster by
    plt_ms         REAL,                          -- NULL: the load failed
    term           INTEGER NOT NULL,
    map_version    INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    class          INTEGER NOT NULL,              -- word
    arm            INTEGER,                       -- index in the class's mix; NULL: nothing was drawn
    profile        INTEGER NOT NULL,              -- word
    propensity     REAL,
    held           INTEGER NOT NULL,
    failure        TEXT NOT NULL,
    teaches        INTEGER NOT NULL,
    why_not        TEXT NOT NULL,
    device         INTEGER NOT NULL,              -- word
    protocol       TEXT NOT NULL,
    rtt_ms         REAL,
    bandwidth_kbps REAL,
    loss           REAL,
    more           TEXT,                          -- JSON object; NULL: none
    UNIQUE (stream, sequence)
) STRICT;

-- Single facts of a manager: the state of what makes its maps, and how far it has read.
CREATE TABLE fleet_fact (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What an agent's applier has in force: documents of the map, the first one whole, each later one a difference.
CREATE TABLE fleet_applied (
    id         INTEGER PRIMARY KEY,
    term       INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    applied_at TEXT NOT NULL,
    document   BLOB NOT NULL
) STRICT;

-- Changes of an act's rules since it was begun, in order: a change of a hundred prefixes is not journaled as all of them.
CREATE TABLE act_change (
    act     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    changes TEXT NOT NULL CHECK (json_valid(changes)),
    PRIMARY KEY (act, number)
) STRICT, WITHOUT ROWID;
