# SPDX-License-Identifier: MIT
"""Connections read for some knobs only, and connections that are read once because their segments are alike."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configtron.fingerprint import INFERENCES
from configtron.fingerprint.passive.connection_report import ConnectionReport, ConnectionReports
from configtron.report.connection_rows import csv_quoted, write_csv
from configtron.report.connections import knobs_in
from tests.fingerprint.passive.test_fuzz import SEEDS, nonsense
from tests.support import capture_bytes as write
from tests.support.opening_captures import OPENINGS, batches, capture

# Those of them that no inference reads by themselves.
UNANSWERED = {0, 1, 2, 3, 4}


few = settings(max_examples=30, deadline=None)
drawn_openings = st.lists(st.integers(0, len(OPENINGS) - 1), min_size=1, max_size=12)


def reports(data: bytes, wanted: frozenset[str] | None = None) -> list[ConnectionReport]:
    return [one for batch in batches(data, wanted) for one in batch]


def shown(report: ConnectionReport) -> list[object]:
    return [replace(one, trace_id="", evidence=()) for one in report.observations]


@pytest.mark.slow
@few
@given(st.sampled_from(SEEDS), st.sets(st.sampled_from(sorted({k for row in INFERENCES.values() for k in row.knobs}))))
def test_wanted_knobs_are_read_as_among_all(data: bytes, knobs: set[str]) -> None:
    wanted = frozenset(knobs)
    for whole, part in zip(reports(data), reports(data, wanted), strict=True):
        assert part == whole._replace(observations=tuple(o for o in whole.observations if o.knob in wanted))


@pytest.mark.slow
@few
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 63), st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_nonsense_has_no_knob_that_its_reader_does_not_name(steps: list[tuple[int, int, int, int]]) -> None:
    frames = [(at * 10**8, nonsense(way, flags, seq, ack, 100)) for at, (way, flags, seq, ack) in enumerate(steps)]
    named = {knob for row in INFERENCES.values() for knob in row.knobs}
    assert {o.knob for one in reports(write.pcap(frames, nano=True)) for o in one.observations} <= named


@pytest.mark.slow
@few
@given(drawn_openings)
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


def csv_of(found: list[ConnectionReports]) -> str:
    out = io.StringIO()
    write_csv(found, ["x"], out)
    return out.getvalue()


def test_rows_read_before_an_error_are_written() -> None:
    def broken() -> Iterator[ConnectionReports]:
        yield from batches(capture([0, 3, 5]))
        raise OSError("cut")

    out = io.StringIO()
    with pytest.raises(OSError, match="cut"):
        write_csv(broken(), ["x"], out)
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert [row["synack_rto_reason"] for row in rows] == ["no-synack", "refused", ""]


def test_the_csv_needs_no_knob_that_it_does_not_show() -> None:
    data = capture(list(range(len(OPENINGS))))
    assert csv_of(batches(data)) == csv_of(batches(data, knobs_in("csv")))


@few
@given(drawn_openings)
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
