# SPDX-License-Identifier: MIT
"""Replay recordings, compared with their expected results; replay policies on simulated sessions."""

from lazy_loader import attach_stub

# The public names are in `__init__.pyi`; each is imported at its first use.
__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
