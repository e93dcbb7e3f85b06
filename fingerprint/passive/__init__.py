# SPDX-License-Identifier: MIT
"""Captures of connections that our scripts did not make: frames -> rows -> connections -> readings of each side.

Rules for this folder: pure, like all of `fingerprint/`; numpy columns, no loop over packets (loops over connections and
over rare events are allowed); nothing raises on any bytes: unreadable frames are counted under a name.
"""
