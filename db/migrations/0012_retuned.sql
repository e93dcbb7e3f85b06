-- SPDX-License-Identifier: MIT
-- What open connections had before they were re-tuned.

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
