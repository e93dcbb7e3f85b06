# SPDX-License-Identifier: MIT
"""The store: one SQLite file that keeps runs, traces (by reference to pcapng) and readings."""
