# SPDX-License-Identifier: MIT
"""A manager whose learner is a process: it never waits for it, and no kill costs or doubles a row.

Times of the core are the tests' own; only how a process ends is awaited by the clock.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from configtron.db.fleet import FleetStore
from configtron.fleet.messages import Beat, Welcome, frame, from_manager
from configtron.model.errors import BadInput
from configtron.model.fleet import FleetMap, OutcomeRow
from configtron.model.nouns import Profile
from configtron.service.fleet.agent_limits import AgentLimits
from configtron.service.fleet.learner_process import HANG_S, AnswerReader, LearnerLine, LearnerProcess
from configtron.service.fleet.manager_core import MAKE_S, SAVE_S, ManagerCore
from configtron.service.fleet.map_learning import (
    MAKER,
    POSITION,
    InlineLearner,
    LearningAnswer,
    LearningAsk,
    MapLearning,
)
from configtron.service.fleet.map_maker import Barred, FixedMapMaker
from configtron.tune.guard import Bound, Limits
from tests.support.children import child
from tests.support.faults.descriptors import no_descriptors
from tests.support.fleet_rows import BEGUN_NS, fleet_rows
from tests.support.learner_makers import recipe, staged_policy
from tests.support.waiting import until

KEY = SigningKey(bytes(32))


class Run:
    """A manager's core on its own clock."""

    def __init__(self, folder: Path, learner: LearnerProcess, store: FleetStore, start: int) -> None:
        self.folder, self.learner, self.store, self.now = folder, learner, store, 1.0
        self.core = ManagerCore(store, learner, KEY, f"m{start}", BEGUN_NS)

    def tick(self, after_s: float = MAKE_S) -> None:
        self.now += after_s
        self.core.tick(self.now, BEGUN_NS + round(self.now * 1e9))

    def add(self, first: int, number: int) -> None:
        rows = [OutcomeRow("", "", at, BEGUN_NS, "a.example", "198.51.100.0/24", "0" * 16, 300.0)
                for at in range(first, first + number)]  # fmt: skip
        self.store.add_rows("web1", "b", first, rows, BEGUN_NS)

    def learned(self) -> list[int]:
        """Return the numbers of the rows that the stored state knows; it and its position are one transaction."""
        facts = self.store.facts()
        found: list[int] = json.loads(facts.get(MAKER, "[]"))
        assert len(found) == int(facts.get(POSITION, "0"))
        return found

    def turn(self) -> None:
        """Tick, and let time pass only while the process is idle: a busy machine's process does not hang."""
        self.tick(MAKE_S if self.learner.idle else 0.0)

    def until_learned(self, number: int) -> None:
        def known() -> bool:
            self.turn()
            return len(self.learned()) == number

        until(known)

    def until_busy(self) -> int:
        """Wait until the process is in its `make`; return the process."""
        (self.folder / "hanging").unlink(missing_ok=True)
        (self.folder / "hang").touch()

        def busy() -> bool:
            # Of an idle process the next question comes with a tick.
            self.turn()
            return (self.folder / "hanging").exists()

        until(busy)
        found = self.learner.pid
        assert found is not None
        return found


@contextmanager
def running(folder: Path, start: int = 1) -> Iterator[Run]:
    with FleetStore(folder / "m.db") as store:
        learner = LearnerProcess(recipe(folder / "m.db"), again_s=0.0)
        run = Run(folder, learner, store, start)
        try:
            yield run
        finally:
            run.core.close()


@pytest.mark.slow
def test_agents_are_answered_while_the_learner_makes_a_map(tmp_path: Path) -> None:
    """A manager answered nothing for seconds, while leases live for three."""
    with running(tmp_path) as run:
        run.add(1, 5)
        run.until_learned(5)
        run.store.enroll("web1", "k" * 40)
        run.until_busy()
        run.add(6, 1)
        run.tick(SAVE_S)
        (sent,) = run.core.receive(b"c", "k" * 40, frame(Beat()), run.now, BEGUN_NS)
        assert isinstance(from_manager(sent.data), Welcome)
        assert not run.learner.idle and len(run.learned()) == 5
        (tmp_path / "hang").unlink()
        run.until_learned(6)
        current = run.core.session.current
        assert current is not None and current.head.key == (6).to_bytes(16, "big")


def without_descriptors(run: Run) -> None:
    with no_descriptors():
        run.tick()


def killed(run: Run) -> None:
    os.kill(run.until_busy(), signal.SIGKILL)


def hanging(run: Run) -> None:
    pid = run.until_busy()
    run.tick(HANG_S - 1)
    assert run.learner.pid == pid
    run.tick(HANG_S)


def faulty(run: Run, file: str = "fault") -> None:
    (run.folder / file).touch()

    def over() -> bool:
        run.tick()
        return run.learner.pid is None

    until(over)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "starts", "line"), [
    (without_descriptors, 1, "the learner cannot be started: Too many open files;"),
    (killed, 2, "the learner has ended by signal 9; it is started again in 0 s; the map in force stays"),
    (hanging, 2, "the learner has not answered for 300 s and was killed;"),
    (faulty, 2, "the learner has ended: a fault of this program at learner_makers.py:"),
    (partial(faulty, file="end"), 2, "the learner has ended: a fault of this program at learner_makers.py:"),
])  # fmt: skip
def test_a_learner_that_ends_is_one_line_and_the_next_one_learns_each_row_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, plant: Callable[[Run], None], starts: int, line: str
) -> None:
    with running(tmp_path) as run:
        run.add(1, 3)
        if starts > 1:
            run.until_learned(3)
        before = run.core.session.current
        plant(run)
        run.add(4, 4)
        for name in ("hang", "fault", "end"):
            (tmp_path / name).unlink(missing_ok=True)
        assert run.core.session.current == before
        run.until_learned(7)
        assert run.learned() == [1, 2, 3, 4, 5, 6, 7] and run.learner.starts == starts
    lines = [one.getMessage() for one in caplog.records if "learner" in one.getMessage()]
    assert len(lines) == 1 and lines[0].startswith(line)


def test_a_learner_that_only_an_operator_can_mend_ends_the_manager_that_starts(tmp_path: Path) -> None:
    with FleetStore(tmp_path / "m.db") as store:
        learner = LearnerProcess(recipe(tmp_path / "m.db", "refusing"))
        run = Run(tmp_path, learner, store, 1)

        with pytest.raises(BadInput, match="no profile to choose from"):
            until(lambda: run.tick(0.01))


@pytest.mark.slow
def test_kills_of_either_at_any_moment_lose_and_double_no_row(tmp_path: Path) -> None:
    """The learner dies in `make`; the manager is replaced while the learner is busy, and before it has an answer."""
    for start in range(1, 3):
        with running(tmp_path, start) as run:
            run.add(10 * start - 9, 5)
            (tmp_path / "die").touch()
            run.until_learned(10 * start - 5)
            run.add(10 * start - 4, 5)
            if start % 2:
                run.until_busy()
            run.tick()
        (tmp_path / "hang").unlink(missing_ok=True)
    with running(tmp_path, 9) as run:
        run.until_learned(20)
        assert run.learned() == [*range(1, 21)]


@pytest.mark.slow
def test_the_learner_ends_with_its_manager(tmp_path: Path) -> None:
    """After `kill -9` of the manager no process of it stays."""
    program = (
        "import sys, time; from pathlib import Path; from configtron.db.fleet import FleetStore\n"
        "from configtron.service.fleet.learner_process import LearnerProcess\n"
        "from tests.support.learner_makers import recipe; from tests.service.fleet.test_learner_process import Run\n"
        "path = Path(sys.argv[1]); store = FleetStore(path / 'm.db')\n"
        "run = Run(path, LearnerProcess(recipe(path / 'm.db')), store, 1); run.add(1, 1); run.until_learned(1)\n"
        "print(run.learner.pid, flush=True); time.sleep(600)"
    )
    with child([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as manager:
        assert manager.stdout is not None
        learner = int(manager.stdout.readline())
        manager.kill()
        until(lambda: ended(learner))


def ended(pid: int) -> bool:
    """Return whether a process has ended. One whose parent was killed stays as a zombie."""
    path = Path(f"/proc/{pid}/stat")
    return not path.exists() or path.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
def test_a_process_answers_as_the_same_code_within_the_manager(tmp_path: Path) -> None:
    """Maps, reasons and facts are equal, byte for byte."""
    path = tmp_path / "m.db"
    rows = [row._replace(teaches=False, why_not="turn") if at % 50 == 0 else row
            for at, row in enumerate(fleet_rows(1, 1200))]  # fmt: skip
    with FleetStore(path) as store:
        inline = InlineLearner(MapLearning(store, *staged_policy(path, {})), True)
        other = LearnerProcess(recipe(path, "staged_policy", staged=True))
        current = None
        for turn in range(3):
            first = turn * 400
            numbered = [row._replace(sequence=first + at + 1, term=1, map_version=turn, class_name="", arm=None,
                                profile="", propensity=None, held=False)
                        for at, row in enumerate(rows[first : first + 400])]  # fmt: skip
            store.add_rows("web1", "b", first + 1, numbered, BEGUN_NS)
            ask = LearningAsk(BEGUN_NS + turn * 600 * 10**9, (1, turn + 1), b"x" * 16, 10**12, current, {}, ("web1",))
            inline.ask(ask, 0.0)
            other.ask(ask, 0.0)
            mine, theirs = inline.answer(0.0), list[LearningAnswer]()
            until(lambda: theirs.extend(filter(None, [other.answer(0.0)])) or theirs)  # noqa: B023
            assert mine is not None and mine.map is not None and theirs == [mine]
            current = mine.map
        assert current is not None and current.mixes
        other.close()


@pytest.mark.slow
def test_log_lines_of_the_learner_stand_in_the_managers_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with running(tmp_path) as run:
        (tmp_path / "speak").touch()
        run.add(1, 1)
        run.until_learned(1)
    assert [one.levelname for one in caplog.records if one.getMessage() == "rows came"] == ["WARNING"]


class Asked(FixedMapMaker):
    """What the maker was answered of a window of 64, paced."""

    answer = "not asked"

    def make(self, now_ns: int, barred: Barred) -> FleetMap | None:
        self.answer = barred(Profile("wide", (("initcwnd", 64), ("pacing", "fq"))))
        return None


@pytest.mark.parametrize(("learned", "bounds", "why"), [
    (True, {}, "agent web1: profile wide: initcwnd=64 is outside what a learner may try unasked"),
    (True, {"initcwnd": Bound(1, 64)}, ""), (False, {}, ""),
])  # fmt: skip
def test_a_wide_window_is_no_choice_of_a_learner_but_one_of_a_person(
    tmp_path: Path, learned: bool, bounds: dict[str, Bound], why: str
) -> None:
    maker = Asked(FleetMap(0, 0, {}, {}, {}, b"k" * 16, 0))
    with FleetStore(tmp_path / "m.db") as store:
        limits = {"web1": AgentLimits(Limits(bounds), {})}
        asked = LearningAsk(BEGUN_NS, (1, 1), b"x" * 16, 10**12, None, limits, ("web1",))
        MapLearning(store, maker, None, learned=learned).turn(asked)
    assert maker.answer.partition(",")[0] == why


@pytest.mark.parametrize("code", [os.getcwd, print, subprocess.Popen, LearnerProcess, Path])
def test_a_learner_sends_data_and_never_code(code: object) -> None:
    found = FleetMap(1, 2, {"p": Profile("p", (("initcwnd", 30),))}, {}, {"192.0.2.0/24": "c"}, b"k" * 16, 0)
    for said in (LearnerLine(logging.INFO, "x"), LearningAnswer(1, found, "why", {"a": "b"})):
        assert AnswerReader(BytesIO(pickle.dumps(said))).load() == said
    with pytest.raises(pickle.UnpicklingError, match="is no part of an answer"):
        AnswerReader(BytesIO(pickle.dumps(LearningAnswer(1, why=code)))).load()  # type: ignore[arg-type]
