# SPDX-License-Identifier: MIT
"""The driver that is chosen for what is wanted."""

from __future__ import annotations

import pytest

from configtron.model.errors import Missing
from configtron.model.nouns import Profile
from configtron.model.tuning import Place, Rules
from configtron.service.lease.planner import _first_able
from configtron.tune.drivers.memory import MemoryDriver

ODD = Profile("odd", (("tls_version", "1.3"),))


def test_a_profile_that_no_client_has_decides_nothing() -> None:
    one = {"memory": MemoryDriver(Place())}
    assert _first_able(one, Rules(profiles={"odd": ODD})) is one["memory"]
    for used in (
        Rules(profiles={"odd": ODD}, prefixes={"192.0.2.0/24": "odd"}),
        Rules(profiles={"odd": ODD}, default="odd"),
    ):
        with pytest.raises(Missing, match="memory: does not reach tls_version"):
            _first_able(one, used)
