# SPDX-License-Identifier: MIT
"""Replay: the production code over recorded packets and recorded sessions."""
