-- SPDX-License-Identifier: MIT
-- Who set what is wanted, and how often a log was tested for gains.

-- Profiles and prefixes that the learner's export set; all others are a human's, and no export touches them.
CREATE TABLE learned (
    kind TEXT NOT NULL CHECK (kind IN ('profile', 'prefix')),
    name TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Each test of a log for gains over Default. Together they may err so often, so each leaves less to the next.
CREATE TABLE gain_test (
    id        INTEGER PRIMARY KEY,
    tested_at TEXT NOT NULL,                      -- UTC, ISO 8601
    log       INTEGER NOT NULL,                   -- 0: all; -n: all that measured what log n did
    question  TEXT NOT NULL,                      -- of which policy, which configurations: the same text, the same question
    position  INTEGER NOT NULL,                   -- the latest outcome then
    outcomes  INTEGER NOT NULL,                   -- how many were compared
    error     REAL NOT NULL,                      -- what this test might err
    verdict   TEXT NOT NULL CHECK (json_valid(verdict))
) STRICT;

INSERT INTO learned SELECT 'profile', name FROM profile WHERE name GLOB 'learned[0-9]*';

INSERT INTO learned SELECT 'prefix', prefix FROM prefix WHERE profile GLOB 'learned[0-9]*';
