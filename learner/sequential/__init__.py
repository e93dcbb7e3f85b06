# SPDX-License-Identifier: MIT
"""Tests that may be read before the last load: of page loads that a fleet draws at random, client by client."""
