# SPDX-License-Identifier: MIT
"""Initial windows over a database: files in, each connection once; predictions of the prefix seen; hits by time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from configtron.db.end_state_rows import EndStateRows
from configtron.learner.initial.end_states import NAMES, of_rows
from configtron.learner.initial.hit_ratios import BAYES, CONSTANT, ratio_of
from configtron.model.errors import BadInput
from configtron.service.learning import (
    HitOptions,
    InitialOptions,
    InitialWindows,
    WindowsOptions,
    evaluate_initial,
    predict_initial,
    train_initial,
)
from tests.support.end_state_records import rows, written
from tests.support.mmdb import database

RECORDING = Path(__file__).parents[3] / "fixtures/icw/10/trace.pcapng.gz"
NOW_S = 1_800_000_000.0


def trained(folder: Path, lines: Iterable[dict[str, Any]]) -> InitialOptions:
    folder.mkdir(exist_ok=True)
    options = InitialOptions(folder / "x.db", (written(folder / "records.jsonl", lines),))
    train_initial(options, clock=lambda: NOW_S)
    return options


def predicted(db: Path, client: str, rtt_ms: float | None = None) -> InitialWindows:
    return predict_initial(WindowsOptions(db, client, 1.7e9, rtt_ms))


def test_a_file_that_is_read_twice_counts_once(tmp_path: Path) -> None:
    options = trained(tmp_path, rows())
    again = train_initial(options, clock=lambda: NOW_S)
    assert (again.read, again.added, again.known, again.learned) == (200, 0, 200, 200)
    alone = train_initial(replace(options, files=()), clock=lambda: NOW_S)
    assert (alone.read, alone.known, alone.learned) == (0, 200, 200)


def test_absurd_rows_are_left_out_by_name(tmp_path: Path) -> None:
    lines = [*rows(20), *(rows(1)[0] | one for one in ({"max_cwnd": 1e30}, {"at_s": NOW_S + 9}))]
    options = InitialOptions(tmp_path / "x.db", (written(tmp_path / "r.jsonl", lines),))
    found = train_initial(options, clock=lambda: NOW_S)
    assert found.left_out == {"window": 1, "clock": 1}
    assert found.added == 20 and sum("left out" in line for line in found.lines()) == 2


def test_windows_are_those_of_the_prefix_its_network_or_all(tmp_path: Path) -> None:
    db = trained(tmp_path, rows()).db
    low, high = predicted(db, "10.1.0.77"), predicted(db, "10.2.1.0/24")
    assert (low.by, high.by) == ("prefix", "prefix")
    assert 20 <= low.windows["pred-round"] <= 26 and high.windows["pred-round"] == 100
    assert low.windows["null"] == 10 and low.windows["fixed"] == 50
    near, far = predicted(db, "10.2.99.1"), predicted(db, "203.0.113.9")
    assert (near.by, far.by) == ("network", "all") and near.windows["pred-low"] == 100
    shares = [row["share"] for row in low.rows if row["kind"] == "bin" and row["name"] == "max_cwnd"]
    assert sum(float(str(share)) for share in shares) == pytest.approx(1.0, abs=0.06)


def test_its_own_choices_do_not_teach(tmp_path: Path) -> None:
    """Connections that had a predicted window, and short ones, are kept and not learned from."""
    tuned = [one | {"strategy": "pred-high", "propensity": 0.2, "max_cwnd": 900.0} for one in rows(300, seed=2)]
    short = [one | {"packets_out": 9.0, "max_cwnd": 900.0, "min_rtt_ms": 41.0} for one in rows(300, seed=3)]
    null = [one | {"strategy": "null", "min_rtt_ms": 42.0} for one in rows(100, seed=4)]
    options = trained(tmp_path, [*rows(), *tuned, *short, *null])
    found = train_initial(options, clock=lambda: NOW_S)
    assert found.learned == 300 and found.known > 600
    assert predicted(options.db, "10.1.0.0/24").windows["pred-round"] <= 26


def test_the_rule_is_half_of_what_three_of_four_would_pass(tmp_path: Path) -> None:
    """A window of a path that is seen is one to two times the path's own; the rule takes half of its lower part."""
    db = trained(tmp_path, rows(600)).db
    found = predicted(db, "10.2.1.0/24", rtt_ms=40.0)
    by = {(row["kind"], row.get("share")): row["value"] for row in found.rows if row["name"] == "path_window"}
    low, middle, high = (float(str(by["quantile", share])) for share in (0.1, 0.5, 0.9))
    assert 60.0 <= middle <= 145.0 and low < middle < high
    rule = next(row for row in found.rows if row["kind"] == "rule")
    assert rule["by"] == "prefix" and low / 2 <= float(str(rule["value"])) <= middle / 2
    # lower bounds alone teach classifiers, and no window of a path
    bounds = trained(tmp_path / "b", [one | {"bound": True} for one in rows()]).db
    assert "rule" not in {row["kind"] for row in predicted(bounds, "10.2.1.0/24").rows}


def test_a_capture_trains(tmp_path: Path) -> None:
    found = train_initial(InitialOptions(tmp_path / "x.db", (RECORDING,)))
    assert found.read >= 1 and found.added + sum(found.left_out.values()) == found.read


def test_places_come_of_a_file_and_lies_are_none(tmp_path: Path) -> None:
    places = {"10.1.0.0/16": {"location": {"latitude": 52, "longitude": 13}},
              "10.2.0.0/16": {"location": {"latitude": 912, "longitude": 13}},
              "10.3.0.0/16": {"location": "here"}}  # fmt: skip
    (tmp_path / "places.mmdb").write_bytes(database(places))
    lines = [rows(1)[0] | {"prefix": f"10.{at}.0.0/24"} for at in (1, 2, 3, 4)]
    options = InitialOptions(tmp_path / "x.db", (written(tmp_path / "r", lines),), (tmp_path / "places.mmdb",))
    assert train_initial(options, clock=lambda: NOW_S).learned == 4
    with EndStateRows(options.db) as store:
        found = store.every()
    known = dict(zip(found.prefix.tolist(), found.latitude.tolist(), strict=True))
    assert known["10.1.0.0/24"] == 52.0 and sum(place == place for place in known.values()) == 1


def test_hits_are_of_later_connections(tmp_path: Path) -> None:
    db = trained(tmp_path, rows(400)).db
    found = evaluate_initial(HitOptions(db))
    # what no record shows is not judged
    assert {row.target for row in found} == {"min_rtt_ms", "max_cwnd"}
    bayes, fixed = (ratio_of(found, "max_cwnd", model) for model in (BAYES, CONSTANT))
    assert bayes.judged == 200 and bayes.low > 0.95 and fixed.high < 0.65


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: no JSON"), ("[1]", "line 2: no JSON object"),
        ('{"strategy": "' + "x" * 61 + '"}', "line 2: strategy of an end state has more than 60 characters"),
        ('{"strategy": "\\ud800"}', "line 2: strategy of an end state has characters that cannot be printed"),
        ('{"prefix": "1\\u0000"}', "line 2: prefix of an end state has characters that cannot be printed"),
        ('{"max_cwnd": "many"}', "line 2: max_cwnd"), ('{"window": 3}', "line 2: an end state has no 'window'"),
        ('{"at_s": NaN, "prefix": 7}', "line 2: prefix"),
        ('{"schema": "configtron.connection/1", "client": 3}', "line 2"), ("{" * 100_000, "line 2"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(rows(1)[0]) + "\n" + line + "\n")
    with pytest.raises(BadInput, match=words) as caught:
        train_initial(InitialOptions(tmp_path / "x.db", (path,)))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "x.db").exists()


def test_nothing_learned_is_named(tmp_path: Path) -> None:
    db = trained(tmp_path, [one | {"packets_out": 3.0} for one in rows(5)]).db
    with pytest.raises(BadInput, match="no initial window was learned"):
        predicted(db, "10.1.0.0/24")
    with pytest.raises(BadInput, match="too few"):
        evaluate_initial(HitOptions(db))
    with pytest.raises(BadInput, match="neither a prefix nor an address"):
        predict_initial(WindowsOptions(db, "nope"))


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    full = {"at_s": 1.7e9, "prefix": "2001:db8::/48", "min_rtt_ms": 1.5, "max_rtt_ms": 9.0, "max_cwnd": 33.0,
            "packets_in": 2.0, "packets_out": 44.0, "bound": True, "loss": 0.25, "strategy": "fixed", "propensity": 0.2,
            "latitude": -1.0, "longitude": 2.0, "resumed": "validated"}  # fmt: skip
    few = {name: full[name] for name in ("at_s", "min_rtt_ms", "packets_out")} | {"prefix": "192.0.2.0/24"}
    states = of_rows([full, few])
    with EndStateRows(tmp_path / "x.db") as store:
        assert len(store.every()) == 0 and store.add(states) == 2 and store.add(states) == 0
        again = store.every()
    assert [again.row(at) for at in range(2)] == [states.row(at) for at in range(2)]
    assert set(full) == set(NAMES)
