# SPDX-License-Identifier: MIT
"""No port comes back while a server may remember it."""

from __future__ import annotations

from random import Random

import pytest

from configtron.model.errors import Refused
from configtron.probe.wire.sourceports import MS, REMEMBERED_MS, SourcePorts


def test_every_port_is_used_once_before_any_again() -> None:
    ports = SourcePorts(range(10, 20), Random(1))
    taken = [ports.take("a", 80, 0) for _ in range(10)]
    assert sorted(taken) == list(range(10, 20))
    ports.give_back("a", 80, taken[3], 5 * MS)
    with pytest.raises(Refused):
        ports.take("a", 80, 5 * MS + REMEMBERED_MS * MS - 1)
    assert ports.take("a", 80, 5 * MS + REMEMBERED_MS * MS) == taken[3]
