# SPDX-License-Identifier: MIT
"""Tests of configtron/lab/testbed."""
