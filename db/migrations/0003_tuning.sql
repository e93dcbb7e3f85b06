-- SPDX-License-Identifier: MIT
-- What `configtron tune` wants, what it did, and external changes.

-- What is wanted (`configtron tune`): profiles, and prefix -> profile.
CREATE TABLE profile (
    name     TEXT PRIMARY KEY,
    settings TEXT NOT NULL CHECK (json_valid(settings))  -- JSON object: knob, value
) STRICT, WITHOUT ROWID;

CREATE TABLE prefix (
    prefix  TEXT PRIMARY KEY,                     -- as `ipaddress` prints it
    profile TEXT NOT NULL REFERENCES profile (name)
) STRICT, WITHOUT ROWID;

CREATE INDEX prefix_by_profile ON prefix (profile);

-- Single facts of tuning: "default", the profile of clients without a prefix; "salt", which prefixes a share holds.
CREATE TABLE tuning (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Advice that the operator acknowledged: not shown again.
CREATE TABLE muted (
    advice   TEXT PRIMARY KEY,                    -- its id
    about    TEXT NOT NULL,
    muted_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The journal: one row an apply, in it before anything is written (`tune/journal.py`).
CREATE TABLE act (
    id        INTEGER PRIMARY KEY,
    driver    TEXT NOT NULL,
    place     TEXT NOT NULL CHECK (json_valid(place)),
    space     TEXT NOT NULL,                      -- the network namespace, where the place names none
    boot      TEXT NOT NULL,                      -- the kernel's boot id
    begun_at  TEXT NOT NULL,                      -- UTC, ISO 8601
    status    TEXT NOT NULL CHECK (status IN ('begun', 'writing', 'leased', 'kept', 'undoing', 'undone', 'replaced')),
    before    TEXT NOT NULL,                      -- what the driver read here before
    rules     TEXT NOT NULL CHECK (json_valid(rules)),  -- what is to be in force
    lease_s   REAL NOT NULL,
    expires_s REAL NOT NULL,                      -- since boot
    over      INTEGER NOT NULL,                   -- the act to go back to; 0: none
    held      INTEGER NOT NULL,                   -- prefixes held back
    keeper    TEXT NOT NULL,                      -- process that undoes it when the lease ends: id, start time
    why       TEXT NOT NULL
) STRICT;

CREATE INDEX act_by_status ON act (status);

-- External changes of what we had set: left alone, until a command takes them back.
CREATE TABLE frozen (
    id         INTEGER PRIMARY KEY,
    act        INTEGER NOT NULL,                  -- that had set it
    driver     TEXT NOT NULL,
    place      TEXT NOT NULL,
    space      TEXT NOT NULL,
    scope      TEXT NOT NULL,                     -- a prefix, profile:NAME, default
    was        TEXT NOT NULL,                     -- as we had set it
    found      TEXT NOT NULL,                     -- as it was found
    frozen_at  TEXT NOT NULL,
    resumed_at TEXT
) STRICT;

CREATE INDEX frozen_still ON frozen (driver, place, space) WHERE resumed_at IS NULL;
