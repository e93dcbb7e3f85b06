# SPDX-License-Identifier: MIT
"""Page loads from outside: beacons, access logs and kernel records, joined to outcome rows."""
