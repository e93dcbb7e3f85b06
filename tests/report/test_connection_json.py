# SPDX-License-Identifier: MIT
"""Connections that are read for some knobs only, read once because their segments are alike, and written by column: as
each alone."""

from __future__ import annotations

import csv
import io
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint import INFERENCES
from configtron.fingerprint.capture.reading import read
from configtron.fingerprint.capture.source import CaptureSource
from configtron.fingerprint.passive import readings
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports, report_connections
from configtron.fingerprint.passive.gathering import Gathering
from configtron.fingerprint.passive.headers import decode
from configtron.model.nouns import ACK, RST, SYN
from configtron.model.records import canonical
from configtron.report.connection_json import form, json_rows
from configtron.report.connection_rows import columns, csv_quoted, csv_rows
from configtron.report.connections import knobs_in, write_connections
from configtron.service.capture import CaptureReading
from tests.fingerprint.passive.test_fuzz import SEEDS, nonsense
from tests.support import ROOT
from tests.support import capture_bytes as write
from tests.support.made_capture import FULL, RTT_S, acked, flight, talk
from tests.support.synthetic_capture import write as write_page_loads

# Captures of how connections begin: refused, unanswered, answered; and their reports, as batches.

SACK, STAMPS = b"\x02\x04\x05\xb4\x04\x02\x01\x01", b"\x02\x04\x05\xb4\x08\x0a" + bytes(8) + b"\x01\x01"
# (from the server, flags, options) of connections that have no answer, or that have one.
OPENINGS = [
    [(0, SYN, SACK)], [(0, SYN, STAMPS)], [(0, SYN, b"")], [(0, SYN, SACK), (1, RST | ACK, b"")],
    [(0, SYN, SACK), (0, SYN, SACK)], [(0, SYN, SACK), (1, SYN | ACK, SACK)],
    [(0, SYN, SACK), (1, SYN | ACK, SACK), (1, RST, b"")],
]  # fmt: skip


def batches(data: bytes, wanted: frozenset[str] | None = None) -> list[ConnectionReports]:
    gathering = Gathering()
    for frames in read(CaptureSource(io.BytesIO(data)), gathering.counts):
        list(gathering.take(decode(frames, gathering.pairs, gathering.heads, gathering.counts)))
    return [report_connections(batch, ["x"], wanted=wanted) for batch in gathering.finish()]


def segment(client: int, way: int, flags: int, options: bytes) -> bytes:
    ports, ends = (4000 + client, 80), (b"\x0a\0\0\1", b"\x0a\0\0\2")
    size = 20 + len(options)
    tcp = struct.pack("!HHIIBBHHH", ports[way], ports[1 - way], 7, 8 if flags & ACK else 0, size << 2, flags, 99, 0, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + size, 0, 0, 64, 6, 0, ends[way], ends[1 - way])
    return head + tcp + options


def capture(openings: list[int]) -> bytes:
    """Return a capture of these `OPENINGS`, a client each, a second between segments."""
    steps = [(client, step) for client, opening in enumerate(openings) for step in OPENINGS[opening]]
    return write.pcap([(10**9 * at, segment(client, *step)) for at, (client, step) in enumerate(steps, 1)], nano=True)


few = settings(max_examples=30, deadline=None)
OPENED = st.lists(st.integers(0, len(OPENINGS) - 1), min_size=1, max_size=12)
STEPS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 63), st.integers(0, 4), st.integers(0, 4)), max_size=12)
NONSENSE = STEPS.map(lambda steps: write.pcap(
    [(at * 10**8, nonsense(way, flags, seq, ack, 100)) for at, (way, flags, seq, ack) in enumerate(steps)], nano=True
))  # fmt: skip
KNOBS = {knob for row in INFERENCES.values() for knob in row.knobs}
# Those of `OPENINGS` that no inference reads by themselves.
UNANSWERED = {0, 1, 2, 3, 4}


def one_by_one(found: list[ConnectionReports], files: list[str]) -> str:
    return "".join(canonical(form(one, files)) + "\n" for reports in found for one in reports)


def by_column(found: list[ConnectionReports], files: list[str]) -> str:
    return "".join(f"{line}\n" for reports in found for line in json_rows(reports, files))


def csv_of(found: Iterable[ConnectionReports]) -> str:
    return "\n".join([",".join(columns()), *(row for reports in found for row in csv_rows(reports, ["x"]))]) + "\n"


def reports(data: bytes, wanted: frozenset[str] | None = None) -> list[ConnectionReport]:
    return [one for batch in batches(data, wanted) for one in batch]


def shown(report: ConnectionReport) -> list[object]:
    return [replace(one, trace_id="", evidence=()) for one in report.observations]


@pytest.mark.slow
@few
@given(st.sampled_from(SEEDS) | OPENED.map(capture) | NONSENSE, st.sampled_from([None, frozenset(("icw",))]))
def test_lines_are_those_of_each_connection(data: bytes, wanted: frozenset[str] | None) -> None:
    found = batches(data, wanted)
    assert by_column(found, ["x"]) == one_by_one(found, ["x"])
    assert {o.knob for reports in found for one in reports for o in one.observations} <= (wanted or KNOBS)


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
def test_connections_that_are_alike_are_written_as_each_alone(
    wanted: frozenset[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of each opening; answered ones of one kind differ in frames and in the bytes of the first flight."""
    loads = tmp_path / "loads.pcap"
    write_page_loads(loads, 3000)
    for data in (loads.read_bytes(), capture([*range(len(OPENINGS))] * 2)):
        text = by_column(batches(data, wanted), ["x"])
        with monkeypatch.context() as alone:
            alone.setattr(
                readings, "equal_openings", lambda _, some: (np.full(len(some), -1), np.zeros((len(some), 3)))
            )
            found = batches(data, wanted)
            assert text == by_column(found, ["x"]) == one_by_one(found, ["x"])
    assert wanted or len({*batches(loads.read_bytes())[0].kinds.tolist()}) < len(batches(loads.read_bytes())[0]) / 2


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_rows_before_an_error_are_written(kind: str) -> None:
    def broken() -> Iterator[ConnectionReports]:
        yield from batches(capture([0, 3, 5]))
        raise OSError("cut")

    out = io.StringIO()
    with pytest.raises(OSError, match="cut"):
        write_connections(broken(), ["x"], kind, out)
    if kind == "csv":
        rows = list(csv.DictReader(io.StringIO(out.getvalue())))
        assert [row["synack_rto_reason"] for row in rows] == ["no-synack", "refused", ""]
    else:
        assert len(out.getvalue().splitlines()) == 3


@pytest.mark.slow
@few
@given(st.sampled_from(SEEDS), st.sets(st.sampled_from(sorted(KNOBS))))
def test_wanted_knobs_are_read_as_among_all(data: bytes, knobs: set[str]) -> None:
    wanted = frozenset(knobs)
    for whole, part in zip(reports(data), reports(data, wanted), strict=True):
        assert part == whole._replace(observations=tuple(o for o in whole.observations if o.knob in wanted))


@pytest.mark.slow
@few
@given(OPENED)
def test_connections_alike_are_read_as_each_alone(openings: list[int]) -> None:
    together = reports(capture(openings))
    assert [shown(one) for one in together] == [shown(reports(capture([one]))[0]) for one in openings]
    for one in together:
        assert {o.trace_id for o in one.observations} == {f"x/{one.frame}"}


@pytest.mark.slow
@few
@given(st.sampled_from(SEEDS))
def test_reports_without_observations_have_the_same_numbers(data: bytes) -> None:
    for found, fresh in zip(batches(data), batches(data), strict=True):
        numbers = [one._replace(observations=(), hellos=(None, None)) for one in fresh]
        assert list(found.without_observations()) == numbers
        # `fingerprint live` has the numbers first and then the whole reports, of one object
        assert list(found) == list(fresh)
        assert csv_of([found]) == csv_of([fresh])


def test_the_csv_needs_no_knob_that_it_does_not_show() -> None:
    data = capture(list(range(len(OPENINGS))))
    assert csv_of(batches(data)) == csv_of(batches(data, knobs_in("csv")))


@few
@given(OPENED)
def test_connections_of_a_kind_have_the_same_verdicts(openings: list[int]) -> None:
    (found,) = batches(capture(openings))
    seen: dict[int, list[tuple[object, ...]]] = {}
    for place, kind in enumerate(found.kinds.tolist()):
        verdicts = [(o.knob, o.value, o.reason, o.unit, o.method, o.grade) for o in found.read(place)[0]]
        assert seen.setdefault(kind, verdicts) == verdicts
    assert len(seen) == len(set(openings) & UNANSWERED) + sum(one not in UNANSWERED for one in openings)


@pytest.mark.parametrize("text", ["plain", "a,b", 'a"b', "a\nb", "a\rb", " a", ""])
def test_a_text_is_quoted_as_csv_does(text: str) -> None:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow((text, 1))
    assert f"{csv_quoted(text)},1\n" == out.getvalue()
