# SPDX-License-Identifier: MIT
"""Passive measurement: read capture files, interfaces and sockets."""
