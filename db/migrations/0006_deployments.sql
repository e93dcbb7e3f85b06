-- SPDX-License-Identifier: MIT
-- Which rules were in force when: what an import of outcomes asks for the configuration that a client had then.
CREATE TABLE deployment (
    id       INTEGER PRIMARY KEY,
    act      INTEGER NOT NULL,
    since_ns INTEGER NOT NULL,                    -- nanoseconds since the epoch
    until_ns INTEGER,                             -- NULL: they still are
    rules    BLOB                                 -- JSON by zlib; NULL: half written, or over at an unknown moment
) STRICT;
