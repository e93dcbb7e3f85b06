# SPDX-License-Identifier: MIT
"""Page loads through a whole fleet, with a real driver and nginx: each row once, with the arm that the kernel drew."""

from __future__ import annotations

import pytest

from tests.support.real_servers import absent
from tests.support.tune.aside import aside

# Pages, and loads that never finish.
CLIENTS, BROKEN = 60, 6


@pytest.mark.root
def test_rows_of_page_loads_reach_the_managers_database_once_though_the_agent_is_killed() -> None:
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = aside("fleet_pages.py", "ebpf", str(CLIENTS), str(BROKEN))
    assert seen["rows"] == CLIENTS + BROKEN and set(seen["wrong"].values()) == {0}, (seen["wrong"], seen["log"])
    assert seen["boots"] == 2 and seen["taught"] >= CLIENTS / 3 and seen["left"] == 0
    assert 0 < seen["held"] < CLIENTS / 2
    # Loads that never finished count against the arm of their client (`wrong` compares it with user space), and teach.
    assert [(failure, teaches) for failure, _, teaches, _ in seen["failed"]] == [("tcp", True)] * BROKEN, seen["failed"]
