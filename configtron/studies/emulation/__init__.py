# SPDX-License-Identifier: MIT
"""Emulators of paths, and the search for their parameters."""
