# SPDX-License-Identifier: MIT
"""Tests of lab/testbed."""
