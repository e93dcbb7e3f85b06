# SPDX-License-Identifier: MIT
"""Where the SYN-ACK had to be repeated, the driver ebpf leaves the kernel's cut window alone (RFC 5681 section 3.1)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tune.aside import aside
from tests.support.tune.sockets import CLIENTS, WINDOW

pytestmark = pytest.mark.root
ONCE, TWICE, THRICE, FOUR_TIMES, UNTOUCHED = CLIENTS


@pytest.fixture(scope="module")
def seen() -> Any:
    return aside("sockets.py", "repeated")


@pytest.mark.parametrize("client", [ONCE, TWICE])
def test_the_asked_window_where_at_most_one_repeat_went_out(seen: Any, client: str) -> None:
    """One repeat takes nothing from it: RFC 6298's first time-out is short, and Linux waits for the second."""
    assert seen["clients"][client] == [CLIENTS[client], WINDOW, WINDOW]


@pytest.mark.parametrize("client", [THRICE, FOUR_TIMES])
def test_a_window_that_the_kernel_cut_stays_cut(seen: Any, client: str) -> None:
    assert seen["clients"][client] == [CLIENTS[client], 1, 1]


def test_the_untouched_stack_does_the_same(seen: Any) -> None:
    assert seen["clients"][UNTOUCHED] == [CLIENTS[UNTOUCHED], 1, 1]
    assert seen["nothing left"]
