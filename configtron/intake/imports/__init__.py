# SPDX-License-Identifier: MIT
"""Outcomes and contexts in other programs' forms: access logs, beacons, HTTP archives, contexts of `fingerprint`."""
