# SPDX-License-Identifier: MIT
"""Servers of the lab: programs that a guest runs, one site pool each."""
