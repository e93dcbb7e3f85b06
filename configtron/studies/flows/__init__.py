# SPDX-License-Identifier: MIT
"""Bulk flows over conditions, and what congestion controls make of them."""
