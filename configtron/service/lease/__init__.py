# SPDX-License-Identifier: MIT
"""Tuning: plan, apply, roll back and watch profiles that expire unless their lease is renewed."""
