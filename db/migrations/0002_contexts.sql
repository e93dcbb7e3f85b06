-- SPDX-License-Identifier: MIT
-- Local connections as contexts: what `configtron fingerprint live` and `socket` saw.

-- One invocation of `configtron fingerprint live` or `socket`.
CREATE TABLE watch (
    id          INTEGER PRIMARY KEY,
    begun_at    TEXT NOT NULL,                    -- UTC, ISO 8601
    finished_at TEXT,
    status      TEXT NOT NULL DEFAULT 'running',  -- running, done, interrupted, failed
    version     TEXT NOT NULL,                    -- of configtron
    source      TEXT NOT NULL CHECK (source IN ('live', 'socket')),
    config      TEXT NOT NULL CHECK (json_valid(config)),
    counts      TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(counts))  -- what was read, and what was lost
) STRICT;

-- What one local connection showed of its client's network (`configtron/nouns.py`, Context): a feature, or the reason why
-- not in `unknown`. Of the client no more than its prefix is kept.
CREATE TABLE context (
    watch          INTEGER NOT NULL REFERENCES watch (id) ON DELETE CASCADE,
    at_ns          INTEGER NOT NULL,              -- last seen; nanoseconds since the epoch
    local          TEXT NOT NULL,                 -- "" where neither end was this host's
    local_port     INTEGER NOT NULL,
    way            TEXT NOT NULL CHECK (way IN ('out', 'in', '')),
    ended          TEXT NOT NULL,                 -- open, closed, fin, reset
    age_s          REAL,
    bytes_out      INTEGER NOT NULL,
    bytes_in       INTEGER NOT NULL,
    bounded        INTEGER NOT NULL,              -- 1: the bandwidth is a lower bound
    bandwidth_kbps REAL,
    delivery_kbps  REAL,
    rtt_ms         REAL,
    min_rtt_ms     REAL,
    jitter_ms      REAL,
    loss           REAL,
    site           TEXT NOT NULL,
    prefix         TEXT NOT NULL,                 -- /24 or /48 (6to4: /40)
    asn            INTEGER,
    region         TEXT NOT NULL,                 -- country, ISO 3166; "" unknown
    device         TEXT NOT NULL,
    unknown        TEXT NOT NULL CHECK (json_valid(unknown))  -- JSON object: feature, reason
) STRICT;

CREATE INDEX context_by_watch ON context (watch, at_ns);
