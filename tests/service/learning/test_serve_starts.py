# SPDX-License-Identifier: MIT
"""`learn serve --local` begins again on its own database."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.learner.closed_loop import LoopOptions
from configtron.learner.loop_maker import LoopMapMaker
from configtron.model.errors import ConfigtronError
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.makers import grid_of
from configtron.service.learning.serve_local import LearningThread, barred_here, reachable_grid, until
from configtron.tune.guard import Limits

GRID = grid_of([Profile("fast", (("initcwnd", 20),))])


def begun(database: Path, kind: type[LoopMapMaker] = LoopMapMaker, boot: str = "one") -> int:
    """Begin the learning half, and end it; return its term."""
    learner = LearningThread(database, kind(LoopOptions(GRID), b"k" * 16), lambda profile: "",
                             SigningKey(b"s" * 32), boot)  # fmt: skip
    try:
        return learner.begun().core.term
    finally:
        learner.end()


def test_a_second_start_with_the_same_process_number_is_a_term_of_its_own(tmp_path: Path) -> None:
    """In a container the process has the same number at each start: the second one ended with a database error."""
    assert [begun(tmp_path / "a.db", boot=boot) for boot in ("one", "two")] == [1, 2]


def test_a_fault_of_the_learner_ends_the_loop_with_one_line(tmp_path: Path) -> None:
    """The thread ended in a traceback, and the other half went on without a learner."""

    class Faulty(LoopMapMaker):
        def make(self, now_ns: int, barred: Callable[[Profile], str]) -> FleetMap | None:
            raise ZeroDivisionError("a fault\nof two lines")

    with pytest.raises(ConfigtronError, match=r"program at test_serve_starts\.py:\d+ \(ZeroDivisionError: a fault of"):
        begun(tmp_path / "a.db", Faulty)


def test_no_client_draws_less_than_default_has() -> None:
    """12 % of the clients drew initcwnd=1 in the second map, without stages."""
    drawn = [dict(profile.settings) for profile in reachable_grid(barred_here(lambda _: "", Limits())).profiles]
    assert len(drawn) > 100 and not [each for each in drawn if each.get("initcwnd", 10) < 10]


@pytest.mark.parametrize(("asked", "span_s", "ended"), [(False, 60.0, False), (False, 0.0, True), (True, None, True),
                                                        (False, None, False)])  # fmt: skip
def test_it_serves_until_it_is_asked_or_a_time_is_over(asked: bool, span_s: float | None, ended: bool) -> None:
    assert until(lambda: asked, span_s)() == ended


@pytest.mark.root
def test_it_ends_at_once_where_no_driver_selects_ports(tmp_path: Path) -> None:
    """It ran on with the driver route, which it refused for each map, and every client had Default for ever."""
    words = ["setpriv", "--bounding-set=-bpf", "--inh-caps=-bpf", sys.executable, "-m", "configtron"]
    words += ["--db", str(tmp_path / "a.db"), "learn", "serve", "--for", "9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 5 and "ebpf: loading BPF programs needs CAP_BPF" in done.stderr
