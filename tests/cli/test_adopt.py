# SPDX-License-Identifier: MIT
"""`configtron replay packets --adopt`: captures of any origin as fixtures of their owner."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from configtron.cli.outermost import run
from configtron.model.errors import CONDITION, DONE, NOTHING, USAGE
from configtron.service.replay.adoption import expected_of
from tests.support import ROOT

Spoken = pytest.CaptureFixture[str]
RECORDING = ROOT / "fixtures" / "icw" / "10" / "trace.pcapng.gz"
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
    (folder / "web.pcap").write_bytes(classic(RECORDING))
    return folder / "web.pcap"


def packets(*words: object) -> int:
    return run(["replay", "packets", *map(str, words)])


def test_any_capture_becomes_a_fixture(capture: Path, capsys: Spoken) -> None:
    assert packets(capture) == USAGE and "--adopt" in capsys.readouterr().err
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
    (icw,) = [line for line in found.values() if line.get("differences", [{}])[0].get("name") == "icw"]
    assert '"value":11' in icw["differences"][0]["recorded"] and '"value":10' in icw["differences"][0]["replayed"]
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")
    assert packets(capture, "--update") == DONE and packets(capture) == DONE


def test_what_is_expected_is_not_overwritten(capture: Path, capsys: Spoken) -> None:
    assert packets("--adopt", capture.parent) == DONE
    before = expected_of(capture).read_text()
    assert packets("--adopt", capture) == USAGE and "--update renews it" in capsys.readouterr().err
    assert expected_of(capture).read_text() == before


def test_nothing_to_adopt(capture: Path, capsys: Spoken) -> None:
    empty = capture.parent / "empty.pcap"
    empty.write_bytes(capture.read_bytes()[:24])
    assert packets("--adopt", empty) == NOTHING and "no TCP connection" in capsys.readouterr().err
    assert not expected_of(empty).exists()
    (capture.parent / "text").write_text("no capture")
    for words in ((), (capture.parent / "text",), ("--update", capture), ("--junit", "x", capture)):
        assert packets("--adopt", *words) == USAGE


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, '{"schema":"other"}', "\udcff"])
def test_a_file_of_something_else_is_one_line(capture: Path, text: str, capsys: Spoken) -> None:
    expected_of(capture).write_bytes(text.encode(errors="surrogateescape") + b"\n")
    assert packets(capture) == USAGE
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1 and str(expected_of(capture)) in printed and "--adopt" in printed
