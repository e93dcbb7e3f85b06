-- SPDX-License-Identifier: MIT
-- The store: what was asked, what came back, where the packets are.
--
-- Kept: single readings (one probe call each). Not kept: verdicts, which are read from them, in the views below and,
-- with grades, by `fingerprint/merge.py`; so a better rule re-reads old runs.
-- Packets stay in pcapng files; a trace only points at its bytes and frames there.
-- This file makes a new database. An older one is brought here by migrations/NNNN_*.sql, NNNN being the version made.

PRAGMA user_version = 14;

-- One invocation of `configtron probe`, with everything needed to do it again.
CREATE TABLE run (
    id          INTEGER PRIMARY KEY,
    begun_at    TEXT NOT NULL,                    -- UTC, ISO 8601
    finished_at TEXT,
    status      TEXT NOT NULL DEFAULT 'running',  -- running, done, partial, interrupted, failed
    version     TEXT NOT NULL,                    -- of configtron
    config      TEXT NOT NULL CHECK (json_valid(config))
) STRICT;

-- One finished probe call.
CREATE TABLE trace (
    id              INTEGER PRIMARY KEY,
    run             INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    trace_id        TEXT NOT NULL,                -- vantage/host/probe.trial
    vantage         TEXT NOT NULL,
    site            TEXT NOT NULL,                -- the name that was asked for
    host            TEXT NOT NULL,                -- the name that was probed: a redirect may have led elsewhere
    address         TEXT NOT NULL,
    port            INTEGER NOT NULL,
    path            TEXT NOT NULL,
    provider        TEXT NOT NULL,
    tag             TEXT NOT NULL,
    probe           TEXT NOT NULL,
    params          TEXT NOT NULL,                -- JSON object
    started_at      INTEGER NOT NULL,             -- nanoseconds since the epoch
    ending          TEXT NOT NULL,                -- "done" or a named reason
    tainted         TEXT NOT NULL,                -- JSON array: what makes the trace unfit to be exact
    evidence_file   TEXT NOT NULL,                -- pcapng
    evidence_offset INTEGER NOT NULL,             -- bytes
    evidence_end    INTEGER NOT NULL,
    first_frame     INTEGER NOT NULL,             -- from 1, as Wireshark counts
    frames          INTEGER NOT NULL,
    UNIQUE (run, trace_id)                        -- what arrives twice is kept once
) STRICT;

-- By site, as every report reads it.
CREATE INDEX trace_by_site ON trace (run, site, vantage, trace_id);

-- One reading of one parameter from one trace: a value or a reason.
CREATE TABLE observation (
    trace    INTEGER NOT NULL REFERENCES trace (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,                    -- order within the trace
    knob     TEXT NOT NULL,
    value    TEXT,                                -- JSON
    reason   TEXT,
    unit     TEXT NOT NULL,
    method   TEXT NOT NULL,
    grade    TEXT NOT NULL CHECK (grade IN ('A', 'B', 'C', 'L', 'N')),
    read_from TEXT NOT NULL,                      -- trace_id named by the reading; usually its own
    evidence TEXT NOT NULL,                       -- JSON array: frames within the trace
    trials   TEXT NOT NULL,                       -- JSON array: the readings behind a merged one; usually empty
    details  TEXT NOT NULL,                       -- JSON object
    PRIMARY KEY (trace, position),
    CHECK ((value IS NULL) <> (reason IS NULL)),
    CHECK ((grade = 'N') = (value IS NULL))
) STRICT, WITHOUT ROWID;

-- Every reading beside whom it is about.
CREATE VIEW reading AS
    SELECT trace.run, trace.vantage, trace.site, trace.address, observation.knob, trace.trace_id,
           observation.value, observation.reason, observation.unit, observation.grade, trace.tainted <> '[]' AS tainted
    FROM observation JOIN trace ON trace.id = observation.trace;

-- How often each exact value was read. Lower bounds (L), reasons (N) and tainted traces are no votes.
CREATE VIEW vote AS
    SELECT run, vantage, site, knob, value, unit, count(*) AS trials
    FROM reading
    WHERE grade IN ('A', 'B', 'C') AND NOT tainted
    GROUP BY run, vantage, site, knob, value, unit;

-- The verdict in short: the value most trials agree on, how many did, and how many read anything exact.
-- Where trials disagree, `disagreeing` says so and `fingerprint/merge.py` settles it.
CREATE VIEW verdict AS
    SELECT run, vantage, site, knob, value, unit, agreeing, exact, exact - agreeing AS disagreeing
    FROM (
        SELECT run, vantage, site, knob, value, unit, trials AS agreeing,
               sum(trials) OVER (PARTITION BY run, vantage, site, knob) AS exact,
               row_number() OVER (PARTITION BY run, vantage, site, knob ORDER BY trials DESC, value) AS place
        FROM vote
    )
    WHERE place = 1;

-- What could not be read, and why.
CREATE VIEW failure AS
    SELECT run, knob, reason, count(*) AS readings, count(DISTINCT site) AS sites
    FROM reading
    WHERE reason IS NOT NULL
    GROUP BY run, knob, reason;

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

-- What one local connection showed of its client's network (`configtron/model/nouns.py`, Context): a feature, or the
-- reason why not in `unknown`. Of the client no more than its prefix is kept. The last line is as a migration leaves it.
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
, queue_ms REAL, loss_run REAL, window_bytes REAL, delivery_share REAL, ack_gap_ms REAL, reordering REAL) STRICT;

CREATE INDEX context_by_watch ON context (watch, at_ns);

-- What is wanted (`configtron tune`): profiles, and prefix -> profile.
CREATE TABLE profile (
    name     TEXT PRIMARY KEY,
    settings TEXT NOT NULL CHECK (json_valid(settings))  -- JSON object: knob, value
) STRICT, WITHOUT ROWID;

CREATE TABLE prefix (
    prefix  TEXT PRIMARY KEY,                     -- as `ipaddress` prints it
    profile TEXT NOT NULL REFERENCES profile (name)
) STRICT, WITHOUT ROWID;

-- Profiles and prefixes that the learner's export set; all others are a human's, and no export touches them.
CREATE TABLE learned (
    kind TEXT NOT NULL CHECK (kind IN ('profile', 'prefix')),
    name TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- What neighbours lose by a profile that the learner's export set: bytes for each byte of a page, upper end of what was
-- measured under conditions near the classes that have it. The guard of `tune` judges by it instead of by names.
CREATE TABLE learned_damage (
    profile TEXT PRIMARY KEY,
    bytes   REAL NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

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

-- What a page load cost the hosts beside it: bytes that neighbours got less than without it. Loads without neighbours have
-- no row.
CREATE TABLE neighbour_loss (
    shard         INTEGER NOT NULL,
    configuration INTEGER NOT NULL,
    site          TEXT NOT NULL,
    repeat        INTEGER NOT NULL,
    bytes         INTEGER NOT NULL,
    PRIMARY KEY (shard, configuration, site, repeat),
    FOREIGN KEY (shard, configuration, site, repeat)
        REFERENCES load (shard, configuration, site, repeat) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- What the servers' kernel and packets say of a shard's path (`lab/testbed/pathview.py`).
CREATE TABLE path_view (
    shard INTEGER NOT NULL REFERENCES shard (id) ON DELETE CASCADE,
    name  TEXT NOT NULL,                          -- a row of `configtron/characteristics.py`
    value REAL NOT NULL,
    PRIMARY KEY (shard, name)
) STRICT, WITHOUT ROWID;

-- The tensor as a table.
CREATE VIEW plt AS
    SELECT shard.measurement, shard.condition, stack.settings, cell.site, cell.median_ms, cell.low_ms, cell.high_ms,
           cell.loads, cell.flag, stack.read_back, cell.provenance
    FROM cell
    JOIN stack ON stack.shard = cell.shard AND stack.configuration = cell.configuration
    JOIN shard ON shard.id = cell.shard;

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

-- Which rules were in force when: what an import of outcomes asks for the configuration that a client had then.
CREATE TABLE deployment (
    id       INTEGER PRIMARY KEY,
    act      INTEGER NOT NULL,
    since_ns INTEGER NOT NULL,                    -- nanoseconds since the epoch
    until_ns INTEGER,                             -- NULL: they still are
    rules    BLOB                                 -- JSON by zlib; NULL: half written, or over at an unknown moment
) STRICT;

-- Fleets: what a manager keeps, and what an agent's applier journals beside its transaction.

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
-- Number 0: long rules whole, as the change from none; -1: the act whose rules of number 0 this one begins with.
CREATE TABLE act_change (
    act     INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    changes TEXT NOT NULL CHECK (json_valid(changes)),
    PRIMARY KEY (act, number)
) STRICT, WITHOUT ROWID;

-- Open connections that were given other socket options, until these are put back or the connection has ended.
CREATE TABLE retuned (
    boot   TEXT NOT NULL,
    driver TEXT NOT NULL,
    place  TEXT NOT NULL,
    space  TEXT NOT NULL,                         -- as in `act`
    cookie INTEGER NOT NULL,                      -- SO_COOKIE
    prefix TEXT NOT NULL,
    former TEXT NOT NULL,                         -- class before the first change
    before TEXT NOT NULL CHECK (json_valid(before)),  -- JSON object: knob, value
    given  TEXT NOT NULL CHECK (json_valid(given)),
    PRIMARY KEY (boot, driver, place, space, cookie)
) STRICT, WITHOUT ROWID;

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
