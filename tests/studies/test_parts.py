# SPDX-License-Identifier: MIT
"""Parts of a study: each is done once, kept whole, resumed; one that fails says why and stops no other."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configtron.lab.testbed import measure
from configtron.model.errors import BadInput
from configtron.model.samples import Pairs
from configtron.studies.guests.part_boot import RESULT_FILE
from configtron.studies.guests.parts import Part, kept, performed
from configtron.studies.registry.kinds import Arguments, PartsProgress
from tests.support import ROOT
from tests.support.lab import pretended_guest as pretend
from tests.support.studies import echo
from tests.support.waiting import until

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
    steps: list[PartsProgress] = []
    given = Arguments(tmp_path, seed=7, jobs=2, progress=steps.append)
    found = performed(given, parts("a", "b", "c"))
    assert [one.text for one in found] == ["a 7", "b 7", "c 7"] and not any(one.why for one in found)
    assert [step.done for step in steps] == [0, 1, 2, 3] and {step.parts for step in steps} == {3}


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
@pytest.mark.usefixtures("pretended")
def test_the_software_of_parts_is_reported(tmp_path: Path) -> None:
    """Of those that were kept too, and of none that failed."""
    seen: list[Pairs] = []
    performed(Arguments(tmp_path, used=seen.append), parts("a", "fail"))
    assert seen == [pretend.SOFTWARE]
    (tmp_path / "part-a" / measure.SOFTWARE).write_text('{"kernel":"another"}')
    seen.clear()
    performed(Arguments(tmp_path, used=seen.append), parts("a", "b"))
    assert seen == [(("kernel", "another"),), pretend.SOFTWARE]


@pytest.mark.slow
@pytest.mark.usefixtures("pretended")
def test_a_part_that_fails_says_why_and_stops_no_other(tmp_path: Path) -> None:
    bad, good = performed(Arguments(tmp_path), parts("fail", "a"))
    assert bad.text == "" and "asked to fail" in bad.why and "exit code 2" in bad.why
    assert good.text == "a 1"
    with pytest.raises(BadInput, match="one name"):
        performed(Arguments(tmp_path), parts("a", "a"))


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
