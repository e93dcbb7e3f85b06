# SPDX-License-Identifier: MIT
"""`learn import` of what strangers write: what passes can be kept and learned from, what does not is named by its line,
and what came before it stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configtron.db.outcomes import Outcomes
from configtron.model.errors import DONE, PARTIAL, USAGE
from tests.support.learn_command import Typed, typed
from tests.support.logged_outcomes import outcomes_of

__all__ = ["typed"]

GOOD = '{"plt_ms": 5}\n'


def kept(tmp_path: Path) -> list[int]:
    """Outcomes of each log."""
    with Outcomes(tmp_path / "l.db") as store:
        return [log.outcomes for log in store.logs()]


def test_bad_lines_are_named_and_the_others_kept(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(GOOD * 3 + '{"plt_ms": -1}\n' + GOOD)
    code, _, err = typed("learn", "import", "x")
    assert code == PARTIAL and err == (
        "log 1: 4 outcomes\n"
        "x, line 4: plt_ms is -1; a page load time is from 0.001 ms to 86400000, a day\n"
        "1 of 5 lines are bad and left out; --strict stops at the first\n"
    )
    assert kept(tmp_path) == [4]
    (tmp_path / "x").write_text("{\n" * 9 + GOOD)
    code, _, err = typed("learn", "import", "x")
    assert code == PARTIAL and err.count("not JSON") == 5 and "9 of 10 lines are bad" in err
    assert kept(tmp_path) == [4, 1]


def test_strict_keeps_the_lines_before_a_bad_one_and_counts_them(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(GOOD * 3 + '{"plt_ms": -1}\n' + GOOD)
    code, _, err = typed("learn", "import", "--strict", "x")
    assert code == USAGE and err == (
        "configtron: x, line 4: plt_ms is -1; a page load time is from 0.001 ms to 86400000, a day;"
        " 3 outcomes before it are kept as log 1\n"
    )
    assert kept(tmp_path) == [3]
    (tmp_path / "x").write_text(GOOD * 20_001 + "{\n")
    printed = typed("learn", "import", "--strict", "x")[2]
    assert "line 20002: not JSON; 20001 outcomes before it are kept as log 2" in printed
    assert kept(tmp_path) == [3, 20_001]
    (tmp_path / "x").write_text("\n" + GOOD * 2 + '{"plt_ms": 5, "arm": "guess"}\n')
    assert "line 4: no arm" in typed("learn", "import", "--strict", "x")[2] and kept(tmp_path) == [3, 20_001, 2]


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
    assert kept(tmp_path) == [4]
    (tmp_path / "x").write_bytes(line + b"\n" + (head + good).encode())
    assert "x, line 1: not UTF-8" in typed("learn", "import", "x")[2] and kept(tmp_path) == [4, 1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'{{"plt_ms": 1{"0" * 401}}}', "is no number"),
        ('{"plt_ms": 1e400}', "plt_ms: inf is no number"),
        ('{"plt_ms": 1e300}', "to 86400000, a day"),
        ('{"plt_ms": null}', "plt_ms is missing"),
        ('{"plt_ms": 5, "propensity": -0.1}', "propensity is -0.1; it is a probability"),
        ('{"plt_ms": 5, "propensity": 1e-300}', "propensity is 1e-300; it is a probability, from 1e-09 to 1"),
        ('{"plt_ms": 1e-9}', "plt_ms is 1e-09; a page load time is from 0.001 ms"),
        ('{"plt_ms": 5, "measured_at": 1e30}', "measured_at: 1e+30 is no whole number"),
        ('{"plt_ms": 5, "measured_at": -1}', "measured_at: -1 is no whole number"),
        ('{"plt_ms": 5, "measured_at": "noon"}', "measured_at: 'noon' is no whole number"),
        ('{"plt_ms": 5, "context": {"asn": 1e400}}', "asn: inf is no whole number"),
        ('{"plt_ms": 5, "context": {"asn": 4294967296}}', "from 0 to 4294967295"),
        ('{"plt_ms": 5, "context": {"rtt_ms": 1e308}}', "rtt_ms is 1e+308; it is not negative and at most 3600000"),
        ('{"plt_ms": 5, "context": {"site": "\\ud800"}}', "site: '\\ud800' has characters that no name has"),
        ('{"plt_ms": 5, "context": {"prefix": "a\\u0000b"}}', "has characters that no name has"),
        (json.dumps({"plt_ms": 5, "class": "x" * 2000}), "is no word of at most 1024 characters"),
        ('{"plt_ms": 5, "context": []}\n{"plt_ms": 5, "context": [1]}', "line 1: context: [] is no object"),
        ('{"plt_ms": 5, "arm": ["gp"]}', "no arm is called ['gp']"),
        ('{"plt_ms": 5, "profile": {"initcwnd": NaN}}', "initcwnd: nan is no setting"),
        ('{"plt_ms": 5, "profile": {"initcwnd": -3}}', "initcwnd: -3 is no setting; it takes a number from 1"),
        ('{"plt_ms": 5, "profile": {"initcwnd": 0}}', "initcwnd: 0 is no setting"),
        ('{"plt_ms": 5, "profile": {"initcwnd": true}}', "initcwnd: True is no setting"),
        ('{"plt_ms": 5, "profile": {"initcwnd": 1e30}}', "initcwnd: 1e+30 is no setting"),
        (
            '{"plt_ms": 5, "profile": {"initcwnd": 10.5}}',
            "initcwnd: 10.5 is no setting; it takes a whole number of segm",
        ),
        ("plt_ms,max_pacing_rate\n5,1.5\n", "max_pacing_rate: '1.5' is no setting; it takes a whole number of bytes/s"),
        ('{"plt_ms": 5, "profile": {"tcp_autocorking": 2}}', "it takes 0 or 1"),
        ('{"plt_ms": 5, "profile": {"http_version": 2}}', "http_version: 2 is no setting; it takes a name"),
        ("plt_ms,plt_ms\n5,5\n", "the header has plt_ms twice"),
        ("plt_ms,site\n5," + "x" * 140_000, "not CSV"),
        ("plt_ms,initcwnd\n5,ten\n", "initcwnd: 'ten' is no setting"),
    ],
)
def test_strange_values_are_refused_and_leave_no_log(typed: Typed, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x").write_text(text)
    code, _, err = typed("learn", "import", "x")
    assert code == USAGE and says in err and len(err.splitlines()) == 1 and len(err) < 500
    assert kept(tmp_path) == []


def test_a_prefix_is_kept_without_the_bits_of_an_address(typed: Typed, tmp_path: Path) -> None:
    written = ["10.0.0.5/24", "10.0.0.0/24", "2001:DB8:0:1::9/48", "::ffff:192.0.2.9/120", "192.0.2.77", "lan-7", "a/b"]
    (tmp_path / "x").write_text("\n".join(["plt_ms,prefix", *(f"5,{one}" for one in written), ""]))
    assert typed("learn", "import", "x")[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        (found,) = store.batches()
    prefixes = [found.contexts.row(at).prefix for at in range(len(found))]
    assert prefixes == ["10.0.0.0/24"] * 2 + ["2001:db8::/48", "192.0.2.0/24", "192.0.2.0/24", "lan-7", "a/b"]


def test_a_csv_means_what_the_same_json_lines_mean(typed: Typed, tmp_path: Path) -> None:
    """With the mark that spreadsheets put first; times to the nanosecond; lines that were left empty are counted."""
    header = "\ufeffplt_ms,measured_at,initcwnd,http_version,site"
    (tmp_path / "a.csv").write_text(f"{header}\n5,1700000000123456789,30,h2,news\n\n6.5,,16.0,,\n", "utf-8")
    lines = [
        {"plt_ms": 5, "measured_at": 1700000000123456789, "profile": {"initcwnd": 30.0, "http_version": "h2"},
         "context": {"site": "news"}},
        {"plt_ms": 6.5, "profile": {"initcwnd": "16"}, "class": None},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert typed("learn", "import", "a.csv")[0] == typed("learn", "import", "a.jsonl")[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        first, second = (outcomes_of(next(store.batches(log)), "live") for log in (1, 2))
        assert first == second and len(store.profiles()) == 2
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
             "reordering": 3, "jitter_ms": 2, "asn": 64500, "region": "NL", "browser": "Firefox"}  # fmt: skip
    (tmp_path / "x").write_text(json.dumps({"plt_ms": 5, "context": known}) + "\n")
    columns = [f"{key}" for key in known]
    (tmp_path / "y").write_text(",".join(("plt_ms", *columns)) + "\n5," + ",".join(map(str, known.values())) + "\n")
    for name in ("x", "y"):
        assert typed("learn", "import", name)[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        one, other = (outcomes_of(next(store.batches(log)), "live")[0].decision.context for log in (1, 2))
    assert one == other and {name: getattr(one, name) for name in known} == known


@pytest.mark.parametrize("given", ['"delivery_share": 40', '"window_bytes": 2e9', '"loss_run": -1', '"queue_ms": "a"'])
def test_a_number_that_no_kernel_measured_is_refused(typed: Typed, tmp_path: Path, given: str) -> None:
    (tmp_path / "x").write_text(f'{{"plt_ms": 5, "context": {{{given}}}}}\n')
    code, _, err = typed("learn", "import", "x")
    assert code == USAGE and f"x, line 1: {given.split(chr(34))[1]}" in err
