# SPDX-License-Identifier: MIT
"""Support code that only tests need; what benchmarks need too is in rigs/."""
