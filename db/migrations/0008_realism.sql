-- SPDX-License-Identifier: MIT
-- What a page load costs others, and what the servers see of a path.

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
