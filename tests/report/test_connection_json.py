# SPDX-License-Identifier: MIT
"""JSON Lines written by column are the canonical JSON of each connection's own object."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint.passive.connection_report import ConnectionReports, report_connections
from configtron.model.records import canonical
from configtron.report.connection_json import form, write_jsonl
from configtron.service.capture import CaptureReading
from tests.fingerprint.passive.test_fuzz import SEEDS, nonsense
from tests.support import ROOT
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, acked, flight, talk
from tests.support.opening_captures import OPENINGS, batches, capture
from tests.support.synthetic_capture import write as write_page_loads


def one_by_one(found: list[ConnectionReports], files: list[str]) -> str:
    return "".join(canonical(form(one, files)) + "\n" for reports in found for one in reports)


def by_column(found: list[ConnectionReports], files: list[str]) -> str:
    out = io.StringIO()
    count = write_jsonl(found, files, out)
    assert count == sum(map(len, found)) == out.getvalue().count("\n")
    return out.getvalue()


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.one_of(st.sampled_from(SEEDS), st.lists(st.integers(0, len(OPENINGS) - 1), max_size=12).map(capture)),
    st.sampled_from([None, frozenset(("icw",))]),
)
def test_lines_are_those_of_each_connection(data: bytes, wanted: frozenset[str] | None) -> None:
    found = batches(data, wanted)
    assert by_column(found, ["x"]) == one_by_one(found, ["x"])


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 63), st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_lines_of_nonsense_are_those_of_each_connection(steps: list[tuple[int, int, int, int]]) -> None:
    frames = [(at * 10**8, nonsense(way, flags, seq, ack, 100)) for at, (way, flags, seq, ack) in enumerate(steps)]
    found = batches(write.pcap(frames, nano=True))
    assert by_column(found, ["x"]) == one_by_one(found, ["x"])


@pytest.mark.slow
def test_lines_of_recordings_and_page_loads_are_those_of_each_connection(tmp_path: Path) -> None:
    loads, recordings = tmp_path / 'page "loads" é.pcap', sorted((ROOT / "fixtures").rglob("*.pcap*"))
    write_page_loads(loads, 3000)
    files = [*map(str, recordings[:: max(len(recordings) // 40, 1)]), str(loads)]
    seen: set[str] = set()
    for file in files:
        reading = CaptureReading((file,))
        found = list(reading.batches())
        text = by_column(found, reading.files)
        assert text == one_by_one(found, reading.files)
        seen.update(*map(json.loads, text.splitlines()))
    # Members that no connection has would be compared with nothing.
    assert {"captured_at", "tls", "handshake", "observations", "started_at"} <= seen


def test_equal_connections_of_an_incomplete_capture_in_several_files() -> None:
    found = batches(capture([0, 3, 3, 5]))
    for reports in found:
        reports.incomplete = True
        reports.columns["frame"][2:] |= 1 << 40
        reports.columns["copies"][1] = 2
        reports.columns["options_cut"][0] = 1
    lines = [json.loads(line) for line in by_column(found, ["a", "b"]).splitlines()]
    assert [line["file"] for line in lines] == ["a", "a", "b", "b"]
    assert all(line["incomplete"] is True for line in lines)
    assert [line.get("copies") for line in lines] == [None, 2, None, None]
    assert [line.get("options_cut") for line in lines] == [True, None, None, None]
    assert by_column(found, ["a", "b"]) == one_by_one(found, ["a", "b"])


def test_a_merged_first_flight_is_reported(tmp_path: Path) -> None:
    """An offload merged each two segments of the first flight."""
    merged = (flight(2 * RTT_S, 0, 5, echo_s=RTT_S + 0.001, size=2 * FULL), acked(10, 2 * RTT_S + 0.001))
    found = [report_connections(talk(*merged, flight(3 * RTT_S + 0.001, 10, 4)).batch(tmp_path), ["x"])]
    assert json.loads(by_column(found, ["x"]))["merged"] is True
    assert by_column(found, ["x"]) == one_by_one(found, ["x"])


@pytest.mark.parametrize("wanted", [None, frozenset(("icw",))])
def test_connections_that_are_alike_are_written_as_each_alone(wanted: frozenset[str] | None, tmp_path: Path) -> None:
    loads = tmp_path / "loads.pcap"
    write_page_loads(loads, 1000)
    for data in (loads.read_bytes(), capture([*range(len(OPENINGS))] * 2)):
        found = batches(data, wanted)
        assert by_column(found, ["x"]) == one_by_one(found, ["x"])


def test_lines_before_an_error_are_written() -> None:
    def broken() -> Iterator[ConnectionReports]:
        yield from batches(capture([0, 3, 5]))
        raise OSError("cut")

    out = io.StringIO()
    with pytest.raises(OSError, match="cut"):
        write_jsonl(broken(), ["x"], out)
    assert len(out.getvalue().splitlines()) == 3
