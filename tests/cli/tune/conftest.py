# SPDX-License-Identifier: MIT
"""Commands of `tune` typed in this process on a stack that is memory; and a server in a namespace."""

from __future__ import annotations

from tests.support.memory_stack import here, stack
from tests.support.tune.routed import hosts
from tests.support.tune_command import tune, wanted

__all__ = ["here", "hosts", "stack", "tune", "wanted"]
