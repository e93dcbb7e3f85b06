# SPDX-License-Identifier: MIT
"""Passive measurement: read captures, watch an interface or this host's sockets. No packet is sent."""

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
