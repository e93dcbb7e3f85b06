# SPDX-License-Identifier: MIT
"""Archives: packets as bytes, manifests, the site in Chromium; and a run that is made again from its page's command."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import math
import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from configtron.cli.outermost import run as run_command
from configtron.lab.testbed import measure
from configtron.lab.testbed.transits import Transits
from configtron.lab.uml.user_mode_linux import UmlVirtual
from configtron.model.errors import DONE, USAGE, BadInput
from configtron.studies.archive import manifest as archive
from configtron.studies.archive import site
from configtron.studies.archive.figures import SLICES, over_time
from configtron.studies.archive.manifest import MANIFEST, PACKETS, chosen, manifest
from configtron.studies.flows.flows import (
    GUEST,
    LOGGING_GUEST,
    FlowOutcome,
    TrialOutcome,
    orders_of,
    outcomes_text,
)
from configtron.studies.flows.logged import log_path
from configtron.studies.flows.packet_log import packed, unpacked
from configtron.studies.guests.part_boot import ORDERS_FILE, RESULT_FILE
from configtron.studies.guests.parts import Part
from configtron.studies.pantheon import PantheonPlan
from configtron.studies.registry.kinds import Arguments
from tests.support.headless import HeadlessPage

PLAN = PantheonPlan(("pantheon:2", "pantheon:16"), ("cubic", "vegas", "copa"), (1, 3), 2, 4.0, 1.0)
HOSTILE = "<script>document.title='run'</script>"
# Five packets, the second lost: 1 ms apart, 30 ms late.
SENT = np.arange(5, dtype=np.int64) * 1_000_000
FLOW = Transits(SENT, np.where(SENT == 1_000_000, -1, SENT + 30_000_000), np.full(5, 1500, np.int64))


def test_packets_come_back_and_equal_packets_are_equal_bytes() -> None:
    arrived = np.where(FLOW.arrived, FLOW.arrived_ns + 7 * 10**9, -1)
    later = FLOW._replace(sent_ns=SENT + 7 * 10**9, arrived_ns=arrived)
    data = packed([FLOW, FLOW], 0)
    assert data == packed([later, later], 7_000_000_000), "times are since the trial's beginning"
    assert data[4:8] == bytes(4), "no time in the head"
    for back in unpacked(data):
        assert all((was == now).all() for was, now in zip(FLOW, back, strict=True))
    assert unpacked(packed([], 0)) == []
    with pytest.raises(BadInput, match="no log of packets"):
        unpacked(data[:-9])


def test_time_series_are_of_the_packets() -> None:
    mbit, late, loss = over_time([FLOW], ["cubic 1"], 0.06)
    # 60 slices of 1 ms: 12 000 bits arrive in each of four of them
    rates = [y for _, y, _, _ in mbit.series[0].points]
    assert len(rates) == SLICES and rates[30] == rates[32] == pytest.approx(12.0) and rates[31] == rates[0] == 0
    assert [y for _, y, _, _ in late.series[0].points] == [30.0] * 4
    assert [y for _, y, _, _ in loss.series[0].points] == [0, 100, 0, 0, 0]


def test_a_pattern_names_runs() -> None:
    parts = PLAN.parts(1)
    assert chosen(parts, "") == parts
    one = chosen(parts, "pantheon-2-flows1-run0/vegas")
    # the trials before it are run too: a guest's later trials stand on its earlier ones
    assert [[archive.scheme_of(trial) for trial in trials] for trials in one.values()] == [["cubic", "vegas", "copa"]]
    assert len(chosen(parts, "pantheon-16-*/cubic")) == 4
    with pytest.raises(BadInput, match="one is pantheon-2-flows1-run0/cubic"):
        chosen(parts, "pantheon:2")


def outcome(run: int, scheme: str, count: int) -> TrialOutcome:
    if scheme == "copa" and run:
        return TrialOutcome((FlowOutcome(0.0, math.nan, 0.0, 0, 0, HOSTILE, scheme=scheme),) * count)
    return TrialOutcome((FlowOutcome(2.0 + run, 60.0, 0.01, 1500, 1000, scheme=scheme),) * count)


def stored(folder: Path, module: str = LOGGING_GUEST) -> Arguments:
    """A folder of parts as guests leave it: all but the last part."""
    parts = PLAN.parts(1)
    for name in list(parts)[:-1]:
        trials, place = parts[name], folder / name
        place.mkdir(parents=True)
        (place / ORDERS_FILE).write_text(Part(name, module, orders_of(trials)).to_json(1))
        (place / measure.SOFTWARE).write_text('{"kernel":"1"}')
        flows = [outcome(int(name[-1]), archive.scheme_of(trial), len(trial.flows)) for trial in trials]
        (place / RESULT_FILE).write_text(outcomes_text(flows))
        for number, trial in enumerate(trials):
            log_path(place, number).write_bytes(packed([FLOW] * len(trial.flows), 0))
    return Arguments(folder, seed=1)


def written(folder: Path, module: str = LOGGING_GUEST) -> Path:
    assert site.write(stored(folder / "parts", module), folder / "site", "pantheon", PLAN.parts(1)) == 7 * 3
    return folder / "site"


@pytest.mark.slow
def test_the_site_has_a_folder_a_run_and_the_same_runs_give_the_same_site(tmp_path: Path) -> None:
    place, two = written(tmp_path / "one"), written(tmp_path / "two")
    files = sorted(path.relative_to(place) for path in place.rglob("*") if path.is_file())
    assert len(files) == 21 * 3 + 3
    assert [(place / file).read_bytes() for file in files] == [(two / file).read_bytes() for file in files]
    folders = [file.parent for file in files if file.name == MANIFEST]
    assert len(folders) == 21 and str(folders[0]) == "runs/pantheon-16-flows1-run0/copa"
    form, data = json.loads((place / folders[0] / MANIFEST).read_text()), (place / folders[0] / PACKETS).read_bytes()
    assert (form["scheme"], form["path"], form["seed"], form["flows"]) == ("copa", "pantheon:16", 1, 1)
    assert form["files"] == {PACKETS: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    assert form["command"] == (
        "configtron replay study pantheon --seed 1 --only pantheon-16-flows1-run0/copa --archive --folder again "
        "--site again-site"
    )
    pages = {place / file: (place / file).read_text() for file in files if file.suffix == ".html"}
    assert len(pages) == 21 + 2 + 1
    for path, page in pages.items():
        assert not any(word in page for word in ("<script", "http://", "https://")), path
        assert "default-src 'none'" in unescape(page)
        # every link leads to a file of the site
        for link in re.findall(r'href="([^"]*)"', page):
            assert (path.parent / link).is_file(), (path, link)


def test_runs_without_packets_have_figures_and_no_series(tmp_path: Path) -> None:
    place = written(tmp_path, GUEST)
    assert not list(place.rglob(PACKETS))
    page = (place / "runs" / "pantheon-2-flows1-run0" / "cubic" / "index.html").read_text()
    assert "--archive" not in page and "2.000" in page and "Throughput" not in page


def test_a_part_that_is_changed_or_absent_has_no_runs(tmp_path: Path) -> None:
    arguments, parts = stored(tmp_path), PLAN.parts(1)
    before = {run.name: manifest(run) for run in archive.runs(arguments, "pantheon", parts)}
    log_path(tmp_path / "pantheon-2-flows1-run0", 0).write_bytes(packed([FLOW, FLOW], 0))
    after = {run.name: manifest(run) for run in archive.runs(arguments, "pantheon", parts)}
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["pantheon-2-flows1-run0/cubic"], "a manifest changes with what it is of"
    (tmp_path / "pantheon-2-flows1-run0" / ORDERS_FILE).write_text("{}")
    found = archive.runs(arguments, "pantheon", parts)
    assert len(found) == 6 * 3 and not any(run.part == "pantheon-2-flows1-run0" for run in found)
    assert archive.runs(Arguments(tmp_path, seed=2), "pantheon", PLAN.parts(2)) == []
    with pytest.raises(BadInput, match="no run is complete"):
        site.write(Arguments(tmp_path, seed=2), tmp_path / "site", "pantheon", PLAN.parts(2))


def test_damaged_packets_are_named(tmp_path: Path) -> None:
    """Cut off, one byte turned here and there, other text in it, gone."""
    arguments = stored(tmp_path / "parts")
    file = log_path(arguments.folder / next(iter(PLAN.parts(1))), 0)
    whole = file.read_bytes()
    turned = [bytes([*whole[:at], whole[at] ^ 0xFF, *whole[at + 1 :]]) for at in range(10, len(whole), 3)]
    huge = gzip.compress(gzip.decompress(whole) + b"0,99999999999999999999,1,1\n")
    for data in (b"", whole[:-9], gzip.compress(b"words"), huge, *turned, None):
        file.unlink() if data is None else file.write_bytes(data)
        why = "No such file" if data is None else "no log of packets"
        with pytest.raises(BadInput, match=f"{re.escape(str(file))}: {why}.*run again with --archive"):
            site.write(arguments, tmp_path / "site", "pantheon", PLAN.parts(1))


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    arguments = stored(tmp_path / "parts")
    with monkeypatch.context() as patch, pytest.raises(BadInput, match=r"site: No space left"):
        patch.setattr(Path, "write_text", full)
        site.write(arguments, tmp_path / "site", "pantheon", PLAN.parts(1))


SHOWN = "[...document.querySelectorAll('tr.run')].filter(row => getComputedStyle(row).display !== 'none').length"
POINTS = "[...document.querySelectorAll('circle.run')].filter(dot => getComputedStyle(dot).display !== 'none').length"


@pytest.mark.slow
def test_filters_work_in_a_browser_and_nothing_is_requested(tmp_path: Path) -> None:
    place = written(tmp_path)

    def choose(name: str, value: str) -> str:
        return (
            f"(() => {{ const one = document.querySelector('#{name}');"
            f" one.value = [...one.options].find(each => each.text === '{value}').value; return one.value }})()"
        )

    with HeadlessPage(place / "index.html", 1200, tmp_path) as page:
        # copa has no figures in the second run: 3 parts of run1 are complete, each with one such row and no point
        assert (page.value(SHOWN), page.value(POINTS)) == (21, 18)
        for name, value, rows in (
            ("path", "pantheon:2", 12), ("scheme", "copa", 4), ("flows", "3", 2), ("path", "all", 3),
        ):  # fmt: skip
            page.value(choose(name, value))
            assert page.value(SHOWN) == rows, (name, value)
        assert page.value(POINTS) == 2, "of 3 shown runs one has no figures"
        assert page.value("document.title") == "Runs of pantheon", "no text of a run is run"
        assert page.value("document.body.scrollWidth <= innerWidth")
        assert page.requested == [(place / "index.html").as_uri()]
    for path in (place / "runs/pantheon-2-flows3-run1/copa/index.html", place / "paths/pantheon-2.html"):
        with HeadlessPage(path, 400, tmp_path) as page:
            assert page.requested == [path.as_uri()] and page.value("document.querySelectorAll('svg').length") >= 2
            assert page.value("document.body.scrollWidth <= innerWidth"), path
            assert HOSTILE in page.value("document.body.textContent") and page.value("document.title") != "run"


def test_options_are_for_studies_with_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--db", str(tmp_path / "x.db"), "replay", "study"]
    assert run_command([*words, "lessons", "--site", str(tmp_path / "site")]) == USAGE
    assert "not for lessons" in capsys.readouterr().err
    assert run_command([*words, "pantheon", "--only", "none", "--folder", str(tmp_path)]) == USAGE
    assert "the study has no run of that name" in capsys.readouterr().err


@pytest.mark.root
@pytest.mark.lab
def test_a_run_is_made_again_from_its_pages_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second scheme of a boot of three; nothing but the page's own line is used."""
    if reason := UmlVirtual().available():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    part, mine = "pantheon-16-flows1-run0", Path("pantheon-16-flows1-run0", "vegas")
    first = shlex.split(f"--db x.db replay study pantheon --smoke --seed 5 --only '{part}/*' --archive --site site")
    assert run_command(first) == DONE
    page = (tmp_path / "site" / "runs" / mine / "index.html").read_text()
    found = re.search(r'<code class="remade">([^<]*)</code>', page)
    assert found is not None
    program, *words = shlex.split(unescape(found[1]))
    assert program == "configtron" and run_command(words) == DONE
    names = sorted(path.name for path in (tmp_path / "site" / "runs" / mine).iterdir())
    assert names == ["index.html", MANIFEST, PACKETS]
    for name in names:
        was, now = (tmp_path / place / "runs" / mine / name for place in ("site", "again-site"))
        assert was.read_bytes() == now.read_bytes(), name
    assert len(unpacked((tmp_path / "again-site" / "runs" / mine / PACKETS).read_bytes())[0].sent_ns) > 1000
    assert not (tmp_path / "again-site" / "runs" / part / "bbr").exists(), "no more than the run was asked for"
