# SPDX-License-Identifier: MIT
"""A memory driver whose memory all its instances of a test share, as the kernel's is: commands of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configtron.db.tuning import Tuning
from configtron.model.tuning import Changes, Place, Rules
from configtron.service.lease.context import LeaseContext, context_of
from configtron.tune.drivers.memory import MemoryDriver


class Stack:
    """What the memory is: reached by every driver that is loaded while the test runs."""

    def __init__(self) -> None:
        self.driver = MemoryDriver(Place())
        self.fail_apply: Exception | None = None
        self.fail_revert: Exception | None = None
        self.lose = False

    @property
    def rules(self) -> Rules:
        return self.driver.read()


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """The stack of this test."""
    shared = Stack()
    kinds = {name: getattr(MemoryDriver, name) for name in ("read", "apply", "revert", "mark")}

    def apply(_: MemoryDriver, changes: Changes) -> Rules:
        if shared.fail_apply is not None:
            raise shared.fail_apply
        if shared.lose:
            changes = Changes(changes.profiles, dict(list(changes.prefixes.items())[1:]))
        return kinds["apply"](shared.driver, changes)  # type: ignore[no-any-return]

    def revert(_: MemoryDriver, before: str) -> None:
        if shared.fail_revert is not None:
            raise shared.fail_revert
        kinds["revert"](shared.driver, before)

    monkeypatch.setattr(MemoryDriver, "apply", apply)
    monkeypatch.setattr(MemoryDriver, "revert", revert)
    monkeypatch.setattr(MemoryDriver, "read", lambda _: kinds["read"](shared.driver))
    monkeypatch.setattr(MemoryDriver, "mark", lambda _: kinds["mark"](shared.driver))
    yield shared


@pytest.fixture
def here(tmp_path: Path) -> Iterator[LeaseContext]:
    """The context of commands on a journal of this test."""
    with Tuning(tmp_path / "t.db") as book:
        yield context_of(book)
