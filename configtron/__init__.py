# SPDX-License-Identifier: MIT
"""configtron: measure how servers configure TCP and HTTP; tune the local stack per client, learning from outcomes."""

# The one place; `make version` copies it to setup.cfg, kmod/ and the man pages.
__version__ = "0.2.0"
