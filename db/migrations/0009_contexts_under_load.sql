-- SPDX-License-Identifier: MIT
-- What a path shows under load (configtron/model/characteristics.py), of contexts. NULL: not known, of all before.
ALTER TABLE context ADD COLUMN queue_ms REAL;
ALTER TABLE context ADD COLUMN loss_run REAL;
ALTER TABLE context ADD COLUMN window_bytes REAL;
ALTER TABLE context ADD COLUMN delivery_share REAL;
ALTER TABLE context ADD COLUMN ack_gap_ms REAL;
ALTER TABLE context ADD COLUMN reordering REAL;
