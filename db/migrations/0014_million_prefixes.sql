-- SPDX-License-Identifier: MIT
-- A million prefixes are written without an index by profile, which costs as much as the table.

DROP INDEX IF EXISTS prefix_by_profile;

-- How many prefixes have which profile stands in the base from now on; the next apply writes it.
DELETE FROM tuning WHERE name = 'base';
