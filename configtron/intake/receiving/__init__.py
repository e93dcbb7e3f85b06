# SPDX-License-Identifier: MIT
"""Sockets that page loads come by: the HTTP endpoint of beacons, the log socket, connections that inet_diag reports."""
