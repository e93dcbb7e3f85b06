-- SPDX-License-Identifier: MIT
-- What neighbours lose by a profile that the learner's export set: bytes for each byte of a page, upper end of what was
-- measured under conditions near the classes that have it. The guard of `tune` judges by it instead of by names.
CREATE TABLE learned_damage (
    profile TEXT PRIMARY KEY,
    bytes   REAL NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;
