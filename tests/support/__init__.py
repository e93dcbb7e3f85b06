# SPDX-License-Identifier: MIT
"""Apparatus of tests and benchmarks: namespaces, servers, paths, guests and captures; part of no installation."""

from __future__ import annotations

from pathlib import Path

# The repository.
ROOT = Path(__file__).resolve().parents[2]
