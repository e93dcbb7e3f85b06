-- SPDX-License-Identifier: MIT
-- Page loads of the testbed: measurements, shards, stacks, cells, loads.

-- One invocation of `configtron learn measure`: page loads in the lab, of which the PLT-tensor is made.
CREATE TABLE measurement (
    id          INTEGER PRIMARY KEY,
    begun_at    TEXT NOT NULL,                    -- UTC, ISO 8601
    finished_at TEXT,
    status      TEXT NOT NULL DEFAULT 'running',  -- running, done, partial, interrupted, failed
    version     TEXT NOT NULL,                    -- of configtron
    study       TEXT NOT NULL,
    config      TEXT NOT NULL CHECK (json_valid(config))
) STRICT;

-- One boot of the lab, under one condition. It is in here whole or not at all.
CREATE TABLE shard (
    id          INTEGER PRIMARY KEY,
    measurement INTEGER NOT NULL REFERENCES measurement (id) ON DELETE CASCADE,
    condition   TEXT NOT NULL,
    orders      TEXT NOT NULL,                    -- SHA-256 of its orders (conditions, pages, seed, all of it)
    software    TEXT NOT NULL CHECK (json_valid(software)),  -- JSON object: what it ran on, by name and version
    network     TEXT NOT NULL CHECK (json_valid(network)),   -- JSON object: what the kernel reported of the network
    lines       TEXT NOT NULL,                    -- SHA-256 of what it wrote
    virtual_s   REAL NOT NULL,
    wall_s      REAL NOT NULL,
    UNIQUE (measurement, condition)
) STRICT;

-- A configuration under a condition: what the kernel reported of the stack, or why it was not measured.
CREATE TABLE stack (
    shard         INTEGER NOT NULL REFERENCES shard (id) ON DELETE CASCADE,
    configuration INTEGER NOT NULL,               -- its row in the study's grid
    settings      TEXT NOT NULL CHECK (json_valid(settings)),  -- JSON object: knob, value as asked
    read_back     TEXT NOT NULL CHECK (json_valid(read_back)), -- JSON object: knob, value as found
    reason        TEXT NOT NULL,
    words         TEXT NOT NULL,
    PRIMARY KEY (shard, configuration),
    CHECK ((read_back = '{}') = (reason <> ''))
) STRICT, WITHOUT ROWID;

-- One cell of the tensor. Equal provenance means equal loads, to the bit.
CREATE TABLE cell (
    shard         INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    site          TEXT NOT NULL,
    median_ms     REAL,                           -- NULL: `flag` says why
    low_ms        REAL,                           -- 95 % interval of the median (`configtron/repeats.py`);
    high_ms       REAL,                           -- NULL where there is none
    loads         INTEGER NOT NULL,
    flag          TEXT NOT NULL,                  -- '' when the median is known as well as the rule demands
    provenance    TEXT NOT NULL,                  -- SHA-256 of orders, software, configuration, site
    PRIMARY KEY (shard, configuration, site),
    FOREIGN KEY (shard, configuration) REFERENCES stack (shard, configuration) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- One page load. Times in milliseconds of virtual time; NULL where it failed.
CREATE TABLE load (
    shard         INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    site          TEXT NOT NULL,
    repeat        INTEGER NOT NULL,               -- from 0
    failed        TEXT NOT NULL,                  -- '' or a named reason
    plt_ms        REAL,
    ttfb_ms       REAL,
    index_ms      REAL,
    bytes         INTEGER NOT NULL,
    PRIMARY KEY (shard, configuration, site, repeat),
    FOREIGN KEY (shard, configuration, site) REFERENCES cell (shard, configuration, site) ON DELETE CASCADE,
    CHECK ((failed = '') = (plt_ms IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- The tensor as a table.
CREATE VIEW plt AS
    SELECT shard.measurement, shard.condition, stack.settings, cell.site, cell.median_ms, cell.low_ms, cell.high_ms,
           cell.loads, cell.flag, stack.read_back, cell.provenance
    FROM cell
    JOIN stack ON stack.shard = cell.shard AND stack.configuration = cell.configuration
    JOIN shard ON shard.id = cell.shard;
