# SPDX-License-Identifier: MIT
"""Pages of nginx under a plan in the kernel: from the kernel's records to rows."""

from __future__ import annotations

import pytest

from tests.support.real_servers import absent
from tests.support.tune.aside import aside

CLIENTS = 150


@pytest.mark.root
def test_rows_have_the_arm_that_user_space_draws() -> None:
    if reason := absent("nginx"):
        pytest.skip(reason)
    seen = aside("page_loads.py", str(CLIENTS))
    assert seen["rows"] == CLIENTS and set(seen["wrong"].values()) == {0}, seen
    assert 0 < seen["held"] < CLIENTS / 2 and "records lost" not in seen["counts"]
    assert seen["nothing left"]
