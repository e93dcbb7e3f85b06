# SPDX-License-Identifier: MIT
"""Parts of a study: each is done once, kept whole, resumed; one that fails says why and stops no other. On a cluster of
Dask on this host: the same files; a killed worker's part is done again, no other."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from configtron.fleet.transport.dask_client import SchedulerLost
from configtron.lab.testbed import measure
from configtron.model.errors import INTERRUPTED, BadInput, Refused
from configtron.model.samples import Pairs
from configtron.studies.guests.part_boot import RESULT_FILE
from configtron.studies.guests.parts import Part, PartResult, kept, performed
from configtron.studies.registry.kinds import Arguments, PartsProgress
from tests.support import ROOT
from tests.support.lab import pretended_guest as pretend
from tests.support.local_cluster import scheduler, worker
from tests.support.studies import echo
from tests.support.waiting import PATIENCE_S, until

MODULE = "tests.support.studies.echo"


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "guests", echo.guests)


def parts(*orders: str) -> list[Part]:
    return [Part(f"part-{one}", MODULE, one) for one in orders]


def done_so_often(folder: Path) -> int:
    return len((folder / "counter").read_text())


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_parts_are_done_in_any_number_and_reported_in_order(tmp_path: Path) -> None:
    steps, seen = list[PartsProgress](), list[Pairs]()
    given = Arguments(tmp_path, seed=7, jobs=2, progress=steps.append, used=seen.append)
    bad, *found = performed(given, parts("fail", "a", "b"))
    assert [one.text for one in found] == ["a 7", "b 7"] and not any(one.why for one in found)
    assert bad.text == "" and "asked to fail" in bad.why and "exit code 2" in bad.why, "it stops no other"
    assert [step.done for step in steps] == [0, 1, 2, 3] and {step.parts for step in steps} == {3}
    # the software of parts is reported, of those that were kept too, and of none that failed
    assert seen == [pretend.SOFTWARE] * 2
    (tmp_path / "part-a" / measure.SOFTWARE).write_text('{"kernel":"another"}')
    seen.clear()
    performed(given, parts("a", "b"))
    assert seen == [(("kernel", "another"),), pretend.SOFTWARE]
    with pytest.raises(BadInput, match="one name"):
        performed(given, parts("a", "a"))


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_what_is_whole_is_not_done_again(tmp_path: Path) -> None:
    performed(Arguments(tmp_path), parts("a"))
    found = performed(Arguments(tmp_path), parts("a", "b"))
    assert [one.text for one in found] == ["a 1", "b 1"]
    assert [done_so_often(tmp_path / f"part-{one}") for one in "ab"] == [1, 1]
    # another seed, or other orders under the same name, are another part
    assert performed(Arguments(tmp_path, seed=2), parts("a"))[0].text == "a 2"
    assert performed(Arguments(tmp_path, seed=2), [Part("part-a", MODULE, "z")])[0].text == "z 2"
    assert done_so_often(tmp_path / "part-a") == 3


def test_a_longer_list_and_a_module_as_good_answer_too(tmp_path: Path) -> None:
    """The text has a line for each of the orders; the first lines are asked for."""
    folder, given = tmp_path / "p", Arguments(tmp_path)
    folder.mkdir()
    (folder / "part.json").write_text(Part("p", "more", '[{"a":1},{"a":12}]').to_json(1))
    (folder / RESULT_FILE).write_text("first\nsecond\n")
    assert kept(given, Part("p", "less", '[{"a":1},{"a":12}]', "more", lists=True)) == "first\nsecond\n"
    assert kept(given, Part("p", "less", '[{"a":1}]', "more", lists=True)) == "first\n"
    for other in ('[{"a":12}]', '[{"a":1},{"a":1}]', '[{"a":1},{"a":12},{"a":3}]'):
        assert kept(given, Part("p", "less", other, "more", lists=True)) == ""
    assert kept(given, Part("p", "less", '[{"a":1}]', "more")) == "", "its text is of no list"
    assert kept(given, Part("p", "less", '[{"a":1},{"a":12}]', lists=True)) == "", "another module leaves less"


@pytest.mark.slow
def test_a_killed_study_keeps_what_is_whole(tmp_path: Path) -> None:
    """kill -9 while the second part is under way: the first is kept, the second is not, and its guest is gone."""
    program = (
        "import sys; from pathlib import Path; from configtron.lab.testbed import measure;"
        "from configtron.studies.guests.parts import performed;"
        "from configtron.studies.registry.kinds import Arguments;"
        "from tests.support.studies import echo; from tests.studies.test_parts import parts;"
        "measure.guests = echo.guests; performed(Arguments(Path(sys.argv[1])), parts('a', 'slow'))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    until((tmp_path / "part-slow" / "counter").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first, second = parts("a", "slow")
    assert kept(Arguments(tmp_path), first) == "a 1" and kept(Arguments(tmp_path), second) == ""
    assert (tmp_path / "part-slow" / "counter").exists() and not (tmp_path / "part-slow" / RESULT_FILE).exists()


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("distributed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "guests", echo.guests)
    with scheduler(tmp_path / "scratch") as made:
        yield made


def arguments(folder: Path, local: Any, **more: Any) -> Arguments:
    return Arguments(folder, seed=7, worker="unused", cluster=local.scheduler_address, **more)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def begun(path: Path) -> str:
    """A letter for each time that a part was begun which waits for this file."""
    mark = path.with_name(f"{path.name}.begun")
    return mark.read_text() if mark.exists() else ""


@pytest.mark.slow
def test_a_cluster_leaves_the_files_that_this_host_leaves(local: Any, tmp_path: Path) -> None:
    steps: list[PartsProgress] = []
    used: list[Pairs] = []
    with worker(local, tmp_path / "scratch"):
        given = arguments(tmp_path / "away", local, progress=steps.append, used=used.append)
        away = performed(given, parts("a", "fail", "b"))
    here = performed(Arguments(tmp_path / "here", seed=7, jobs=2), parts("a", "fail", "b"))
    assert [one.text for one in away] == [one.text for one in here] == ["a 7", "", "b 7"]
    assert files(tmp_path / "away") == files(tmp_path / "here")
    assert away[1].why == here[1].why.replace("/here/", "/away/") and "asked to fail" in away[1].why
    assert [step.done for step in steps] == [0, 1, 2, 3] and used == [pretend.SOFTWARE] * 2
    # what is whole is not done again, and needs no cluster
    assert performed(given, parts("a", "b"))[0].text == "a 7"
    assert performed(Arguments(tmp_path / "away", seed=7), parts("b"))[0].text == "b 7"


@pytest.mark.slow
def test_a_killed_workers_part_is_done_again_and_no_other(local: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    wanted = [Part(path.name, MODULE, f"wait:{path}") for path in (first, second)]
    found: list[PartResult] = []
    study = threading.Thread(target=lambda: found.extend(performed(arguments(tmp_path / "away", local), wanted)))
    with ExitStack() as stack:
        killed = stack.enter_context(worker(local, tmp_path / "scratch"))
        study.start()
        first.touch()
        until(lambda: begun(second) == "x" and (tmp_path / "away" / "first" / RESULT_FILE).exists())
        killed.kill()
        stack.enter_context(worker(local, tmp_path / "scratch"))
        until(lambda: begun(second) == "xx")
        second.touch()
        study.join(PATIENCE_S)
    assert [one.text for one in found] == [f"wait:{first} 7", f"wait:{second} 7"]
    assert begun(first) == "x", "its result was taken before its worker was killed"


@pytest.mark.slow
def test_a_worker_of_another_version_is_refused(local: Any, tmp_path: Path) -> None:
    with worker(local, tmp_path / "scratch", "0.0.9"), pytest.raises(Refused, match=r"has configtron 0\.0\.9, this"):
        performed(arguments(tmp_path / "away", local), parts("a"))
    assert not (tmp_path / "away" / "part-a").exists()


def test_a_cluster_without_workers_is_refused(local: Any, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="it has no worker; start one: dask worker tcp://127"):
        performed(arguments(tmp_path / "away", local), parts("a"))


@pytest.mark.slow
def test_a_scheduler_that_is_lost_ends_the_study_in_one_line(local: Any, tmp_path: Path) -> None:
    mark, raised = tmp_path / "first", list[BaseException]()

    def study() -> None:
        with pytest.raises(SchedulerLost) as caught:
            performed(arguments(tmp_path / "away", local), [Part("first", MODULE, f"wait:{mark}")])
        raised.append(caught.value)

    running = threading.Thread(target=study)
    with worker(local, tmp_path / "scratch"):
        running.start()
        until(lambda: begun(mark) == "x")
        local.close()
        running.join(PATIENCE_S)
    assert "the scheduler is lost" in str(raised[0]) and SchedulerLost.code == INTERRUPTED
