# SPDX-License-Identifier: MIT
"""Engines that suggest the next configuration to try."""
