# SPDX-License-Identifier: MIT
"""Faults beneath a fleet of real processes, planted in namespaces or guests of their own."""
