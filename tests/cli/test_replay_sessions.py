# SPDX-License-Identifier: MIT
"""`configtron replay sessions`: the same bits after a kill; files and worlds as sources; studies."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from configtron.db.outcomes import Outcomes
from configtron.db.replays import Replays
from configtron.linux import signals
from configtron.model.errors import DONE, INTERRUPTED, USAGE, BadInput
from configtron.service.replay.capture_contexts import contexts_of
from configtron.studies.registry import catalogue, sessions_run
from configtron.studies.registry.sessions_run import SessionsOptions
from configtron.studies.sim import simulation
from configtron.studies.sim.session_job import Job, begin_job
from configtron.studies.sim.simulation import ReplayPace, part
from tests.support import ROOT
from tests.support.learn_command import Typed, replayed, rows, shown
from tests.support.waiting import until

# `configtron replay sessions` and signals: it ends soon wherever it is, and can go on from what was kept.


@pytest.mark.slow
def test_a_signal_stops_it_where_it_can_go_on(typed: Typed, tmp_path: Path) -> None:
    many = ("--tensor", "small.npz", "--sessions", "400000", "--policy", "default", "--classes", "5")
    command = [sys.executable, "-m", "configtron", "--db", str(tmp_path / "s.db"), "replay", "sessions", *many,
               "--update", "0.2", "-f", "jsonl"]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
                             env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip

    def begun() -> bool:
        try:
            with Replays(tmp_path / "s.db", read_only=True) as book:
                return bool(book.replay())
        except Exception:  # it is being made
            return child.poll() is not None

    until(begun)
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate()
    assert child.returncode in (INTERRUPTED, DONE, -signal.SIGTERM) and "Traceback" not in err
    if child.returncode == INTERRUPTED:
        assert out == "" and "--resume 1" in err


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    "words", [("sessions", "--policy", "default"), ("study", "knobs", "--seeds", "2")], ids=["policy", "study"]
)
def test_a_signal_is_not_waited_for(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], kind: signal.Signals
) -> None:
    """What never comes to a place where it stands whole is left where it is, and begun anew from what was kept."""
    tries: list[int] = []

    def endless(*given: object, **_: object) -> list[object]:
        tries.append(1)
        if len(tries) == 2:
            return []
        signal.raise_signal(kind)
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(signals, "GRACE_S", 0.01)
    monkeypatch.setattr(simulation if "--policy" in words else sessions_run, "part", endless)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)]
    code, out, err = typed("replay", *words, "--tensor", "small.npz")
    assert code == INTERRUPTED and out == "" and "interrupted; go on with" in err and "--resume 1" in err
    with Replays(tmp_path / "l.db") as book:
        assert book.replay().status == "interrupted" and book.found(1) == {}
    if "--policy" in words:
        assert typed("replay", "sessions", "--resume")[0] == DONE and len(tries) == 2
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM)] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_a_slow_policy_is_looked_at_more_often(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps halve while they take too long, and results do not show it."""
    whole, steps = replayed(typed, "--policy", "mab_nc"), []
    run = simulation.Replay.run

    def noted(replay: simulation.Replay, upto: int) -> None:
        steps.append(upto - replay.at_)
        run(replay, upto)

    # Each reading of the clock is a second after the last: every step takes longer than `look_s`.
    slow = simulation.ReplayPace(step=400, clock=itertools.count(0.0).__next__)
    monkeypatch.setattr(simulation, "part", partial(simulation.part, pace=slow))
    monkeypatch.setattr(simulation.Replay, "run", noted)
    assert replayed(typed, "--policy", "mab_nc") == whole
    assert steps[:4] == [400, 200, 100, 50] and steps[-1] == 1


FIXTURES = ROOT / "fixtures"
SMALL = ("replay", "sessions", "--tensor", "small.npz")


def declined(typed: Typed, says: str, *words: object) -> str:
    """A command ends with a line that says this; what it prints on standard error before that is progress."""
    code, out, err = typed(*words)
    assert code == USAGE and out == "" and says in err.splitlines()[-1], (words, err)
    return err


def test_rows_say_how_sessions_fared(typed: Typed) -> None:
    made = replayed(typed, "--policy", "default", "--policy", "optimal", "--pops", "local", sessions=2500)
    by = {(row["policy"], row["span"]): row for row in made}
    assert by["default", "all"]["gain"]["value"] == 0.0 and by["optimal", "all"]["median"]["value"] == 0.0
    assert [by["default", span]["sessions"] for span in ("first 1000", "all", "last half")] == [1000, 2500, 1250]
    assert by["optimal", "all"]["excess_ms"]["value"] < by["default", "all"]["excess_ms"]["low"]
    code, out, err = typed(*SMALL, "--policy", "default", "--sessions", 50)
    assert code == DONE and "default" in out and "replay default: 50 sessions in " in err


def test_phases_are_named_from_the_start_and_the_rate_is_over_all_of_them(typed: Typed) -> None:
    *_, err = typed(*SMALL, "--policy", "default", "--sessions", 50, "--log")
    *phases, judging, total = err.splitlines()
    begun = ["making the world", "making the policy", "playing sessions", "keeping outcomes"]
    message = [line for line in phases if not line.startswith("log ")]
    assert message == ["replay: reading the world, and checking it", *(f"replay default: {one}" for one in begun)]
    assert judging == "replay default: judging" and all(one in total for one in begun)
    whole, rate = re.fullmatch(r"replay default: 50 sessions in ([\d.]+) s, ([\d.]+)/s \(.*\)", total).groups()  # type: ignore[union-attr]
    assert float(rate) <= 50 / max(float(whole) - 0.05, 0.001)


def paced(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """Steps of 400 sessions on any machine: a clock that stands still measures no step as too long, not even one that
    may take no time."""
    pace = ReplayPace(step=400, look_s=0.0, clock=lambda: 0.0, **more)
    monkeypatch.setattr(simulation, "part", partial(part, pace=pace))


@pytest.mark.slow
def test_interrupted_and_resumed(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paced(monkeypatch)
    how = ("--policy", "mab_nc", "--policy", "bo_nc", "--log")
    whole = replayed(typed, *how)
    looks = itertools.count(1)
    monkeypatch.setattr(signals, "stop_signals", lambda _: nullcontext(lambda: next(looks) == 6))
    few = ("--sessions", 1500, "--classes", 5, "--update", 10, "-f", "jsonl")
    code, out, err = typed(*SMALL, *few, *how)
    assert code == INTERRUPTED and out == "" and "--resume 2" in err
    with Replays(tmp_path / "l.db") as book:
        left = book.replay()
        assert (left.id, left.status, left.parts) == (2, "interrupted", 1) and left.state
    assert shown(typed, "replay", "sessions", "--resume") == whole
    with Outcomes(tmp_path / "l.db") as store:
        logs = [[(part.plt_ms.tolist(), part.decisions.propensity.tolist()) for part in store.batches(log.id)]
                for log in store.logs()]  # fmt: skip
    assert len(logs) == 4 and logs[:2] == logs[2:]
    assert shown(typed, "replay", "sessions", "--resume", "2") == whole
    for words, says in (((), ""), (("9",), ""), (("soon",), ""), (("2", "--sessions", 7), "leave --sessions out")):
        declined(typed, says, "replay", "sessions", "--resume", *words)


def test_states_are_kept_on_the_way(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kill leaves is the last state kept: from there it goes on to the same end."""
    paced(monkeypatch, keep_s=0.0, price=0.0)
    states: list[str] = []
    monkeypatch.setattr(Replays, "keep", lambda book, number, state: states.append(state))
    whole = replayed(typed, "--policy", "configtron")
    assert len(states) == 3
    with Replays(tmp_path / "l.db") as book:
        number = book.begin(book.replay(1).config)
        book._connection.execute("UPDATE replay SET state = ? WHERE id = ?", (states[1], number))
    assert shown(typed, "replay", "sessions", "--resume") == whole


@pytest.mark.slow
def test_files_are_sources(typed: Typed, tmp_path: Path) -> None:
    header = "at_s,prefix,site,bandwidth_kbps,rtt_ms,loss"
    (tmp_path / "s.csv").write_text(header + "\n" + "".join(f"{at},192.0.2.0/24,news,5000,80,0\n" for at in range(30)))
    (tmp_path / "m.up").write_text("".join(f"{at}\n" for at in range(1, 4000, 3)))
    (tmp_path / "s.txt").write_text("0 5\n60 1\n120 8\n")
    seen = {"prefix": "192.0.2.0/24", "rtt_ms": 40.0, "bandwidth_kbps": 9000.0, "loss": 0.0}
    lines = [json.dumps({"schema": "configtron.context/1", "at": 1e9 + at, "context": seen}) for at in range(9)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines))
    for name, n in (("s.csv", 30), ("m.up", 40), ("s.txt", 40), ("c.jsonl", 40)):
        (row,) = replayed(typed, "--source", name, "--policy", "default", sessions=40)
        assert row["sessions"] == n
    (tmp_path / "s.csv").write_text(header + "\n1,192.0.2.0/24,nowhere,5000,80,0\n")
    declined(typed, "no site 'nowhere'", *SMALL, "--source", "s.csv")


def test_a_capture_is_a_source(typed: Typed) -> None:
    """Clients, networks and times of a capture's connections; a single flight is no bandwidth."""
    found = contexts_of(str(FIXTURES / "data_rto" / "rtt-150ms" / "trace.pcapng.gz"))
    ((prefix, seen),) = found.items()
    assert prefix == "10.60.1.0/24" and len(seen) == 3
    for at, context in seen:
        assert at > 1e9 and context.rtt_ms == pytest.approx(150, rel=0.01)
        assert context.bandwidth_kbps is not None and context.bandwidth_kbps < 1000
    # The first acknowledged nothing, so three of fourteen segments came again; the last let all pass.
    assert seen[0][1].loss == pytest.approx(3 / 14) and seen[-1][1].loss == 0.0
    burst = contexts_of(str(FIXTURES / "http" / "apache-h2" / "trace.pcapng.gz"))["10.60.1.0/24"]
    # Flights that arrive within microseconds are not gigabits: nothing is reported of one, and rounds take their time.
    rates = [context.bandwidth_kbps for _, context in burst]
    assert None in rates and max(rate or 0.0 for rate in rates) < 100_000
    idle = FIXTURES / "idle" / "off" / "trace.pcapng.gz"
    (row,) = replayed(typed, "--source", idle, "--policy", "default", sessions=40)
    assert row["sessions"] == 40
    declined(typed, "no client whose bandwidth", *SMALL, "--source", FIXTURES / "options" / "bare" / "trace.pcapng.gz")
    # Bytes that begin as a capture's and are none; the line stands behind that of progress.
    Path("cut.pcapng.gz").write_bytes(idle.read_bytes()[:30])
    assert declined(typed, "", *SMALL, "--source", "cut.pcapng.gz").count("\n") == 2


HEADER = b"at_s,prefix,site,bandwidth_kbps,rtt_ms,loss"


@pytest.mark.slow
@pytest.mark.parametrize("header", [b"\xef\xbb\xbf" + HEADER, b'"' + HEADER.replace(b",", b'","') + b'"',
                                    HEADER.replace(b",", b", ")])  # fmt: skip
def test_a_spreadsheets_header_is_a_header(typed: Typed, tmp_path: Path, header: bytes) -> None:
    """Two sessions stay two; taken for networks or for a link trace they would be forty."""
    for ending in (b"\n", b"\r\n"):
        lines = (header, b'0,"192.0.2.0/24",news,5000,80,0', b"5,198.51.100.0/24,shop,3000,90,0", b"")
        (tmp_path / "s.csv").write_bytes(ending.join(lines))
        (row,) = replayed(typed, "--source", "s.csv", "--policy", "default", sessions=40)
        assert row["sessions"] == 2


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (HEADER + b"\n0,p,ne\0ws,5000,80,0\n", "line 2: "),
        (HEADER.decode().encode("utf-16"), "save it as UTF-8"),
        (b"", "at least two pairs"),
    ],
)
def test_a_file_that_is_none_ends_in_one_line(typed: Typed, tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "x").write_bytes(data)
    first, error = declined(typed, says, *SMALL, "--source", "x", "--policy", "default").splitlines()
    assert first == "replay: reading the world, and checking it" and "x" in error


def test_networks_are_a_source(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("rtt_ms,loss,bandwidth_kbps,weight\n20,0,50000,1\n300,0.02,700,3\n")
    (row,) = replayed(typed, "--source", "n.csv", "--policy", "default", sessions=300)
    assert row["sessions"] == 300
    (tmp_path / "n.csv").write_text("rtt_ms,bandwidth_kbps\n20,5\n")
    for says in ("the header lacks loss", "at_s, prefix and site"):
        declined(typed, says, *SMALL, "--source", "n.csv")


def test_a_file_that_changed_is_no_longer_the_same_world(typed: Typed, tmp_path: Path) -> None:
    replayed(typed, "--policy", "default", sessions=10)
    again(tmp_path)
    declined(typed, "small.npz: changed", "replay", "sessions", "--resume")


def again(tmp_path: Path) -> None:
    """The first replay is begun once more, and its tensor is another."""
    with Replays(tmp_path / "l.db") as book:
        book.begin(book.replay(1).config)
    (tmp_path / "small.npz").write_bytes(b"another")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--policy best", "best"), ("--source nowhere", "nowhere"), ("--tensor nowhere", "nowhere"),
        ("--warm nowhere", "nowhere"), ("--tensor small.npz --warm mis-specified", "mis-specified"),
        ("--update nan", "nan"), ("--loss 2", "2"), ("--distort fog", "no distortion is called 'fog'"),
        ("--distort missing-cells", "thins the warm start, and there is none: name one with --warm"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused_at_once(typed: Typed, tmp_path: Path, words: str, says: str) -> None:
    declined(typed, says, "replay", "sessions", "--sessions", 20, *words.split())
    if (tmp_path / "l.db").exists():
        with Replays(tmp_path / "l.db") as book:
            with pytest.raises(BadInput, match="no replay"):
                book.replay()


@pytest.mark.slow
def test_a_study_is_reported_in_every_form(typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configtron.studies.sim.world.CONDITIONS", 40)
    printed = shown(typed, "replay", "study", "knobs", "--tensor", "analytic", "--seeds", 2, "--html", "s.html")
    assert {row["study"] for row in printed} == {"knobs"} and {row["worlds"] for row in printed} == {2}
    assert {row["row"]: row["paper"] for row in printed if row["column"] == "median excess"}["initcwnd"] == "second"
    assert all(row["low"] <= row["value"] <= row["high"] for row in printed)
    page = (tmp_path / "s.html").read_text()
    assert "CT Fig. 9" in page and "paper: median excess" in page
    assert "<script" not in page and not re.search(r"\b(href|src)\S*http", page)
    assert shown(typed, "replay", "study", "--resume", "1") == printed
    assert typed("replay", "study", "--resume", "1", "-f", "csv")[1].startswith("study,tensor,row,column,x,")


def test_a_study_stands_on_a_tensor_that_was_brought(typed: Typed, tmp_path: Path) -> None:
    found = shown(typed, "replay", "study", "knobs", "--tensor", "small.npz", "--seeds", 2, "--html", "s.html")
    assert len(found) == 10 and "Tensor: small.npz" in (tmp_path / "s.html").read_text()
    # A brought tensor is one world to a study of the tensor alone, with an interval of its own.
    assert {row["worlds"] for row in found} == {1} and any(row["low"] < row["high"] for row in found)
    again(tmp_path)
    declined(typed, "small.npz: changed", "replay", "study", "--resume")


def test_a_job_of_all_studies_has_a_part_for_each_world() -> None:
    names = ("gains", "convergence", "arms", "knobs")
    made = sessions_run.job_of((*names, "knobs"), SessionsOptions(("analytic",), seed=4, seeds=2), lambda _: None)
    studies = [catalogue.sessions_study_of(name) for name in names]
    assert made.parts == len(made.config["parts"]) == 2 * sum(len(study.labels) for study in studies)
    kept = json.loads(json.dumps(made.config))
    assert kept == {**made.config, "parts": [list(part) for part in made.config["parts"]]}


def test_an_unwritable_output_is_refused_before_the_run(typed: Typed) -> None:
    """Not after a study has run."""
    for words in (("study", "knobs", "--html", "nowhere/page.html"),
                  ("sessions", "--sessions", 50, "-o", "nowhere/rows")):  # fmt: skip
        assert "reading" not in declined(typed, "name a file that can be written", "replay", *words)


EXAMPLE = ROOT / "fixtures" / "worlds" / "versions.csv"
FEW = ("--classes", 5, "--update", 10)


@pytest.mark.slow
def test_a_row_a_world_and_policy(typed: Typed) -> None:
    files = ("--world", EXAMPLE, "--world", "small.npz", "--policy", "default", "--policy", "static")
    code, out, err = typed("replay", "sessions", *files, "--sessions", 300, *FEW, "-f", "jsonl")
    made = rows(out)
    assert code == DONE and [(row["world"], row["policy"]) for row in made] == [
        (str(EXAMPLE), "default"), (str(EXAMPLE), "static"), ("small.npz", "default"), ("small.npz", "static"),
    ]  # fmt: skip
    assert all(row["sessions"] == 300 for row in made)
    assert made[1]["excess_ms"]["value"] < made[0]["excess_ms"]["value"]
    assert "versions.csv: 1 cells without one load as under Default" in err
    code, out, _ = typed("replay", "sessions", "--world", "small.npz", "--policy", "default", "--sessions", 50)
    assert code == DONE and "small.npz" in out and "world" in out.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["npz", "csv"])
def test_what_is_written_plays_alike(typed: Typed, tmp_path: Path, form: str) -> None:
    made = ("--tensor", "small.npz", "--sessions", 400, "--seed", 3)
    code, out, err = typed("replay", "sessions", "--world-out", f"w.{form}", *made)
    assert code == DONE and out == "" and f"w.{form}" in err
    back = ("--source", "w.sessions.csv") if form == "csv" else ()
    how = ("--policy", "mab_nc", "--seed", 3, *FEW)
    worlds = ("--world", f"w.{form}", *back), made[:4]
    ours, before = (shown(typed, "replay", "sessions", *world, *how)[0] for world in worlds)
    assert ours.pop("world") == f"w.{form}" and ours["sessions"] == 400
    if form == "npz":
        assert ours == before
    assert ours["excess_ms"]["value"] == pytest.approx(before["excess_ms"]["value"], rel=0.2)


@pytest.mark.slow
def test_a_file_of_a_world_is_cut_or_taken_whole(typed: Typed) -> None:
    typed("replay", "sessions", "--world-out", "w.npz", "--tensor", "small.npz", "--sessions", 120)
    for asked, had in (((), 120), (("--sessions", 70), 70), (("--sessions", 500), 120)):
        (made,) = shown(typed, "replay", "sessions", "--world", "w.npz", "--policy", "default", *asked, *FEW)
        assert made["sessions"] == had


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("--world", "absent.csv"), "absent.csv"),
        (("--world", "bad.csv"), "bad.csv: the header lacks"),
        (("--world", "small.npz", "--tensor", "analytic"), "leave --tensor out"),
        (("--world", "small.npz", "--rate", "3"), "leave --rate out"),
        (("--world", "small.npz", "--world", "small.npz", "--world-out", "x.npz"), "one world"),
        (("--world-out", "x.txt"), ".npz or .csv"),
        (("--world-out", "x.npz", "--policy", "default"), "leave --policy out"),
        (("--world-out", "no/such/x.npz", "--tensor", "small.npz", "--sessions", "5"), "no/such/x.npz"),
    ],
)
def test_what_cannot_be_is_one_line(typed: Typed, tmp_path: Path, words: tuple[str, ...], printed: str) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    declined(typed, printed, "replay", "sessions", *words)


def test_a_replay_begun_before_there_were_worlds_goes_on(typed: Typed, tmp_path: Path) -> None:
    options = simulation.SessionOptions(tensor="small.npz", count=60, classes=5)
    form = simulation.origins_of(options)[0].form()
    del form["world"], form["distort"]
    how = {"interval_s": 10.0, "delay_s": 5.0, "pops": "global", "batch": 50, "keep_log": False}
    with Replays(tmp_path / "l.db") as book:
        begin_job(book, Job(simulation.KIND, {"origin": form, "policies": ["default"], **how}, 1))
    (found,) = shown(typed, "replay", "sessions", "--resume")
    assert found["sessions"] == 60 and "world" not in found
