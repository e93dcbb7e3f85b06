# SPDX-License-Identifier: MIT
"""What an open connection had, and what it was given in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from configtron.model.nouns import Value


class SocketChange(NamedTuple):
    """Options of one connection that were set because its client's class changed.

    cookie   SO_COOKIE, unique until the next boot
    prefix   the client's prefix whose class changed; former: its class before the first change
    before   knob -> value that stood there; given: knob -> value that was set in its place
    """

    cookie: int
    prefix: str
    former: str
    before: Mapping[str, Value]
    given: Mapping[str, Value]

    def then(self, later: SocketChange) -> SocketChange:
        """Return this change with a later one of the same connection: what stood there first, what stands there now."""
        return SocketChange(self.cookie, later.prefix, self.former, {**later.before, **self.before},
                            {**self.given, **later.given})  # fmt: skip
