# SPDX-License-Identifier: MIT
"""Tests of the benchmarks' own judgement: a figure outside its bound, a planted mistake, is reported."""
