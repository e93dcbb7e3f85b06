-- SPDX-License-Identifier: MIT
-- Ended connections that initial windows are learned from, and what was learned.

-- One ended connection (`learner/initial/end_states.py`); a file that is read twice counts once.
CREATE TABLE end_state (
    id           INTEGER PRIMARY KEY,
    at_s         REAL NOT NULL,                   -- when it began, s since 1970
    prefix       TEXT NOT NULL,                   -- /24 or /48
    min_rtt_ms   REAL NOT NULL,
    max_rtt_ms   REAL,
    max_cwnd     REAL,                            -- segments
    packets_in   REAL,
    packets_out  REAL NOT NULL,
    bound        INTEGER NOT NULL,                -- max_cwnd is a lower bound of what the path carries
    loss         REAL,
    strategy     TEXT NOT NULL,                   -- "" for the untouched stack
    propensity   REAL,
    latitude     REAL,
    longitude    REAL,
    resumed      TEXT NOT NULL,                   -- what a jump of Careful Resume came to; "" for none
    UNIQUE (at_s, prefix, min_rtt_ms, packets_out)
) STRICT;

-- Classifiers of end states, by the name of what they predict.
CREATE TABLE initial_model (
    name     TEXT PRIMARY KEY,
    saved_at TEXT NOT NULL,
    learned  INTEGER NOT NULL,                    -- connections
    state    TEXT NOT NULL                        -- `learner/state.py`
) STRICT, WITHOUT ROWID;
