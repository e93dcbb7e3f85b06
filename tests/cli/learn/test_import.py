# SPDX-License-Identifier: MIT
"""`learn import` of what strangers write: what passes can be kept and learned from, what does not is named by its line,
and what came before it stays."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, NOTHING, PARTIAL, USAGE
from configtron.model.nouns import Outcome
from tests.cli.learn.test_import_logs import view
from tests.support.learn_command import Typed, refused
from tests.support.logged_outcomes import outcomes_of

GOOD = '{"plt_ms": 5}\n'


def sizes(tmp_path: Path) -> list[int]:
    """Outcomes of each log."""
    with Outcomes(tmp_path / "l.db") as store:
        return [log.outcomes for log in store.logs()]


def read(tmp_path: Path, *logs: int) -> list[list[Outcome]]:
    with Outcomes(tmp_path / "l.db") as store:
        return [[one for part in store.batches(log) for one in outcomes_of(part, "")] for log in logs]


def test_bad_lines_are_named_and_the_others_kept(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(GOOD * 3 + '{"plt_ms": -1}\n' + GOOD)
    code, _, err = typed("learn", "import", "x")
    assert code == PARTIAL and err == (
        "log 1: 4 outcomes\n"
        "x, line 4: plt_ms is -1; a page load time is from 0.001 ms to 86400000, a day\n"
        "1 of 5 lines are bad and left out; --strict stops at the first\n"
    )
    (tmp_path / "x").write_text("{\n" * 9 + GOOD)
    code, _, err = typed("learn", "import", "x")
    assert code == PARTIAL and err.count("not JSON") == 5 and "9 of 10 lines are bad" in err
    assert sizes(tmp_path) == [4, 1]


def test_strict_keeps_the_lines_before_a_bad_one_and_counts_them(typed: Typed, tmp_path: Path) -> None:
    for text, says in (
        (GOOD * 3 + '{"plt_ms": -1}\n' + GOOD,
         "x, line 4: plt_ms is -1; a page load time is from 0.001 ms to 86400000, a day;"
         " 3 outcomes before it are kept as log 1\n"),
        (GOOD * 20_001 + "{\n", "line 20002: not JSON; 20001 outcomes before it are kept as log 2"),
        ("\n" + GOOD * 2 + '{"plt_ms": 5, "arm": "guess"}\n', "line 4: no arm"),
        (GOOD + "[1]\n", "line 2: not an object"),
    ):  # fmt: skip
        (tmp_path / "x").write_text(text)
        refused(typed, says, "learn", "import", "--strict", "x")
    assert sizes(tmp_path) == [3, 20_001, 2, 1]


@pytest.mark.parametrize(
    ("head", "line"),
    [("", b'{"plt_ms": 5, "context": {"site": "caf\xe9"}}'), ("", b"\xff"), ("plt_ms,site\n", b"5,caf\xe9")],
)
def test_a_byte_that_is_no_utf8_costs_its_own_line(typed: Typed, tmp_path: Path, head: str, line: bytes) -> None:
    """In one read with good lines before it and after it."""
    good = "5,caf\u00e9\n" if head else GOOD
    (tmp_path / "x").write_bytes((head + 3 * good).encode() + line + b"\n" + good.encode())
    code, _, err = typed("learn", "import", "x")
    assert code == PARTIAL and f"x, line {5 if head else 4}: not UTF-8; write the file in that\n" in err
    assert sizes(tmp_path) == [4]
    (tmp_path / "x").write_bytes(line + b"\n" + (head + good).encode())
    assert "x, line 1: not UTF-8" in typed("learn", "import", "x")[2] and sizes(tmp_path) == [4, 1]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{{"plt_ms": 1{"0" * 401}}}', "is no number"),
        ('{"plt_ms": 1e400}', "plt_ms: inf is no number"),
        ('{"plt_ms": null}', "plt_ms is missing"),
        ('{"plt_ms": true}', "no number"),
        ('{"plt_ms": 5, "propensity": -0.1}', "propensity is -0.1; it is a probability"),
        ('{"plt_ms": 5, "propensity": 1e-300}', "propensity is 1e-300; it is a probability, from 1e-09 to 1"),
        ('{"plt_ms": 1e-9}', "plt_ms is 1e-09; a page load time is from 0.001 ms"),
        ('{"plt_ms": 5, "measured_at": 1e30}', "measured_at: 1e+30 is no date of 1973 to 2262"),
        ('{"plt_ms": 5, "measured_at": -1}', "measured_at: -1 is no date"),
        ('{"plt_ms": 5, "context": {"asn": 4294967296}}', "from 0 to 4294967295"),
        ('{"plt_ms": 5, "context": {"rtt_ms": 1e308}}', "rtt_ms is 1e+308; it is not negative and at most 3600000"),
        ('{"plt_ms": 5, "context": {"loss": 2}}', "loss is 2; it is not negative and at most 1, a share"),
        ('{"plt_ms": 5, "context": {"speed": 2}}', "'speed' is no feature"),
        ('{"plt_ms": 5, "context": {"delivery_share": 40}}', "x, line 1: delivery_share"),
        ('{"plt_ms": 5, "context": {"loss_run": -1}}', "x, line 1: loss_run"),
        ('{"plt_ms": 5, "context": {"site": "\\ud800"}}', "site: '\\ud800' has characters that no name has"),
        ('{"plt_ms": 5, "context": {"prefix": "a\\u0000b"}}', "has characters that no name has"),
        *((f'{{"plt_ms": 5, "context": {{"prefix": "{one}"}}}}', f"line 1: prefix '{one}' is no") for one in
          ("999.1.1.1/24", "999.1.1.1", "192.0.2.0/33", "10.0.0/8", "2001:db8::/129", "::g:/48", "1::2::3")),
        ("plt_ms,prefix\n5,999.1.1.1/24\n", "line 2: prefix '999.1.1.1/24' is no"),
        (json.dumps({"plt_ms": 5, "class": "x" * 2000}), "is no word of at most 1024 characters"),
        ('{"plt_ms": 5, "context": []}\n{"plt_ms": 5, "context": [1]}', "line 1: context: [] is no object"),
        ('{"plt_ms": 5, "plt": 4}', "'plt' is no field"),
        ("{", "contexts: not JSON; boomerang: "),
        ('{"plt_ms": 5, "arm": ["gp"]}', "no arm is called ['gp']"),
        ('{"plt_ms": 5, "profile": {"speed": 2}}', "no knob is called 'speed'"),
        ('{"plt_ms": 5, "profile": {"initcwnd": [2]}}', "is no setting"),
        ('{"plt_ms": 5, "profile": {"initcwnd": -3}}', "initcwnd: -3 is no setting; it takes a number from 1"),
        ('{"plt_ms": 5, "profile": {"initcwnd": 0}}', "initcwnd: 0 is no setting"),
        ('{"plt_ms": 5, "profile": {"initcwnd": 10.5}}', "10.5 is no setting; it takes a whole number of segm"),
        ("plt_ms,max_pacing_rate\n5,1.5\n", "max_pacing_rate: '1.5' is no setting; it takes a whole number of bytes/s"),
        ('{"plt_ms": 5, "profile": {"tcp_autocorking": 2}}', "it takes 0 or 1"),
        ('{"plt_ms": 5, "profile": {"http_version": 2}}', "http_version: 2 is no setting; it takes a name"),
        ("plt_ms,plt_ms\n5,5\n", "the header has plt_ms twice"),
        ("rtt_ms\n5\n", "plt_ms is not in the header"),
        ("plt_ms,speed\n5,5\n", "'speed' is no column"),
        ("plt_ms,rtt_ms\n5\n", "line 2: 2 columns"),
        ("plt_ms,rtt_ms\n5,x\n", "rtt_ms: 'x' is no number"),
        ("plt_ms,site\n5," + "x" * 140_000, "not CSV"),
        ("plt_ms;initcwnd;rtt_ms\n900,5;10;40,2\n", "x: a CSV without commas; write them"),
        ("plt_ms\trtt_ms\n900.5\t10\n", "x: a CSV without commas"),
        ('{\0"\0p\0l\0t\0', "x: UTF-16; import what `iconv"), ('\0{\0"\0p\0l', "x: UTF-16"),
        ("PK\x03\x04\x14\0\0\0", "x: a zip archive; import what `unzip -p`"),
        ('[\n{"plt_ms": 5},\n', "x: an array that is no JSON"), ('[{"plt_ms": 5, "x": 1}]', "x, member 1: 'x' is no"),
        ("plt_ms,initcwnd\n5,ten\n", "initcwnd: 'ten' is no setting"),
        # of other programs
        ('{"log": {"pages": [', "x: no HTTP archive"),
        ('{"log": {}}', "x: no HTTP archive"),
        ('{"log": {"pages": {"a": 1}}}', "export it anew"),
        ('{"t_done": 1e400, "u": "https://site.example/"}', "x, line 1: "),
        ('{"name": "LCP", "value": Infinity, "id": "1", "navigationType": "navigate"}', "x, line 1: "),
        ('{"schema": "configtron.context/1", "prefix": "192.0.2.0/24"}', "x, line 1: "),
    ],
)  # fmt: skip
def test_strange_values_are_refused_and_leave_no_log(typed: Typed, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x").write_text(text)
    code, out, err = typed("learn", "import", "x")
    assert code == USAGE and out == "" and says in err and err.count("\n") == 1
    assert len(err) < 500 and "Error" not in err
    assert sizes(tmp_path) == []


def test_outcomes_are_read(typed: Typed, tmp_path: Path) -> None:
    lines = [
        {"context": {"bandwidth_kbps": 5000, "rtt_ms": 80, "loss": 0.01, "site": "news", "prefix": "192.0.2.0/24"},
         "profile": {"initcwnd": 30}, "plt_ms": 1234.5, "arm": "epsilon", "class": "nc3", "propensity": 0.1},
        {"plt_ms": 10},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    header = "plt_ms,rtt_ms,site,initcwnd,http_version,propensity"
    (tmp_path / "b.csv").write_text(f"{header}\n900.5,40,shop,20,h2,0.5\n7,,,,,\n")
    assert typed("learn", "import", "a.jsonl")[0] == DONE
    assert typed("learn", "import", "b.csv", "--source", "lab")[0] == DONE
    first, second = read(tmp_path, 1, 2)
    with Outcomes(tmp_path / "l.db") as store:
        assert [log.source for log in store.logs()] == ["live", "lab"]
    assert first[0].decision.profile.settings == (("initcwnd", 30),) and first[0].decision.class_id == "nc3"
    assert first[0].decision.propensity == 0.1 and first[1].decision.arm == "default" and first[1].plt_ms == 10.0
    assert second[0].decision.context.rtt_ms == 40.0 and second[0].decision.arm == "static"
    assert second[0].decision.profile.settings == (("http_version", "h2"), ("initcwnd", 20))
    assert second[1].decision.context.rtt_ms is None and second[1].decision.propensity is None
    (tmp_path / "none").write_text("\n\n")
    assert typed("learn", "import", "none")[0] == NOTHING
    code, _, err = typed("learn", "evaluate", "--policy", "default", "--log", 2)
    assert code == USAGE and "1 of 2 outcomes have no propensity" in err


def test_a_prefix_is_kept_without_the_bits_of_an_address(typed: Typed, tmp_path: Path) -> None:
    written = ["10.0.0.5/24", "10.0.0.0/24", "2001:DB8:0:1::9/48", "::ffff:192.0.2.9/120", "192.0.2.77", "lan-7", "a/b"]
    (tmp_path / "x").write_text("\n".join(["plt_ms,prefix", *(f"5,{one}" for one in written), ""]))
    assert typed("learn", "import", "x")[0] == DONE
    (found,) = read(tmp_path, 1)
    kept = ["10.0.0.0/24"] * 2 + ["2001:db8::/48", "192.0.2.0/24", "192.0.2.0/24", "lan-7", "a/b"]
    assert [one.decision.context.prefix for one in found] == kept


def test_a_csv_means_what_the_same_json_lines_mean(typed: Typed, tmp_path: Path) -> None:
    """With the mark that spreadsheets put first; times to the nanosecond; lines that were left empty are counted."""
    header = "\ufeffplt_ms,measured_at,initcwnd,http_version,site"
    (tmp_path / "a.csv").write_text(f"{header}\n5,1700000000123456789,30, h2,news\n\n6.5,NaN,16.0,None,NA\n", "utf-8")
    lines = [
        {"plt_ms": 5, "measured_at": 1700000000123456789, "profile": {"initcwnd": 30.0, "http_version": "h2"},
         "context": {"site": "news"}},
        {"plt_ms": 6.5, "profile": {"initcwnd": "16"}, "class": None},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for at, indent in enumerate((None, 1)):
        (tmp_path / f"array{at}").write_text(json.dumps(lines, indent=indent))
    for name in ("a.csv", "a.jsonl", "array0", "array1"):
        assert typed("learn", "import", name)[0] == DONE
    first, second, *arrays = read(tmp_path, 1, 2, 3, 4)
    with Outcomes(tmp_path / "l.db") as store:
        assert first == second == arrays[0] == arrays[1] and len(store.profiles()) == 2
    assert type(first[1].decision.profile.settings[0][1]) is int
    (tmp_path / "a.csv").write_text(f"{header}\n5,,,,\n\n0,,,,\n", "utf-8")
    assert "line 4: plt_ms is '0'" in typed("learn", "import", "a.csv")[2]


def test_a_file_whose_name_is_no_text(typed: Typed, tmp_path: Path) -> None:
    name = b"\xff.jsonl".decode(errors="surrogateescape")
    (tmp_path / name).write_text(GOOD)
    assert typed("learn", "import", name)[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        assert store.logs()[0].about == '{"file":"\\\\udcff.jsonl"}'


def test_what_the_kernel_knows_is_imported_in_both_forms(typed: Typed, tmp_path: Path) -> None:
    known = {"queue_ms": 120.5, "loss_run": 6, "window_bytes": 65535, "delivery_share": 0.4, "ack_gap_ms": 20,
             "reordering": 3, "jitter_ms": 2, "asn": 64500, "region": "NA", "browser": "Firefox"}  # fmt: skip
    (tmp_path / "x").write_text(json.dumps({"plt_ms": 5, "context": known}) + "\n")
    (tmp_path / "y").write_text(",".join(("plt_ms", *known)) + "\n5," + ",".join(map(str, known.values())) + "\n")
    for name in ("x", "y"):
        assert typed("learn", "import", name)[0] == DONE
    one, other = (outcomes[0].decision.context for outcomes in read(tmp_path, 1, 2))
    assert one == other and {name: getattr(one, name) for name in known} == known


def test_a_bad_page_of_an_archive_or_a_date_of_no_load_costs_itself(typed: Typed, tmp_path: Path) -> None:
    good = {"id": "p", "startedDateTime": "2023-11-14T22:13:20Z", "pageTimings": {"onLoad": 500}}
    undated = [{**good, "id": "q", "startedDateTime": 5}, 7, {**good, "id": "r", "startedDateTime": "soon"}]
    pages = [good, *undated, {"pageTimings": {"onLoad": 9}}]
    entry = {"request": {"url": "https://shop.example/"}, "response": {"status": 200}}
    entries = [7, *({**entry, "pageref": name} for name in "pqr")]
    (tmp_path / "har").write_text(json.dumps({"log": {"pages": pages, "entries": entries}}))
    (tmp_path / "log").write_text(view(1_700_000_000.0, 0.5) + view(99_999_999_999.0, 0.5))
    (tmp_path / "ahead").write_text(
        "".join(f'{{"plt_ms":9,"measured_at":{time.time() + s:.0f}}}\n' for s in (8e4, 9e4))
    )
    for name, said in (
        ("ahead", ("line 2: its date is more than a day ahead",)),
        ("har", ("har, page 2: ", "har, page 3: ", "har, page 4: 'soon' is no date", "4 of 5 pages are bad")),
        ("log", ("not from 1970 to 2262",)),
    ):
        code, _, err = typed("learn", "import", name)
        assert code == PARTIAL and ": 1 outcome" in err and "1 outcomes" not in err and "Error" not in err
        assert [part for part in said if part not in err] == []


def test_what_all_outcomes_of_a_file_show(typed: Typed, tmp_path: Path) -> None:
    """Seconds in place of ms, by the round trips; the same page loads once more, in a file that has grown, too."""

    def says(name: str, *loads: float, rtt_ms: float = 40.0, **more: object) -> str:
        text = [json.dumps({"plt_ms": load, "measured_at": 1.7e9 + load, "context": {"rtt_ms": rtt_ms}, **more})
                for load in loads]  # fmt: skip
        (tmp_path / name).write_text("\n".join(text))
        return typed("learn", "import", name)[2]

    assert "2 outcomes quicker than a round trip, of 3: is plt_ms in seconds?" in says("a", 0.9, 1.4, 900.0)
    assert says("b", 0.8, 950.0, 850.0) == "log 2: 3 outcomes\n"
    assert says("b", 7.0, 8.0, rtt_ms=0.5) == "log 3: 2 outcomes\n"
    again = "outcomes of the same times are in log 2; each counts twice, but by --log N of one"
    assert f"3 {again}" in says("c", 0.8, 950.0, 850.0)
    assert f"3 {again}" in says("b", *range(1000, 1003), 0.8, 950.0, 850.0)
    assert "each counts twice" not in says("b", *range(2000, 2004), 0.8, 950.0, 850.0)
    assert "each counts twice" not in says("b", 0.8, 950.0, 850.0, measured_at=0)
