# SPDX-License-Identifier: MIT
"""Captures of connections that our scripts did not make: frames -> rows -> connections -> what each side showed.

Rules for this folder: pure, like all of `fingerprint/`; numpy columns, no loop over packets (loops over connections and
over rare events are allowed); nothing raises on any bytes: what cannot be read is counted under a name.
"""
