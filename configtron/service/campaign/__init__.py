# SPDX-License-Identifier: MIT
"""Probing: plan, run, resume and summarise campaigns over a list of targets."""
