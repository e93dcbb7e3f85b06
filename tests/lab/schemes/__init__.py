# SPDX-License-Identifier: MIT
"""Congestion controls of user space, on a scripted path."""
