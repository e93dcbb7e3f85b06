# SPDX-License-Identifier: MIT
import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from configtron import report
from configtron.model.errors import BadInput
from configtron.model.records import result_from_json
from configtron.report.files import opened
from configtron.report.lines import write_csv, write_fields, write_flat, write_jsonl, write_results
from configtron.report.rendering import render
from configtron.report.target_results import found_in
from tests.support.sample_results import VANTAGES, run

SCHEMA = json.loads(Path(report.__file__).with_name("probe.schema.json").read_text())


def written(write: object, *things: object) -> str:
    out = io.StringIO()
    write(*things, out)  # type: ignore[operator]
    return out.getvalue()


def test_each_json_line_is_a_whole_record() -> None:
    records = [json.loads(line) for line in written(write_jsonl, found_in(run()), VANTAGES).splitlines()]
    assert len(records) == 4
    for record in records:
        Draft202012Validator(SCHEMA).validate(record)
    assert records[0]["vantage"] == {"name": "eu", "region": "Europe"}
    assert records[0]["observations"]["icw"]["trials"][1]["evidence"] == {"file": "eu.pcapng", "frames": [22, 23]}
    assert records[0]["started_at"] == 1e9


def test_the_same_run_gives_the_same_bytes() -> None:
    assert written(write_jsonl, found_in(run()), VANTAGES) == written(write_jsonl, found_in(run()), VANTAGES)


def test_a_flat_line_has_a_value_and_its_grade_or_a_reason() -> None:
    rows = [json.loads(line) for line in written(write_flat, found_in(run()), ()).splitlines()]
    flat = {(row["host"], row["vantage"]): row for row in rows}
    assert len(rows) == len(flat) == 4
    assert flat["a.example", "na"]["icw"] == 10 and flat["a.example", "na"]["icw_grade"] == "B"
    assert flat["b.example", "na"] | {"icw": 3, "icw_grade": "L"} == flat["b.example", "na"]
    assert flat["b.example", "eu"]["icw_reason"] == "too-short" and "icw" not in flat["b.example", "eu"]
    assert all(isinstance(value, str | int | float) for row in rows for value in row.values())


def test_fields_choose_and_order_the_columns() -> None:
    (line, *_) = written(write_flat, found_in(run()), ("rwin", "icw")).splitlines()
    assert line == '{"host":"a.example","vantage":"eu","rwin_reason":"not-asked","icw":4,"icw_grade":"B"}'
    head, *rows = csv.reader(io.StringIO(written(write_fields, found_in(run()), ("icw", "rwin"))))
    assert head == ["host", "vantage", "icw", "icw_grade", "icw_reason", "rwin", "rwin_grade", "rwin_reason"]
    assert ["b.example", "na", "3", "L", "", "", "", "not-asked"] in rows and len(rows) == 4
    out = io.StringIO()
    render(found_in(run()), VANTAGES, "table", out, color=False, fields=("rwin", "icw"))
    assert out.getvalue().splitlines()[1].split() == ["rwin", "icw"]


def test_csv_has_a_row_for_each_verdict() -> None:
    rows = list(csv.DictReader(io.StringIO(written(write_csv, found_in(run()), VANTAGES))))
    icw = {(row["host"], row["vantage"]): row for row in rows if row["knob"] == "icw"}
    assert len(rows) == 8
    assert icw["a.example", "na"]["value"] == "10" and icw["a.example", "na"]["grade"] == "B"
    assert icw["b.example", "na"]["value"] == ">= 3"
    assert icw["b.example", "eu"]["value"] == "" and icw["b.example", "eu"]["reason"] == "too-short"


def test_results_can_be_read_back() -> None:
    assert [result_from_json(line) for line in written(write_results, run()).splitlines()] == run()


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent"), opened(str(tmp_path / "absent" / "x")):
        pass


def test_a_dash_is_stdout(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with opened("-") as out:
        out.write("data")
    with opened(str(tmp_path / "file")) as out:
        out.write("more")
    assert capsys.readouterr().out == "data"
    assert (tmp_path / "file").read_text() == "more"


@pytest.mark.parametrize(("path", "named"), [("/dev/full", "/dev/full"), ("-", "standard output")])
def test_a_full_disk_is_reported_with_the_file(path: str, named: str) -> None:
    code = f"from configtron.report.files import opened\nwith opened({path!r}) as out: out.write(9000 * 'x')"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert f"No space left on device: '{named}'" in done.stderr
