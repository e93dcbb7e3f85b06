# SPDX-License-Identifier: MIT
"""configtron: measure how servers configure TCP and HTTP; tune the local stack per client, learning from outcomes."""

__version__ = "0.1.0"
