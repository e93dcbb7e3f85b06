-- SPDX-License-Identifier: MIT
-- What `configtron learn` learns from, what it decided, and what it knows; simulated sessions under way.

-- A word that many rows share (site, prefix, device, class, arm), kept once. Elsewhere 0 is "none".
CREATE TABLE word (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

-- A configuration that was decided for: its settings, whatever it is called.
CREATE TABLE configuration (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL,
    settings TEXT NOT NULL UNIQUE CHECK (json_valid(settings))  -- JSON object: knob, value
) STRICT;

-- Where outcomes came from: an import, a replay, a manager. Numbers of what learning refers to are never given twice:
-- a policy that has read up to one must not take what came in place of a dropped log for read.
CREATE TABLE log (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    begun_at TEXT NOT NULL,                       -- UTC, ISO 8601
    source   TEXT NOT NULL CHECK (source IN ('sim', 'lab', 'live')),
    about    TEXT NOT NULL CHECK (json_valid(about))  -- how it was made
) STRICT;

-- One outcome with the decision that led to it. Words and configurations by number and without a check by SQLite, which
-- would look up five of them a row: they are written in the same transaction. The number is the order of arrival.
CREATE TABLE outcome (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    log            INTEGER NOT NULL,
    measured_at    INTEGER NOT NULL,              -- nanoseconds since the epoch; simulated: since the replay began
    plt_ms         REAL NOT NULL CHECK (plt_ms > 0),
    bandwidth_kbps REAL,                          -- NULL: unknown
    rtt_ms         REAL,
    loss           REAL,
    site           INTEGER NOT NULL,              -- word
    prefix         INTEGER NOT NULL,              -- word
    device         INTEGER NOT NULL,              -- word
    class          INTEGER NOT NULL,              -- word: the class it was decided for
    configuration  INTEGER NOT NULL,
    arm            INTEGER NOT NULL,              -- word: why
    propensity     REAL,                          -- NULL: not recorded
    expected_ms    REAL,
    more           TEXT                           -- JSON object: features that no class asks for; NULL: none
) STRICT;

-- A policy that learns from outcomes, with everything to go on after `kill -9`.
CREATE TABLE learner (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT NOT NULL UNIQUE,
    policy   TEXT NOT NULL,                       -- a row of learner.POLICIES
    log      INTEGER NOT NULL,                    -- the log it learns from; 0: all
    recipe   TEXT NOT NULL,                       -- how it was made (`learner/saved.py`)
    warm     BLOB,                                -- the tensor it started from, as its file
    begun_at TEXT NOT NULL,
    saved_at TEXT NOT NULL,
    position INTEGER NOT NULL,                    -- last outcome that was taken in
    outcomes INTEGER NOT NULL,                    -- how many were
    state    TEXT NOT NULL                        -- all that was learned, observed and drawn: exact
) STRICT;

-- What a learning policy decided for each outcome's client, before it observed the outcome.
CREATE TABLE decision (
    learner       INTEGER NOT NULL REFERENCES learner (id) ON DELETE CASCADE,
    outcome       INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    class         INTEGER NOT NULL,               -- word
    arm           INTEGER NOT NULL,               -- word
    propensity    REAL,
    expected_ms   REAL,
    PRIMARY KEY (learner, outcome)
) STRICT, WITHOUT ROWID;

-- Outcomes in words.
CREATE VIEW told_outcome AS
    SELECT outcome.id, log, measured_at, plt_ms, bandwidth_kbps, rtt_ms, loss, coalesce(site.text, '') AS site,
           coalesce(prefix.text, '') AS prefix, coalesce(device.text, '') AS device, coalesce(class.text, '') AS class,
           settings, coalesce(arm.text, '') AS arm, propensity, expected_ms, more
    FROM outcome JOIN configuration ON configuration.id = configuration
    LEFT JOIN word AS site ON site.id = site LEFT JOIN word AS prefix ON prefix.id = prefix
    LEFT JOIN word AS device ON device.id = device LEFT JOIN word AS class ON class.id = class
    LEFT JOIN word AS arm ON arm.id = arm;

-- One invocation of `configtron replay sessions`.
CREATE TABLE replay (
    id          INTEGER PRIMARY KEY,
    begun_at    TEXT NOT NULL,                    -- UTC, ISO 8601
    finished_at TEXT,
    status      TEXT NOT NULL DEFAULT 'running',  -- running, done, interrupted
    version     TEXT NOT NULL,                    -- of configtron
    config      TEXT NOT NULL CHECK (json_valid(config)),
    state       TEXT NOT NULL DEFAULT ''          -- of the part under way
) STRICT;

-- A part of a replay that is done, with what it found.
CREATE TABLE replay_part (
    replay   INTEGER NOT NULL REFERENCES replay (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    found    TEXT NOT NULL CHECK (json_valid(found)),
    PRIMARY KEY (replay, position)
) STRICT, WITHOUT ROWID;
