# SPDX-License-Identifier: MIT
"""`learn serve --local` begins again on its own database."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.model.errors import BadInput, ConfigtronError
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.makers import grid_of
from configtron.service.learning.serve_local import LearningThread, ServeOptions
from configtron.service.lease.options import LeaseOptions

GRID = grid_of([Profile("fast", (("initcwnd", 20),))])


def test_a_second_start_with_the_same_process_number_is_a_term_of_its_own(tmp_path: Path) -> None:
    """In a container the process has the same number at each start: the second one ended with a database error."""
    terms = []
    for boot in ("one", "two"):
        learner = LearningThread(tmp_path / "a.db", LoopMapMaker(LoopOptions(GRID), b"k" * 16), lambda profile: "",
                                 SigningKey(b"s" * 32), boot)  # fmt: skip
        try:
            terms.append((learner.begun().core.term, os.getpid()))
        finally:
            learner.end()
    assert terms == [(1, os.getpid()), (2, os.getpid())]


def test_a_fault_of_the_learner_ends_the_loop_with_one_line(tmp_path: Path) -> None:
    """The thread ended in a traceback, and the other half went on without a learner."""

    class Faulty(LoopMapMaker):
        def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
            raise ZeroDivisionError("a fault\nof two lines")

    learner = LearningThread(tmp_path / "a.db", Faulty(LoopOptions(GRID), b"k" * 16), lambda profile: "",
                             SigningKey(b"s" * 32), "one")  # fmt: skip
    try:
        with pytest.raises(
            ConfigtronError, match=r"test_serve_starts\.py:\d+ \(ZeroDivisionError: a fault of two lines\)"
        ):
            learner.begun()
    finally:
        learner.end()


def test_port_that_is_none_is_refused(tmp_path: Path) -> None:
    """It ended in a traceback at bind()."""
    with pytest.raises(BadInput, match="port: 99999"):
        ServeOptions(LeaseOptions(tmp_path / "a.db"), tmp_path, port=99_999)
