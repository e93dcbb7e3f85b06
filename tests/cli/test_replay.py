# SPDX-License-Identifier: MIT
"""`configtron replay packets`: what it prints, its exit codes, its files, `--adopt`; on recordings, without root."""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from configtron.cli.outermost import run
from configtron.db.store import Store
from configtron.model.errors import CONDITION, DONE, NOTHING, PARTIAL, USAGE
from configtron.model.records import canonical, result_from_json, result_to_json
from configtron.service.campaign.runs import run_folder
from configtron.service.replay import expected, playing
from configtron.service.replay.adoption import expected_of
from tests.support import ROOT

FOLDER = ROOT / "fixtures" / "icw" / "10"
RECORDING = "trace.pcapng.gz"


@pytest.fixture
def kept(home: Path) -> Path:
    """A recording of our own with what is expected of it."""
    (home / "kept").mkdir()
    for path in FOLDER.iterdir():
        (home / "kept" / path.name).write_bytes(path.read_bytes())
    return home / "kept"


def packets(*words: object) -> int:
    return run(["replay", "packets", *map(str, words)])


def corrupt(folder: Path) -> None:
    """What is expected becomes something else."""
    path = folder / expected.KEPT
    path.write_text(path.read_text().replace('"knob":"icw"', '"knob":"jcw"', 1))


def diverge(folder: Path) -> None:
    """A word of our requests becomes another one."""
    data = gzip.decompress((folder / RECORDING).read_bytes())
    (folder / RECORDING).write_bytes(gzip.compress(data.replace(b"Accept: */*", b"Accept: */+")))


def forms_of(folder: Path) -> list[dict[str, Any]]:
    """What is expected of a recording."""
    return list(json.loads((folder / expected.KEPT).read_text()))


def suite_of(report: Path) -> tuple[ElementTree.Element, list[ElementTree.Element]]:
    """The suite of a JUnit report, and its failed cases."""
    (suite,) = ElementTree.parse(report).getroot()
    return suite, [case for case in suite if len(case)]


def test_the_same_bytes(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert packets(kept, "--fail-on-diff") == DONE
    count = len([form for form in forms_of(kept) if form.get("frames")])
    assert f"{count} of {count} probes give the same bytes again, 1 of 1 records" in capsys.readouterr().out
    assert packets(kept / RECORDING) == DONE


def test_a_difference_is_shown_and_fails_until_it_is_kept(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --fail-on-diff and without: who compares wants to know."""
    before = (kept / expected.KEPT).read_text()
    corrupt(kept)
    assert packets(kept) == packets(kept, "--fail-on-diff") == CONDITION
    printed = capsys.readouterr().out
    assert "differs" in printed and "\n  jcw\n  - {" in printed and "\n  + nothing\n" in printed
    assert packets(kept, "--update") == DONE
    assert capsys.readouterr().err == f"replay: kept as what is expected: {kept / expected.KEPT}\n"
    assert (kept / expected.KEPT).read_text() == before
    assert packets(kept, "--fail-on-diff") == DONE


def test_a_script_that_diverges_always_fails_and_nothing_of_it_is_kept(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (kept / expected.KEPT).read_text()
    diverge(kept)
    assert packets(kept, "--update") == CONDITION
    printed = capsys.readouterr()
    assert "the recording: out at" in printed.out and "the script:    sends" in printed.out and printed.err == ""
    assert printed.out.count("PSH|ACK seq 1 ack 1") >= 2
    assert (kept / expected.KEPT).read_text() == before


def test_without_anything_to_compare_with(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kept / expected.KEPT).unlink()
    assert packets(kept, "-f", "jsonl") == PARTIAL
    assert {json.loads(line)["status"] for line in capsys.readouterr().out.splitlines()} == {"untold"}
    assert packets(kept / RECORDING, "--update") == DONE
    assert packets(kept) == DONE


def test_expect_names_another_file(kept: Path) -> None:
    forms, lines = forms_of(kept), kept / "named.jsonl"
    lines.write_text("".join(json.dumps(form) + "\n" for form in forms))
    corrupt(kept)
    for more in ("--fail-on-diff", "--update"):
        assert packets(kept / RECORDING, "--expect", lines, more) == DONE
    assert [json.loads(line) for line in lines.read_text().splitlines()] == forms
    assert packets(kept, FOLDER, "--expect", lines) == USAGE


def test_junit(kept: Path) -> None:
    corrupt(kept)
    report = kept.parent / "junit.xml"
    packets(kept, "--junit", report)
    suite, (failed,) = suite_of(report)
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == (str(len(suite)), "1", "0")
    assert failed[0].tag == "failure" and "jcw" in (failed[0].text or "")
    diverge(kept)
    packets(kept, "--junit", report)
    assert int(suite_of(report)[0].get("errors", "0")) > 0


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("cut", [1, 30, 300, -9])
def test_broken_files_are_one_clear_line(kept: Path, capsys: pytest.CaptureFixture[str], cut: int, jobs: int) -> None:
    data = (kept / RECORDING).read_bytes()
    (kept / RECORDING).write_bytes(data[:cut])
    assert packets(kept, *([FOLDER] * (jobs - 1)), "-j", jobs) == USAGE
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and RECORDING in printed


def test_what_is_no_expectation_is_one_clear_line(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("", "[1]", "{", '{"a":1}', "[[]]", "[" * 100_000, *half_expectations()):
        (kept / "named").write_text(text)
        code = packets(kept / RECORDING, "--expect", kept / "named")
        printed = capsys.readouterr().err.strip()
        assert (code, printed.count("\n"), "named: " in printed) == (USAGE, 0, True) if text else code == PARTIAL, text


def half_expectations() -> list[str]:
    """Results and records that lack something, or have something else in its place."""
    *results, record = forms_of(FOLDER)
    result = next(form for form in results if form["frames"])
    halves = [{**result, name: 5} for name in ("target", "observations", "params")]
    halves += [{**result, "observations": [5]}, {**record, "vantage": {"name": "na"}}]
    halves += [{**record, "observations": wrong} for wrong in ([], {"icw": 5}, {"icw": "trials"}, None)]
    halves += [{name: form[name] for name in form if name != left} for form, left in (
        (result, "target"), (result, "ending"), (record, "target"), (record, "vantage"), (record, "observations"),
    )]  # fmt: skip
    return [json.dumps([half]) for half in halves]


def test_nothing_to_replay(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "empty").mkdir()
    assert packets(home / "empty") == NOTHING
    assert "recordings are the .pcapng files (also gz) that `configtron probe` writes" in capsys.readouterr().err
    for words in ((), (home / "absent",), (FOLDER, "--run", "1"), ("--run", "1"), ("--run", "x")):
        assert packets(*words) == USAGE


def stored(home: Path) -> tuple[Path, Path]:
    """A run in the database that holds what the fixture does; its evidence file, and its records."""
    database = home / "XDG_DATA_HOME" / "configtron" / "configtron.db"
    forms = forms_of(FOLDER)
    results = [result_from_json(json.dumps(form)) for form in forms if "schema" not in form]
    with Store(database) as store:
        number = store.begin_run('{"vantages":[]}')
        store.record(number, [r._replace(evidence_file="here/na.pcapng" if r.frames else "") for r in results])
        store.finish_run(number, "done")
        file = run_folder(store, number) / "here" / "na.pcapng"
    file.parent.mkdir(parents=True)
    file.write_bytes(gzip.decompress((FOLDER / RECORDING).read_bytes()))
    records = home / "records.jsonl"
    records.write_text(canonical(forms[-1]) + "\n")
    return file, records


def test_a_run_of_the_database(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, records = stored(home)
    assert packets("--run", "last", "--fail-on-diff") == DONE
    assert "records" not in capsys.readouterr().out
    assert packets("--run", "1", "--fail-on-diff", "--expect", records) == DONE
    assert "1 of 1 records" in capsys.readouterr().out
    message = records.read_text()
    records.write_text(message.replace("icw-10.example", "other.example"))
    assert packets("--run", "1", "--expect", records) == PARTIAL
    for nothing in ("", "{}\n", message.replace('"vantage":{"name":"na"', '"vantage":{"name":"eu"')):
        records.write_text(nothing)
        assert packets("--run", "1", "--fail-on-diff", "--expect", records) == PARTIAL, nothing
    records.write_text(message.replace('"text":"10"', '"text":"11"', 1))
    assert packets("--run", "1", "--fail-on-diff", "--expect", records) == CONDITION
    assert packets("--run", "1", "--update") == USAGE
    file.unlink()
    capsys.readouterr()
    assert packets("--run", "1") == USAGE
    assert "packets are gone" in capsys.readouterr().err


def test_a_journal_is_compared_and_never_rewritten(home: Path) -> None:
    file, _ = stored(home)
    with Store(home / "XDG_DATA_HOME" / "configtron" / "configtron.db", read_only=True) as store:
        lines = [json.dumps(json.loads(result_to_json(result))) for result in store.results(1)]
    (file.parent / expected.JOURNAL).write_text("\n".join(lines) + "\n")
    assert packets(file.parent, "--fail-on-diff") == DONE
    assert packets(file.parent, "--update") == USAGE


def test_many_processes_say_what_one_says(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = sorted(path.parent for path in (ROOT / "fixtures" / "synack_rto").rglob(RECORDING))
    printed = []
    for jobs in (1, 3):
        assert packets(*folders, "-f", "jsonl", "-j", jobs) == DONE
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and len(printed[0].splitlines()) > len(folders)


def test_no_more_processes_than_recordings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, pool = [], playing.ProcessPoolExecutor
    monkeypatch.setattr(playing, pool.__name__, lambda count, **rest: begun.append(count) or pool(count, **rest))
    assert packets(FOLDER, FOLDER, "-j", 5000) == DONE
    assert begun == [2]


def test_a_process_that_is_killed_is_one_line(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "_play", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert packets(FOLDER, FOLDER, "-j", 2) == NOTHING
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and "killed" in printed and "-j 1" in printed


def test_what_is_expected_and_never_comes_is_missing(kept: Path) -> None:
    """A result without its packets and a record without its results: a failure, for CI servers too."""
    forms = forms_of(kept)
    result = next(form for form in forms if form.get("frames"))
    record = json.loads(json.dumps(forms[-1]).replace("icw-10.example", "other.example"))
    for more in ({**result, "trace_id": "na/other.example/icw.9"}, record):
        (kept / "more.json").write_text(json.dumps([*forms, more]))
        words = (kept / RECORDING, "--expect", kept / "more.json", "--junit", kept.parent / "junit.xml")
        assert packets(*words) == packets(*words, "--fail-on-diff") == CONDITION
        suite, (failed,) = suite_of(kept.parent / "junit.xml")
        assert failed[0].tag == "failure" and failed[0].get("message") == "missing" and suite.get("failures") == "1"


Spoken = pytest.CaptureFixture[str]
# Of a pcapng file: interface description, enhanced packet.
INTERFACE, PACKET = 1, 6


def classic(recording: Path) -> bytes:
    """The frames of a recording as a classic pcap, as tcpdump would have written them."""
    data, at, out = gzip.decompress(recording.read_bytes()), 0, b""
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == INTERFACE and not out:
            out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, struct.unpack_from("<H", data, at + 8)[0])
        elif kind == PACKET:
            high, low, caught, whole = struct.unpack_from("<IIII", data, at + 12)
            seconds, ns = divmod((high << 32 | low), 1_000_000_000)
            out += struct.pack("<IIII", seconds, ns, caught, whole) + data[at + 28 : at + 28 + caught]
        at += length
    return out


@pytest.fixture
def capture(home: Path) -> Path:
    folder = home / "captures"
    folder.mkdir()
    (folder / "web.pcap").write_bytes(classic(FOLDER / RECORDING))
    return folder / "web.pcap"


def test_any_capture_becomes_a_fixture(capture: Path, capsys: Spoken) -> None:
    assert packets(capture) == USAGE
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "no script" in err and "--adopt" in err
    assert f"configtron fingerprint pcap {capture}" in err
    assert packets("--adopt", capture) == DONE
    assert capsys.readouterr().err == f"replay: kept as what is expected: {expected_of(capture)} (4 connections)\n"
    lines = [json.loads(line) for line in expected_of(capture).read_text().splitlines()]
    assert {line["schema"] for line in lines} == {"configtron.connection/1"} and lines[0]["file"] == "web.pcap"
    for words in ((capture,), (capture.parent,), (capture.parent, "--fail-on-diff")):
        assert packets(*words) == DONE
        assert "4 of 4 connections are read the same again" in capsys.readouterr().out


def test_lines_are_those_of_fingerprint_pcap(capture: Path, capsys: Spoken) -> None:
    """So that output piped to a file can be compared with it too, wherever the capture lay."""
    assert run(["-q", "fingerprint", "pcap", "-f", "jsonl", str(capture)]) == DONE
    lines = capture.parent / "lines.jsonl"
    lines.write_text(capsys.readouterr().out)
    assert packets(capture, "--expect", lines) == DONE
    lines.write_text(lines.read_text().replace('"mss":536', '"mss":537', 1))
    assert packets(capture, "--expect", lines) == CONDITION
    expected_of(capture).write_text(lines.read_text() + "{\n")
    assert packets(capture) == USAGE and "line 5 is no configtron.connection/1: Exp" in capsys.readouterr().err


def test_what_differs_is_shown_and_fails(capture: Path, capsys: Spoken) -> None:
    assert packets("--adopt", capture) == DONE
    expected = expected_of(capture)
    first, second, *rest = expected.read_text().splitlines(keepends=True)
    changed = json.loads(first)
    changed["observations"]["icw"]["value"] = 11
    strange = second.replace("10.11.96.6", "10.11.96.7")
    expected.write_text("".join((json.dumps(changed) + "\n", strange, *rest)))
    junit = capture.parent / "junit.xml"
    assert packets(capture, "--junit", junit, "-f", "jsonl") == CONDITION
    found = {line["trace"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert sorted(line["status"] for line in found.values()) == ["differs", "differs", "missing", "same", "same"]
    icw = {"name": "icw.value", "recorded": "11", "replayed": "10"}
    assert [icw] in [line.get("differences") for line in found.values()]
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")
    assert packets(capture, "--update") == DONE and packets(capture) == DONE


def test_adopting_again_takes_the_rest(capture: Path, capsys: Spoken) -> None:
    """What was adopted stays as it is, also if it was corrected; a capture beside it is reported until then."""
    assert packets("--adopt", capture.parent) == DONE
    expected_of(capture).write_text(kept := expected_of(capture).read_text().replace('"mss":536', '"mss":537', 1))
    more = capture.with_name("more.pcap.gz")
    more.write_bytes(gzip.compress(capture.read_bytes()))
    capture.with_name("notes.gz").write_bytes(gzip.compress(b"no capture"))
    capsys.readouterr()
    junk = capture.with_name("junk.pcap")
    junk.write_bytes(b"words")
    assert packets(capture.parent, "--only", "icw") == PARTIAL
    assert f"capture without its expected file: {expected_of(more)}" in capsys.readouterr().out
    assert packets("--adopt", capture.parent) == PARTIAL
    err = capsys.readouterr().err
    assert "(4 connections)\nreplay: left as they are: 1 adopted before" in err and err.count("\n") == 3
    assert f"replay: not adopted: {junk}: neither pcap" in err
    junk.unlink()
    assert expected_of(capture).read_text() == kept and packets(capture.parent, "--only", "icw") == DONE
    expected_of(more).unlink()
    assert packets(capture.parent, "--update") == packets(capture.parent) == DONE and expected_of(more).is_file()


def test_an_expected_file_without_its_capture_fails(capture: Path, kept: Path, capsys: Spoken) -> None:
    """Deleted, moved or renamed; of a recording of our own as well."""
    assert packets("--adopt", capture) == DONE
    (capture.parent / "below").mkdir()
    capture.rename(capture.parent / "below" / capture.name)
    (kept / RECORDING).unlink()
    for folder, file in ((capture.parent, expected_of(capture)), (kept, kept / expected.KEPT)):
        capsys.readouterr()
        assert packets(folder, "--junit", folder / "junit.xml") == CONDITION
        assert f"expected file without its capture: {file}" in capsys.readouterr().out
        assert suite_of(folder / "junit.xml")[0].get("failures") == "1"
        assert packets(folder, "--update") == USAGE and file.stat().st_size
    (capture.parent / "below" / capture.name).rename(capture)
    assert packets(capture.parent) == DONE


def test_only_what_is_expected_is_compared(capture: Path, capsys: Spoken) -> None:
    """A field of a later release is no difference; `--only` names those that count, and not one that is nowhere."""
    assert packets("--adopt", capture) == DONE
    forms = [json.loads(line) for line in expected_of(capture).read_text().splitlines()]
    del forms[0]["handshake"]["rtt"], forms[1]["observations"]["icw"], forms[2]["ended"]
    forms[0]["client"]["mss"] += 0.0
    forms[0]["client"]["port_of_old"] = 7
    forms[1]["server"]["ttl"] += 1
    expected_of(capture).write_text("".join(json.dumps(form) + "\n" for form in forms))
    assert packets(capture) == CONDITION
    out = capsys.readouterr().out
    assert (
        "  client.port_of_old\n  - 7\n  + nothing\n" in out and "  server.ttl\n  - " in out and out.count("\n  - ") == 2
    )
    for only, code in (("icw, client.mss", DONE), ("server", CONDITION), ("server.mss,client", CONDITION),
                       ("ttl", CONDITION), ("mss", DONE), ("server.tt", USAGE), ("icww", USAGE)):  # fmt: skip
        assert packets(capture, "--only", only) == code
    assert packets(FOLDER, "--only", "icw") == DONE and packets(FOLDER, "--only", ",") == USAGE
    for words in (("--run", 1), (capture, "--update")):
        assert packets("--only", "icw", *words) == USAGE


def test_nothing_to_adopt(capture: Path, capsys: Spoken) -> None:
    empty = capture.parent / "empty.pcap"
    empty.write_bytes(capture.read_bytes()[:24])
    assert packets("--adopt", empty) == NOTHING and "no TCP connection" in capsys.readouterr().err
    assert packets(empty.parent, "-f", "jsonl") == PARTIAL
    cut = capture.with_name("cut.pcap")
    cut.write_bytes(capture.read_bytes()[:-20])
    assert packets("--adopt", cut) == PARTIAL and not expected_of(cut).exists()
    assert (err := capsys.readouterr().err).count("\n") == 1 and "not whole; capture again" in err, err
    cut.write_bytes(capture.read_bytes()[:44])
    assert run(["fingerprint", "pcap", str(cut)]) == NOTHING and "within its first packet" in capsys.readouterr().err
    (capture.parent / "text").write_text("no capture")
    for words in ((), (capture.parent / "text",), ("--update", capture), ("--junit", "x", capture)):
        assert packets("--adopt", *words) == USAGE


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"schema":"other"}', "\udcff"])
def test_a_file_of_something_else_is_one_line(capture: Path, text: str, capsys: Spoken) -> None:
    expected_of(capture).write_bytes(text.encode(errors="surrogateescape") + b"\n")
    assert packets(capture) == USAGE
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and str(expected_of(capture)) in printed and "--adopt" in printed
