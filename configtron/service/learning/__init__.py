# SPDX-License-Identifier: MIT
"""Learning: run a policy over outcomes, evaluate it, export its rules."""
