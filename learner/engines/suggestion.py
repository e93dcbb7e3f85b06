# SPDX-License-Identifier: MIT
"""The next configuration to try, and the engines' protocol for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from configtron.learner.columns import Codes, Floats


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The configuration to try next. gain: expected improvement on the best so far, as a share of its page load
    time."""

    configuration: int
    gain: float


class Engine(Protocol):
    """One way to pick the next configuration."""

    def suggest(self, tried: Codes, ms: Floats, pending: Codes) -> Suggestion:
        """tried (n,) configurations, each once, with page load times ms (n,); pending (m,) ones under way.

        Never suggests a tried or pending configuration, unless nothing else is left. Errors: `BadInput` for n = 0.
        """
