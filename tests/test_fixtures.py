# SPDX-License-Identifier: MIT
"""The recordings in fixtures/: complete, small, right by the lab's truth, the same when played again; able to fail."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from configtron.fingerprint import INFERENCES
from configtron.lab.internet.impairments import IMPAIRMENTS
from configtron.lab.internet.truth import oracle
from configtron.model import pcapng
from configtron.model.errors import Diverged
from configtron.model.nouns import Observation, Trace
from configtron.model.records import Json, pairs_of, value_of
from configtron.probe.play import Recorded
from configtron.probe.wire.pcap import OPENING
from configtron.report.allowed_verdict import Judged, is_right
from configtron.report.replay_results import DIFFERS, DIVERGED, MISSING, SAME
from configtron.service.replay import expected
from configtron.service.replay.playing import Task, play
from fixtures.mint import FOLDER_BYTES, HERE, ORIGIN, RECORDING, REGION, group, host_of, internet_of
from fixtures.recipes import RECIPES, Recipe
from tests.support import ROOT
from tests.support.rules import offenders

TOTAL_BYTES = 3_000_000
ICW = HERE / "icw" / "10"


def task(folder: Path) -> Task:
    return Task(folder / RECORDING, RECORDING, folder / expected.KEPT)


def observed(recipe: Recipe) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / recipe.name / expected.KEPT).read_text())
    return found


def test_folders_are_the_recipes() -> None:
    folders = {str(path.parent.relative_to(HERE)) for path in HERE.rglob(RECORDING)}
    assert folders == set(RECIPES) and len(folders) >= 60
    # tensor/ and worlds/ hold no recordings: tests/test_tensor_fixture.py, tests/studies/test_worldfile.py
    parts = {"__pycache__", "tensor", "worlds"}
    files = [path for path in HERE.rglob("*") if path.is_file() and not parts & set(path.parts)]
    assert Counter(path.name for path in files if path.parent.parent != HERE.parent) == Counter(
        {name: len(RECIPES) for name in (RECORDING, ORIGIN, expected.KEPT)}
    )
    assert sum(path.stat().st_size for path in files) < TOTAL_BYTES


def everywhere(rule: Callable[[Recipe], None]) -> None:
    assert offenders(rule, RECIPES.values(), lambda recipe: recipe.name) == {}


def replays_the_same(recipe: Recipe) -> None:
    played = play(task(HERE / recipe.name)).played
    assert played and {one.status for one in played} == {SAME}
    assert sum(path.stat().st_size for path in (HERE / recipe.name).iterdir()) <= FOLDER_BYTES


@pytest.mark.slow
def test_a_recording_replays_as_it_was_read_live() -> None:
    everywhere(replays_the_same)


def is_true(recipe: Recipe) -> None:
    """The lab's truth, drawn again from the recipe, admits every verdict, and has one for what the folder is about."""
    wanted = oracle(internet_of(group(recipe)), REGION, host_of(recipe))
    record = observed(recipe)[-1]
    assert record["schema"] and record["target"]["host"] == host_of(recipe)
    for knob, form in record["observations"].items():
        verdict = _verdict(knob, form)
        if knob in wanted and (verdict.value is not None or knob in recipe.about):
            assert is_right(Judged(REGION, host_of(recipe), knob, verdict, wanted[knob])), (knob, form["text"])
    assert set(recipe.about) <= set(record["observations"])


def test_what_is_kept_is_true() -> None:
    everywhere(is_true)


def _verdict(knob: str, form: dict[str, Json]) -> Observation:
    given = form.get("value")
    value, reason = (None, str(form["reason"])) if given is None else (value_of(given), None)
    return Observation(knob, value, reason, grade=str(form["grade"]), details=pairs_of(form["details"]))


def names_its_origin(recipe: Recipe) -> None:
    origin = json.loads((HERE / recipe.name / ORIGIN).read_text())
    assert (origin["recipe"], origin["note"]) == (recipe.name, recipe.note)
    assert origin["command"] == f"python -m fixtures.mint {recipe.name}"
    assert set(origin["truth"]) == set(recipe.about) & set(oracle(internet_of([recipe]), REGION, host_of(recipe)))
    wanted = oracle(internet_of(group(recipe)), REGION, host_of(recipe))
    for knob, form in origin["truth"].items():
        assert form == json.loads(json.dumps(asdict(wanted[knob]))), knob


def test_a_folder_says_where_it_comes_from() -> None:
    everywhere(names_its_origin)


def test_every_trouble_of_the_lab_has_a_folder() -> None:
    troubles = {recipe.trouble for recipe in RECIPES.values()}
    named = {row.name.partition(":")[0] for row in IMPAIRMENTS}
    missing = named - {name.partition(":")[0] for name in troubles}
    assert missing == {"mixed-abroad"}


# That all of this can fail.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ICW, tmp_path / "icw"))


def blocks(folder: Path) -> list[pcapng.Block]:
    with gzip.open(folder / RECORDING) as file:
        file.read(len(OPENING))
        return list(pcapng.blocks(file))  # type: ignore[arg-type]


def altered(folder: Path, number: int, change: Any) -> None:
    """Change the bytes of one packet of the recording."""
    frames = [pcapng.captured(block.body) for block in blocks(folder)]
    frames[number - 1] = frames[number - 1]._replace(data=change(frames[number - 1].data))
    (folder / RECORDING).write_bytes(gzip.compress(OPENING + b"".join(map(pcapng.packet, frames)), mtime=0))


def first(folder: Path, way: str, flags: int) -> int:
    """Number of the first frame that goes that way with these TCP flags and some payload, if it is no SYN."""
    for number, block in enumerate(blocks(folder), 1):
        frame = pcapng.captured(block.body)
        if frame.way == way and frame.data[33] & 0x3F == flags and number > 1:
            return number
    raise AssertionError("no such packet")


def statuses(folder: Path) -> Counter[str]:
    return Counter(one.status for one in play(task(folder)).played)


def test_a_byte_of_ours_that_changes_diverges(folder: Path) -> None:
    altered(folder, first(folder, "out", 0x18), lambda data: data[:-3] + b"?" + data[-2:])
    (one,) = [one for one in play(task(folder)).played if one.status == DIVERGED]
    assert "the recording:" in one.message and "the script:" in one.message
    assert one.message.count("PSH|ACK seq 1 ack 1") == 2, "both packets"


@pytest.mark.parametrize(
    ("flags", "after", "change"),
    [
        # the window that a SYN-ACK announces is one byte of one packet, and another reading
        (0x12, 0, lambda data: data[:8] + b"\x07" + data[9:]),
        (0x12, 0, lambda data: data[:27] + b"\xee" + data[28:]),
        # a packet that is gone
        (0x10, 2, lambda data: data[:4] + b"\x00\x00" + data[6:36] + b"\0\0\0\0"),
    ],
)
def test_a_byte_of_theirs_that_changes_is_seen(
    folder: Path, flags: int, after: int, change: Callable[[bytes], bytes]
) -> None:
    altered(folder, first(folder, "in", flags) + after, change)
    assert statuses(folder)[SAME] < statuses(ICW)[SAME]


def test_a_recording_that_is_gone_is_missed(folder: Path) -> None:
    data = gzip.decompress((folder / RECORDING).read_bytes())
    ends = [form["evidence_end"] for form in observed(RECIPES["icw/10"]) if form.get("frames")]
    (folder / RECORDING).write_bytes(gzip.compress(data[: min(ends)]))
    assert statuses(folder)[MISSING] == len(ends) - 1


def test_a_reader_that_changes_its_mind_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    row = INFERENCES["icw"]

    def one_more(o: Observation) -> Observation:
        return replace(o, value=o.value + 1) if o.knob == "icw" and isinstance(o.value, int) else o

    def off_by_one(trace: Trace) -> tuple[Observation, ...]:
        return tuple(map(one_more, row.infer(trace)))

    monkeypatch.setitem(INFERENCES, "icw", replace(row, infer=off_by_one))
    played = play(task(ICW)).played
    changed = [one for one in played if one.status == DIFFERS]
    found = {difference.name: difference.replayed for one in changed for difference in one.differences}
    assert found["icw.value"] == "11"


def test_a_script_that_waits_too_little_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configtron.probe.withhold.PATIENCE_S", 0.05)
    assert statuses(ICW)[DIVERGED]


def test_a_script_that_never_ends_is_stopped() -> None:
    wire = Recorded(())
    with pytest.raises(Diverged, match="again and again"):
        for n in range(20_000):
            wire.receive(float(n))


def test_the_page_lists_every_family() -> None:
    page = (ROOT / "fixtures" / "README.md").read_text()
    families = {name.partition("/")[0] for name in RECIPES}
    assert set(re.findall(r"^\| `(\w+)/` \|", page, re.M)) == families
