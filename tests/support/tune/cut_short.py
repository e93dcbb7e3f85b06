# SPDX-License-Identifier: MIT
"""SIGKILL before each call to libbpf of an apply, a change and a revert; prints the state afterwards as JSON.

    cut_short.py [STRIDE]    run it apart (tests/support/isolation.py)

With a stride only every so many of the calls are tried; all of them take half a minute.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from configtron.linux import libbpf
from configtron.model.nouns import Profile
from configtron.model.tuning import Changes, Rules
from configtron.tune.drivers.bpf import layout
from configtron.tune.rules import after
from tests.support.tune.left import nothing_left, placed

STRIDE = int(sys.argv[1]) if sys.argv[1:2] and sys.argv[1].isdigit() else 1
KEEPS = Profile("b", (("tcp_congestion_control", "cubic"), ("tcp_slow_start_after_idle", 0)))
FIRST = Changes({"a": Profile("a", (("initcwnd", 4),)), "b": KEEPS}, {"10.0.0.0/8": "a", "::/0": "b"}, default="a")
SECOND = Changes(
    {"b": Profile("b", (("initcwnd", 9),))}, {"10.0.0.0/8": "b", "192.0.2.0/24": "b"}, frozenset({"a"}),
    frozenset({"::/0"}), "b",
)  # fmt: skip
# So that the second changes need a larger table.
layout.LEAST_ROOM = 1


class Counting:
    """The library, that kills its process before the call whose turn it is."""

    def __init__(self, real: Any, turn: int) -> None:
        self._real, self._left = real, turn

    def __getattr__(self, name: str) -> Any:
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        self._left -= 1
        return getattr(self._real, name)


def killed(act: Callable[[], object], turn: int) -> bool:
    """Whether the process lived to make that call."""
    child = os.fork()
    if not child:
        counting = Counting(libbpf.library(), turn)
        libbpf.library = lambda: counting  # type: ignore[assignment]
        try:
            act()
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def swept(begin: Callable[[], object], act: Callable[[], object], sound: Callable[[], bool]) -> dict[str, Any]:
    """Every turn of an act until it comes to its end; the turns after which something was not as it should be."""
    turn, wrong = 0, []
    while True:
        begin()
        cut = killed(act, turn)
        if not sound():
            wrong.append(turn)
        if not cut:
            return {"turns": turn, "wrong": wrong}
        turn += STRIDE


def main() -> None:
    with placed() as (driver, before):
        one = after(Rules(), FIRST)

        def first() -> None:
            driver.apply(FIRST)

        def second() -> None:
            driver.apply(SECOND)

        def gone() -> bool:
            driver.revert(before)
            return nothing_left() and driver.read() == Rules()

        def mended() -> bool:
            # what a killed first apply left is in force whole, or not at all
            whole = driver.read() in (Rules(), one)
            first()
            return whole and driver.read() == one and gone()

        def finished() -> bool:
            second()
            return driver.read() == after(one, SECOND) and gone()

        found = {
            "apply, reverted": swept(gone, first, gone), "apply, applied again": swept(gone, first, mended),
            "change, reverted": swept(first, second, gone), "change, made again": swept(first, second, finished),
            "revert, reverted": swept(first, lambda: driver.revert(before), gone),
        }  # fmt: skip
        print(json.dumps(found))


if __name__ == "__main__":
    main()
