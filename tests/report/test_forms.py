# SPDX-License-Identifier: MIT
"""Rows in each form: JSON Lines, CSV and a table say the same, nothing more certain than it is."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import pytest
from jsonschema import Draft202012Validator

from configtron import report
from configtron.cli.outermost import run as command
from configtron.db.store import Store
from configtron.fingerprint.diversity import DIFFERS, SAME
from configtron.fingerprint.features import Sighting
from configtron.model.errors import DONE, BadInput
from configtron.model.nouns import Context
from configtron.model.records import canonical, result_from_json
from configtron.model.repeats import Verdict
from configtron.model.samples import Kept
from configtron.report.cells import write_cells
from configtron.report.changes import VerdictChange, write_changes
from configtron.report.contexts import TABLE, SightingWriter, closing, summed
from configtron.report.files import opened
from configtron.report.lines import write_results
from configtron.report.rendering import render
from configtron.report.replay_results import SCHEMA, Played, differences, write
from configtron.report.rows import WIDEST, aligned, emit
from configtron.report.target_results import found_in
from tests.support import ROOT
from tests.support.sample_results import VANTAGES, reading, run

Rows = list[dict[str, Any]]
FORMS = ("jsonl", "csv", "table")


def written(write: Callable[[TextIO], object]) -> str:
    out = io.StringIO()
    write(out)
    return out.getvalue()


def of_json(text: str) -> Rows:
    return [json.loads(line) for line in text.splitlines()]


def of_csv(text: str) -> Rows:
    return list(csv.DictReader(io.StringIO(text)))


# Results of probes.


def results(form: str, *fields: str) -> str:
    return written(lambda out: render(found_in(run()), VANTAGES, form, out, color=False, fields=fields))


def test_each_json_line_is_a_whole_record() -> None:
    records = of_json(results("jsonl"))
    schema = json.loads(Path(report.__file__).with_name("probe.schema.json").read_text())
    assert len(records) == 4
    for record in records:
        Draft202012Validator(schema).validate(record)
    assert records[0]["vantage"] == {"name": "eu", "region": "Europe"}
    assert records[0]["observations"]["icw"]["trials"][1]["evidence"] == {"file": "eu.pcapng", "frames": [22, 23]}
    assert records[0]["started_at"] == 1e9
    assert results("jsonl") == results("jsonl"), "the same run gives the same bytes"


def test_fields_choose_and_order_the_columns() -> None:
    line, *_ = results("flat", "rwin", "icw").splitlines()
    assert line == '{"host":"a.example","vantage":"eu","rwin_reason":"not-asked","icw":4,"icw_grade":"B"}'
    head, *rows = csv.reader(io.StringIO(results("csv", "icw", "rwin")))
    assert head == ["host", "vantage", "icw", "icw_grade", "icw_reason", "rwin", "rwin_grade", "rwin_reason"]
    assert ["b.example", "na", "3", "L", "", "", "", "not-asked"] in rows and len(rows) == 4
    assert results("table", "rwin", "icw").splitlines()[0].split()[2::2] == ["rwin", "icw"]


def test_csv_has_a_row_for_each_verdict() -> None:
    rows = of_csv(results("csv"))
    icw = {(row["host"], row["vantage"]): row for row in rows if row["knob"] == "icw"}
    assert len(rows) == 8
    assert icw["a.example", "na"]["value"] == "10" and icw["a.example", "na"]["grade"] == "B"
    assert icw["b.example", "na"]["value"] == ">= 3"
    assert icw["b.example", "eu"]["value"] == "" and icw["b.example", "eu"]["reason"] == "too-short"


def test_results_can_be_read_back() -> None:
    assert [result_from_json(line) for line in written(lambda out: write_results(run(), out)).splitlines()] == run()


# Cells of a tensor.

SETTINGS = (("http_version", "h2"), ("initcwnd", 10))
CELLS = [
    Kept("a", 0, SETTINGS, "news", Verdict(100.0, 95.0, 104.0, 6, ""), (("initcwnd", "10"),), "ff", (100.0,) * 6),
    Kept("a", 1, SETTINGS, "news", Verdict(300.0, 50.0, None, 24, "wide-interval"), (), "fe", (300.0, None)),
    Kept("b", 0, SETTINGS, "news", Verdict(None, None, None, 0, "stack-not-as-asked"), (), "fd", ()),
    Kept("b", 1, SETTINGS, "news", Verdict(400.0, None, None, 1, "few-loads"), (), "fc", (400.0,)),
]


def test_cells() -> None:
    lines, table_csv, table = (written(lambda out, f=form: write_cells(f, CELLS, out)) for form in FORMS)  # type: ignore[misc]
    first, second, third, _ = of_json(lines)
    assert first == {
        "schema": "configtron.cell/1", "condition": "a", "configuration": 0, "site": "news", "median_ms": 100.0,
        "low_ms": 95.0, "high_ms": 104.0, "loads": 6, "flag": "", "settings": {"http_version": "h2", "initcwnd": 10},
        "read_back": {"initcwnd": "10"}, "provenance": "ff", "plt_ms": [100.0] * 6,
    }  # fmt: skip
    assert second["plt_ms"] == [300.0, None] and second["high_ms"] is None
    assert (third["median_ms"], third["flag"]) == (None, "stack-not-as-asked")
    rows = of_csv(table_csv)
    assert len(rows) == 4 and rows[1]["flag"] == "wide-interval" and rows[1]["high_ms"] == ""
    assert rows[0]["median_ms"] == "100.0" and json.loads(rows[0]["settings"]) == dict(SETTINGS)
    assert [line.split() for line in table.splitlines()[1:3]] == [
        ["a", "2", "1", "30", "0.20", "1", "wide-interval"],
        ["b", "2", "0", "1", "0.40", "1", "stack-not-as-asked,", "1", "few-loads"],
    ]


# Sightings of connections.

FULL = Sighting(
    "live", 1_700_000_000_123_456_789, "192.0.2.1", 443, "2001:db8:1::9", 40_000, "out", "fin", 1.25, 9000, 100, True,
    Context(8000.5, 40.25, 0.0125, "", "2001:db8:1::/48", 64500, "DE", "phone", 39.5, 0.25, 7000.0, 180.5, 2.0,
            65536.0, None, 4.5, 3.0),
)  # fmt: skip
EMPTY = Sighting(
    "socket", 0, "192.0.2.1", 80, "", 0, "", "open", None, 0, 0, False, Context(prefix="192.0.2.0/24"),
    (("rtt_ms", "no-sample"), ("asn", "no-file")),
)  # fmt: skip


def sighted(kind: str, *seen: Sighting, silent: bool = False) -> str:
    out = io.StringIO()
    writer = SightingWriter(kind, out, silent=silent)
    writer.write(seen[:1])
    writer.write(seen[1:])
    writer.close(closing(3, "live", 1.5, {"frames": 9, "dropped-by-capture": 2, "udp": 0}))
    return out.getvalue()


def test_sightings_as_lines() -> None:
    full, empty, last = of_json(sighted("jsonl", FULL, EMPTY))
    assert full == {
        "schema": "configtron.context/1", "source": "live", "at": 1700000000.1234567, "way": "out", "ended": "fin",
        "age_s": 1.25, "bytes_out": 9000, "bytes_in": 100, "bounded": True, "unknown": {},
        "local": {"address": "192.0.2.1", "port": 443}, "remote": {"address": "2001:db8:1::9", "port": 40_000},
        "context": {"bandwidth_kbps": 8000.5, "delivery_kbps": 7000.0, "rtt_ms": 40.25, "min_rtt_ms": 39.5,
                    "loss": 0.0125, "jitter_ms": 0.25, "queue_ms": 180.5, "loss_run": 2.0, "window_bytes": 65536.0,
                    "ack_gap_ms": 4.5, "reordering": 3.0,
                    "prefix": "2001:db8:1::/48", "asn": 64500, "region": "DE", "device": "phone"},
    }  # fmt: skip
    assert empty["context"] == {"prefix": "192.0.2.0/24"} and "remote" not in empty and "age_s" not in empty
    assert empty["unknown"] == {"rtt_ms": "no-sample", "asn": "no-file"}
    assert last == {"schema": "configtron.watch/1", "watch": 3, "source": "live", "elapsed_s": 1.5, "dropped": 2,
                    "counts": {"frames": 9, "dropped-by-capture": 2}}  # fmt: skip
    # another program writes here
    assert sighted("csv", FULL, silent=True) == "" and sighted("jsonl", FULL, silent=True).count("\n") == 1


def test_sightings_as_csv_and_table() -> None:
    full, empty = of_csv(sighted("csv", FULL, EMPTY))
    assert full["at"] == "1700000000.123456789" and full["bounded"] == "1" and full["asn"] == "64500"
    assert full["remote"] == "2001:db8:1::9" and full["loss"] == "0.0125" and full["device"] == "phone"
    assert full["queue_ms"] == "180.5" and full["delivery_share"] == empty["queue_ms"] == ""
    assert empty["rtt_ms"] == empty["asn"] == empty["remote"] == empty["remote_port"] == empty["age_s"] == ""
    assert sighted("csv").count("\n") == 1, "a header without rows"
    head, line, short = sighted("table", FULL, EMPTY).splitlines()
    assert [name for name, _ in TABLE if name not in head] == []
    for text in ("443", "2001:db8:1::/48", "40.250", "39.500", "1.25 %", ">= 8000", "7000", "64500", "DE", "phone"):
        assert text in line
    assert short.split()[:4] == ["80", "192.0.2.0/24", "-", "open"] and short.split()[4:] == ["-"] * 9
    assert head.index("device") == line.index("phone"), "columns stand under their names"
    assert sighted("table") == ""


def test_a_line_for_people() -> None:
    counts = {"frames": 9, "tcp": 8, "connections": 2, "dropped-by-capture": 3, "udp": 1}
    assert summed("live", counts) == "9 frames, 8 tcp, 2 connections; 1 udp; 3 dropped"
    assert summed("socket", {"connections": 2}) == "2 connections reported; 0 dropped"


# Verdicts that differ between two runs; probes that were played again.


def test_changes() -> None:
    sides = reading("icw", 10), reading("icw", 4, "L")
    changes = [VerdictChange("a", "na", knob, outcome, *sides)
               for knob, outcome in (("icw", DIFFERS), ("rwin", DIFFERS), ("tfo", SAME))]  # fmt: skip
    found = {form: written(lambda out, f=form: write_changes(changes, f, out, ("icw", "tfo"))) for form in FORMS}  # type: ignore[misc]
    (line,) = of_json(found["jsonl"])
    assert (line["schema"], line["knob"], line["before"]["value"]) == ("configtron.diff/1", "icw", 10)
    assert list(of_csv(found["csv"])[0].values()) == ["a", "na", "icw", "10", "C", ">= 4", "L"]
    assert found["table"] == "a\tna\ticw\t10 -> >= 4\n"
    assert write_changes(changes, "table", io.StringIO()) == {DIFFERS: 2, SAME: 1}


def test_replays_differ_by_fields_and_readings() -> None:
    readings = [{"knob": "icw", "value": n} for n in (10, 10)]
    before, after = (canonical({"ending": "done", "observations": [readings[0], more]}) for more in (
        readings[1], {"knob": "icw", "value": 4}))  # fmt: skip
    (one,) = differences(before, after)
    assert one == ("icw.2.value", "10", "4")
    played = [Played("f", "t", "icw", "differs", (one,)), Played("f", "u", "rto", "diverged", (), "why")]
    found = {form: written(lambda out, f=form: write(f, played, out, color=False)) for form in FORMS}  # type: ignore[misc]
    first, second = of_json(found["jsonl"])
    assert (first["schema"], first["differences"][0]["name"], second["message"]) == (SCHEMA, one.name, "why")
    assert "message" not in first and "differences" not in second
    assert [(row["name"], row["replayed"]) for row in of_csv(found["csv"])] == [(one.name, "4"), ("", "why")]
    assert "  icw.2.value\n  - 10\n  + 4\n" in found["table"] and "f: u: diverged\n  why" in found["table"]


# Rows of any command.

ROWS: Rows = [{"a": "x" * 100, "b": None, "c": "do this: " + "y" * 100}, {"a": 1, "b": {"k": [1, "v"]}, "d": "more"}]


def rows_as(form: str, *, header: bool = True) -> str:
    return written(lambda out: emit(form, ("a", "b", "c"), ROWS, out, header=header))


def test_a_table_cuts_all_but_the_last_column() -> None:
    head, first, second = aligned(("a", "b", "c"), ROWS)
    assert head.split() == ["a", "b", "c"] and first.endswith("y" * 100)
    assert first.startswith("x" * (WIDEST - 3) + "...  ")
    assert second.split(maxsplit=1) == ["1", "k 1, v"]
    assert aligned(("a",), []) == [] and rows_as("table").count("\n") == 3
    assert aligned(("a",), [{"a": "\x1b[2J\n"}])[1] == "\\u001b[2J\\u000a", "strangers move no cursor"


def test_lines_have_every_field_and_a_schema_and_csv_its_columns_and_a_header_or_none() -> None:
    first, second = of_json(rows_as("jsonl"))
    assert second == {"a": 1, "b": {"k": [1, "v"]}, "d": "more", "schema": "configtron.tuning/1"} and first["b"] is None
    assert rows_as("csv").splitlines()[0] == "a,b,c"
    cells = written(lambda out: emit("table", ("a", "b"), [("x" * 100, "")], out, whole=True))
    assert [line.split() for line in cells.splitlines()] == [["a", "b"], ["x" * 100]], "whole: no cell is cut"
    assert rows_as("csv", header=False).splitlines()[1] == '1,"{""k"":[1,""v""]}",'


# Files.


def test_a_file_that_cannot_be_written_is_named_and_a_dash_is_stdout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="absent"), opened(str(tmp_path / "absent" / "x")):
        pass
    for path in ("-", str(tmp_path / "file")):
        with opened(path) as out:
            out.write("data")
    assert capsys.readouterr().out == (tmp_path / "file").read_text() == "data"


@pytest.mark.parametrize(("path", "named"), [("/dev/full", "/dev/full"), ("-", "standard output")])
def test_a_full_disk_is_reported_with_the_file(path: str, named: str) -> None:
    code = f"from configtron.report.files import opened\nwith opened({path!r}) as out: out.write(9000 * 'x')"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert f"No space left on device: '{named}'" in done.stderr


# Schemas: every line that is printed names its own, and fits the one that is shipped under that name.

SCHEMAS: dict[str, dict[str, Any]] = {
    form["$id"]: form
    for form in (json.loads(file.read_text()) for file in Path(report.__file__).parent.glob("*.schema.json"))
}


def fits(lines: str, schema: str) -> None:
    rows = of_json(lines)
    assert rows
    for row in rows:
        assert row["schema"] == schema
        Draft202012Validator(SCHEMAS[schema]).validate(row)


def test_schemas_are_schemas() -> None:
    for name, schema in SCHEMAS.items():
        Draft202012Validator.check_schema(schema)
        assert schema["properties"]["schema"] == {"const": name}


def test_runs_and_watches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    db = tmp_path / "x.db"
    with Store(db) as store:
        for status in ("done", "interrupted"):
            number = store.begin_run("{}")
            store.record(number, run())
            store.finish_run(number, status)
        store.finish_watch(store.begin_watch("socket", "{}"), "done", "{}")
    assert command(["--db", str(db), "probe", "show", "-f", "jsonl"]) == DONE
    shown = capsys.readouterr().out
    fits(shown, "configtron.runs/1")
    assert [row["run"] for row in of_json(shown)] == [1, 2]
    assert command(["--db", str(db), "fingerprint", "contexts", "-f", "jsonl"]) == DONE
    fits(capsys.readouterr().out, "configtron.watches/1")
    assert command(["--db", str(db), "probe", "show", "1", "-f", "jsonl"]) == DONE
    fits(capsys.readouterr().out, "configtron.probe/1")


def test_replayed_probes(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["replay", "packets", str(ROOT / "fixtures" / "icw"), "-f", "jsonl", "-j", "1"]) == DONE
    fits(capsys.readouterr().out, "configtron.replayed/1")
