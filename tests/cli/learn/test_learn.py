# SPDX-License-Identifier: MIT
"""`configtron learn` from outcomes to rules, and how it answers what cannot be."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner import POLICIES, PREFERRED
from configtron.model.errors import DONE, NOTHING, PARTIAL, USAGE
from configtron.model.tensor import write
from configtron.service import learning
from tests.support.learn_command import Typed, filled, rows, typed
from tests.support.worlds import small_tensor

__all__ = ["filled", "typed"]


@pytest.mark.slow
def test_a_policy_learns_and_goes_on(filled: Typed, tmp_path: Path) -> None:
    how = ("learn", "run", "--policy", "configtron", "--classes", 4, "--update-every", 60, "-f", "jsonl")
    code, out, err = filled(*how, "--name", "whole")
    (row,) = rows(out)
    assert code == DONE and (row["learned"], row["updates"], row["classes"]) == (1500, 25, 4)
    assert sum(row["arms"].values()) == pytest.approx(1.0, abs=1e-4) and "1500/1500 outcomes" in err
    assert rows(filled(*how, "--name", "parts", "--outcomes", 700)[1])[0]["learned"] == 700
    assert rows(filled("learn", "run", "--policy", "parts", "-f", "jsonl")[1])[0]["learned_now"] == 800
    with Outcomes(tmp_path / "l.db") as store:
        whole, parts = store.learner("whole"), store.learner("parts")
        assert whole is not None and parts is not None and whole.state == parts.state
        assert list(store.decisions("whole")) == list(store.decisions("parts"))
    code, out, err = filled("learn", "run", "--policy", "whole", "-f", "jsonl")
    assert code == DONE and "nothing new" in err and rows(out)[0]["learned_now"] == 0
    drop = ("learn", "drop", "--policy", "whole")
    assert filled(*drop)[0] == DONE and filled(*drop)[0] == NOTHING


def test_too_few_outcomes_are_named_with_a_remedy(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("plt_ms\n1000\n")
    assert typed("learn", "import", "one.csv")[0] == DONE
    code, out, err = typed("learn", "run", "--policy", "mab_nc")
    assert (code, out, err.count("\n")) == (USAGE, "", 1)
    assert "no outcome has all three; log them (bandwidth_kbps, rtt_ms, loss), or import" in err
    (tmp_path / "two.csv").write_text("plt_ms,bandwidth_kbps,rtt_ms,loss\n1000,9000,40,0\n")
    assert typed("learn", "import", "two.csv")[0] == DONE
    code, _, err = typed("learn", "run", "--policy", "mab_nc")
    assert code == DONE and "mab_nc: nothing is learned before the first update" in err and "2 outcomes are read" in err


@pytest.mark.slow
def test_a_policy_stays_as_it_was_made(filled: Typed) -> None:
    assert filled("learn", "run", "--policy", "mab_nc", "--classes", 4)[0] == DONE
    code, _, err = filled("learn", "run", "--policy", "mab_nc", "--classes", 9, "--seed", 3)
    assert code == USAGE and "without --seed, --classes" in err and "--fresh" in err
    assert filled("learn", "run", "--policy", "default", "--name", "mab_nc")[0] == USAGE
    assert filled("learn", "run", "--policy", "mab_nc")[0] == DONE
    code, out, _ = filled("learn", "run", "--policy", "mab_nc", "--classes", 9, "--fresh", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["classes"] == 9 and rows(out)[0]["learned_now"] == 1500


@pytest.mark.slow
def test_configurations_that_came_later_are_set_aside_until_a_new_start(filled: Typed, tmp_path: Path) -> None:
    """Once and for good: the next run reads on behind them, and finds knobs that do nothing as before."""
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    new = ['{"plt_ms": 5, "profile": {"initcwnd": 42}}'] * 3
    (tmp_path / "new.jsonl").write_text("\n".join([new[0], '{"plt_ms": 50}', *new[1:], '{"plt_ms": 50}', ""]))
    filled("learn", "import", "new.jsonl")
    code, out, err = filled("learn", "run", "--policy", "mab_nc", "-f", "jsonl")
    assert code == DONE and (rows(out)[0]["learned_now"], rows(out)[0]["learned"]) == (2, 1502)
    assert "mab_nc: 3 outcomes are of configurations that it lacks, and set aside" in err and "--fresh" in err
    (tmp_path / "new.jsonl").write_text(new[0] + "\n")
    filled("learn", "import", "new.jsonl")
    code, out, err = filled("learn", "run", "--policy", "mab_nc", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["learned_now"] == 0 and "mab_nc: 1 outcome is of" in err
    code, _, err = filled("learn", "run", "--policy", "mab_nc")
    assert code == DONE and "nothing new" in err and "set aside" not in err
    left = "mab_nc: 4 outcomes are of configurations that it lacks, and not counted"
    code, _, err = filled("learn", "evaluate", "--policy", "mab_nc", "--log", 1)
    assert code == DONE and "not counted" not in err
    for words in (("export", "--only", "loss"), ("export", "--to-tune", "--unjudged")):
        code, out, err = filled("learn", *words, "-f", "jsonl")
        assert code == DONE and left in err and "other configurations" not in out
    code, out, err = filled("learn", "run", "--policy", "mab_nc", "--classes", 4, "--fresh", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["learned"] == 1506
    assert "mab_nc: chooses among" in err and " before: " in err
    err = filled("learn", "run", "--policy", "mab_nc", "--classes", 4, "--fresh")[2]
    assert "chooses among" not in err


@pytest.mark.slow
def test_a_run_is_cancelled_within_a_batch(filled: Typed, tmp_path: Path) -> None:
    """What is learned by then is saved, and the next run ends with what one that was never cancelled knows."""
    options = learning.LearnOptions(tmp_path / "l.db", "mab_nc", policy_options=learning.PolicyOptions(classes="4"))
    whole = learning.run(replace(options, name="whole"))
    part = learning.run(options, cancelled=lambda: True)
    assert part.cancelled and 0 < part.outcomes < whole.outcomes == 1500
    again = learning.run(learning.LearnOptions(tmp_path / "l.db", "mab_nc"))
    assert not again.cancelled and again.learned == 1500
    with Outcomes(tmp_path / "l.db") as store:
        both = store.learner("whole"), store.learner("mab_nc")
        assert both[0] is not None and both[1] is not None and both[0].state == both[1].state
        assert list(store.decisions("whole")) == list(store.decisions("mab_nc"))


@pytest.mark.slow
def test_a_warm_start_is_kept_with_the_policy(filled: Typed, tmp_path: Path) -> None:
    how = ("--classes", 4, "--update-every", 300, "--outcomes", 600, "-f", "jsonl")
    assert filled("learn", "run", "--warm", "small.npz", *how)[0] == DONE
    assert filled("learn", "run", "--name", "cold", "--policy", "thompson", *how)[0] == DONE
    (tmp_path / "small.npz").unlink()
    assert filled("learn", "run")[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        warm, cold = store.learner(PREFERRED), store.learner("cold")
    assert warm is not None and cold is not None and warm.outcomes == 1500
    assert warm.warm is not None and cold.warm is None and warm.state != cold.state


@pytest.mark.slow
def test_candidates_are_judged_by_what_came_later(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4, "--outcomes", 1000)
    candidates = ("--policy", "mab_nc", "--policy", "default", "--policy", "initcwnd=30,tcp_congestion_control=bbr")
    code, out, err = filled("learn", "evaluate", *candidates, "-f", "jsonl")
    printed = rows(out)
    assert code == DONE and err == "" and [row["estimator"] for row in printed] == ["logged", "dr", "dr_ln"] * 3
    assert {row["sessions"] for row in printed} == {500}
    assert len({row["ms"] for row in printed if row["estimator"] == "logged"}) == 1
    assert all(row["low_ms"] < row["ms"] < row["high_ms"] for row in printed if not row.get("reason"))
    assert (
        0 < printed[1]["effective"] <= 500
        and 0 <= printed[1]["unlogged"] <= 1
        and printed[1]["learned_from_these"] is False
    )
    filled("learn", "run", "--policy", "mab_nc")
    code, out, err = filled("learn", "evaluate", "--policy", "mab_nc", "-f", "jsonl")
    own = rows(out)[1:]
    assert "they cannot judge it" in err and {row["sessions"] for row in own} == {1500}
    assert all(row["learned_from_these"] for row in own)
    assert {row["low_ms"] for row in own} == {row["high_ms"] for row in own} == {None}
    assert {row["reason"] for row in own} <= {"log:learned-from", "log:weights-above-one", "log:partly-tried"}


def test_a_candidate_that_was_never_tried_has_a_reason_in_place_of_numbers(filled: Typed) -> None:
    code, out, _ = filled("learn", "evaluate", "--policy", "initcwnd=30,tcp_congestion_control=bbr", "-f", "jsonl")
    logged, *judged = rows(out)
    assert code == DONE and logged["reason"] == "" and logged["low_ms"] < logged["ms"] < logged["high_ms"]
    assert [row["reason"] for row in judged] == ["log:never-tried"] * 2
    assert {row[key] for row in judged for key in ("ms", "low_ms", "high_ms")} == {None}
    code, out, _ = filled("learn", "evaluate", "--policy", "initcwnd=30,tcp_congestion_control=bbr", "-f", "csv")
    assert code == DONE and out.splitlines()[2].endswith(",log:never-tried") and ",0.0,0.0," not in out


@pytest.mark.slow
def test_it_says_why(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    code, out, _ = filled("learn", "explain", "bandwidth_kbps=5000,rtt_ms=80,loss=0.01,site=news", "-f", "jsonl")
    printed = rows(out)
    assert code == DONE and printed[0]["kind"] == "class" and printed[0]["seen"]["rtt_ms"] == 80.0
    shares = [row["share"] for row in printed if row["kind"] == "choice"]
    assert shares == sorted(shares, reverse=True) and 0.5 < sum(shares) <= 1.0
    code, out, _ = filled("learn", "explain", "10.0.0.0/24", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["what"].startswith("nc") and rows(out)[0]["site"] == ""
    code, out, _ = filled("learn", "explain", "rtt_ms=80", "-f", "jsonl")
    assert code == DONE and "unknown" in rows(out)[0]["about"]
    assert filled("learn", "explain", "203.0.113.0/24")[0] == USAGE
    for words in (("rtt_ms=80", "--site", "nosuch"), ("rtt_ms=80,site=nosuch",), ("10.0.0.0/24", "--site", "nosuch")):
        code, out, err = filled("learn", "explain", *words)
        assert code == USAGE and out == "" and "knows no site 'nosuch'; there is: " in err and err.count("\n") == 1
    assert filled("learn", "explain", "speed=9")[0] == USAGE
    assert filled("learn", "explain", "rtt_ms=80", "--policy", "unknown")[0] == USAGE


@pytest.mark.slow
def test_rules_become_what_tune_wants(filled: Typed) -> None:
    filled("tune", "profile", "set", "mine", "initcwnd=4")
    filled("tune", "prefix", "set", "198.51.100.0/24", "mine")
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    # Bbr is what the small world gains by; that it also gains anything is not what this test is about.
    code, out, err = filled("learn", "export", "--to-tune", "--unjudged", "--allow-unfair", "-f", "jsonl")
    printed = rows(out)
    kinds = [row["kind"] for row in printed]
    assert code == DONE and kinds[:4] == ["loss"] * 4 and {"profile", "class", "prefix", "cell", "tree"} <= set(kinds)
    assert [row["of"] for row in printed[:4]] == ["cell", "tree", "class", "tune"] and printed[0]["made_on"] == 750
    for row in printed[:4]:
        if "reason" in row:
            assert row["median"] is None and row["when"].endswith(row["reason"])
        else:
            assert row["judged_on"] == 750 and row["p95"] >= row["median"] and row["mean_interval"][0] <= row["mean"]
            assert "by 750 later outcomes" in row["when"]
    assert "reaches by prefix" in printed[3]["when"] and "http_version" in printed[3]["when"] and "http_version" in err
    assert sum(row["share"] for row in printed if row["kind"] == "class") == pytest.approx(1.0, abs=1e-4)
    profiles = {row["profile"]: row["settings"] for row in printed if row["kind"] == "profile"}
    prefixes = {row["prefix"]: row["profile"] for row in printed if row["kind"] == "prefix"}
    out_of_reach = {"http_version", "tcp_autocorking"}
    assert profiles and not any(out_of_reach & set(of) for of in profiles.values())
    every = rows(filled("learn", "export", "-f", "jsonl", "--only", "profile")[1])
    assert any(out_of_reach & set(row["settings"]) for row in every), "nothing of the kind was wanted: an empty test"
    kept = rows(filled("tune", "profile", "list", "-f", "jsonl")[1])
    assert {row["profile"]: row["settings"] for row in kept} == {**profiles, "mine": {"initcwnd": 4}}
    listed = {row["prefix"]: row["profile"] for row in rows(filled("tune", "prefix", "list", "-f", "jsonl")[1])}
    assert listed == {**prefixes, "198.51.100.0/24": "mine"} and f"{len(prefixes)} prefixes are wanted" in err
    assert len(prefixes) > 20
    # Another policy's rules take the place of these, and leave what is not theirs.
    filled("learn", "run", "--policy", "default", "--name", "none", "--classes", 4)
    assert filled("learn", "export", "--policy", "none")[0] == USAGE
    filled("learn", "run", "--policy", "configtron", "--classes", 4)
    only = ("--only", "prefix", "--only", "profile")
    code, out, _ = filled("learn", "export", *only, "--to-tune", "--unjudged", "-f", "jsonl")
    again = {row["prefix"]: row["profile"] for row in rows(out) if row["kind"] == "prefix"}
    listed = {row["prefix"]: row["profile"] for row in rows(filled("tune", "prefix", "list", "-f", "jsonl")[1])}
    assert listed == {**again, "198.51.100.0/24": "mine"}
    assert {row["kind"] for row in rows(out)} <= {"prefix", "profile"}


def test_status_and_policies(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4, "--outcomes", 100)
    code, out, _ = filled("learn", "status", "-f", "jsonl")
    log, policy = rows(out)
    assert code == DONE and (log["kind"], log["outcomes"], log["source"]) == ("log", 1500, "sim")
    assert (policy["name"], policy["outcomes"], policy["waiting"]) == ("mab_nc", 100, 1400)
    code, out, _ = filled("learn", "policies", "-f", "jsonl")
    assert [row["policy"] for row in rows(out)] == list(POLICIES)
    assert [row["policy"] for row in rows(out) if row["default"]] == [PREFERRED]
    assert {row["policy"] for row in rows(out) if row["runs"] != "anywhere"} == {"static", "optimal", "cell_optimum"}


@pytest.mark.slow
def test_a_policy_of_another_version_hides_nothing_else(filled: Typed, tmp_path: Path) -> None:
    assert filled("learn", "run", "--policy", "mab_nc")[0] == 0
    assert filled("learn", "run", "--policy", "linucb")[0] == 0
    with sqlite3.connect(tmp_path / "l.db") as base:
        other = "UPDATE learner SET state = replace(state, '\"centroid\":', '\"centre\":') WHERE name = 'linucb'"
        assert base.execute(other).rowcount == 1
    code, out, _ = filled("learn", "status", "-f", "jsonl")
    log, first, second = rows(out)
    assert code == 0 and log["kind"] == "log" and {first["name"], second["name"]} == {"linucb", "mab_nc"}
    old, kept = (first, second) if first["name"] == "linucb" else (second, first)
    assert old["classes"] is None and "another version" in old["about"] and "--fresh" in old["about"]
    assert kept["classes"] > 0 and "another version" not in kept["about"]
    for words in (("run", "--policy", "linucb"), ("export", "--policy", "linucb", "--to-tune")):
        code, _, err = filled("learn", *words)
        assert code == USAGE and "another version" in err.splitlines()[-1] and "--fresh" in err.splitlines()[-1]
        # Which policy, what to do, what that loses.
        for part in ("policy linucb: ", "learn run --policy linucb --fresh", "learned from 1500 outcomes is lost"):
            assert part in err.splitlines()[-1]
    assert filled("learn", "run", "--policy", "linucb", "--fresh")[0] == 0


@pytest.mark.slow
def test_knobs_that_matter_and_knobs_that_do_not(filled: Typed, tmp_path: Path) -> None:
    """The small world's formula knows three knobs; pacing and corking do nothing in it."""
    code, out, err = filled("learn", "knobs", "-f", "jsonl")
    assert code == DONE and len(rows(out)) == 7 and {row["kind"] for row in rows(out)} == {"knob"}
    assert "no policy" in err
    assert "dead: without effect" in next(row["about"] for row in rows(out) if row["knob"] == "tcp_low_latency")
    code, out, err = filled("learn", "knobs", "--tensor", "small.npz", "-f", "jsonl")
    found = [row for row in rows(out) if row["kind"] == "importance"]
    assert {row["knob"] for row in found if row["p95"] == 0.0} == {"pacing", "tcp_autocorking"}
    assert all(row["median_low"] <= row["median"] <= row["median_high"] for row in found)
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    code, out, _ = filled("learn", "knobs", "-f", "jsonl")
    message = [row for row in rows(out) if row["kind"] in ("dead", "unproven")]
    assert code == DONE and message and all(row["pairs"] > 0 for row in message)
    # A log as small as this proves of no knob that it does nothing, and does not say so.
    assert {row["kind"] for row in message} == {"unproven"} and all(row["unseen"] > 0.05 for row in message)
    repeats = np.repeat(small_tensor().median_ms[..., None], 4, axis=3)
    noise = np.exp(0.05 * np.random.default_rng(1).standard_normal(repeats.shape))
    with (tmp_path / "repeats.npz").open("wb") as file:
        write(replace(small_tensor(), repeats_ms=(repeats * noise).astype(np.float32)), file)
    out = filled("learn", "knobs", "--tensor", "repeats.npz", "-f", "jsonl")[1]
    dead = {row["knob"] for row in rows(out) if row["kind"] == "dead" and not row["where"]}
    assert dead == {"pacing", "tcp_autocorking"}
    filled("learn", "run", "--policy", "default", "--classes", 4)
    assert "no knob can be found dead" in filled("learn", "knobs", "--policy", "default")[2]
    assert filled("learn", "knobs", "--policy", "unknown")[0] == USAGE
    assert filled("learn", "knobs", "--policy", "default", "--tensor", "small.npz")[0] == USAGE
    assert filled("learn", "knobs", "--tensor", "l.db")[0] == USAGE


def test_nothing_to_learn_from(typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed("learn", "status")
    assert code == DONE and out == "" and "no outcomes yet" in err and not (tmp_path / "l.db").exists()
    for words in (("run",), ("evaluate", "--policy", "default"), ("explain", "rtt_ms=80"), ("export",)):
        code, out, err = typed("learn", *words)
        assert code == USAGE and out == "" and len(err.strip().splitlines()) == 1


def test_misspelt_words_are_reported_first(typed: Typed) -> None:
    """Before what is missing: a user who brought outcomes for it would learn it only then."""
    for words, says in (
        (("--policy", "thomson"), "no policy is called 'thomson'"),
        (("--policy", "configtron", "--engine", "steam"), "no engine is called 'steam'"),
        (("--classes", "few"), "--classes 'few'"),
        (("--warm", "l.db"), "l.db: no PLT-tensor"),
    ):
        code, _, err = typed("learn", "run", *words)
        assert code == USAGE and says in err.replace("--warm:", "l.db:") and "no outcomes" not in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--policy", "optimal"),
        ("run", "--policy", "best"),
        ("run", "--classes", "few"),
        ("run", "--classes", "0"),
        ("run", "--log", "7"),
        ("run", "--engine", "steam", "--policy", "configtron"),
        ("run", "--warm", "l.db"),
        ("run", "--policy", "mab_nc", "--warm", "small.npz"),
        ("run", "--policy", "thompson", "--engine", "grid"),
        ("evaluate", "--policy", "unknown"),
        ("evaluate", "--policy", "speed=9"),
        ("evaluate", "--policy", "initcwnd=30,initcwnd=4"),
        ("explain", "\udcff"),
        ("explain", "rtt_ms=fast"),
    ],
)
def test_what_cannot_be_is_one_line(filled: Typed, words: tuple[str, ...]) -> None:
    code, out, err = filled("learn", *words)
    assert code == USAGE and out == "" and len(err.strip().splitlines()) == 1
    assert [row["kind"] for row in rows(filled("learn", "status", "-f", "jsonl")[1])] == ["log"]


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
    from tests.support.logged_outcomes import outcomes_of

    with Outcomes(tmp_path / "l.db") as store:
        first, second = (outcomes_of(next(store.batches(log)), "") for log in (1, 2))
        assert [log.source for log in store.logs()] == ["live", "lab"]
    assert first[0].decision.profile.settings == (("initcwnd", 30),) and first[0].decision.class_id == "nc3"
    assert first[0].decision.propensity == 0.1 and first[1].decision.arm == "default" and first[1].plt_ms == 10.0
    assert second[0].decision.context.rtt_ms == 40.0 and second[0].decision.arm == "static"
    assert second[0].decision.profile.settings == (("http_version", "h2"), ("initcwnd", 20))
    assert second[1].decision.context.rtt_ms is None and second[1].decision.propensity is None
    (tmp_path / "none").write_text("\n\n")
    assert typed("learn", "import", "none")[0] == NOTHING
    code, _, err = typed("learn", "evaluate", "--policy", "default", "--log", 2)
    assert code == USAGE and "no propensities" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"plt_ms": 5}\n{"plt_ms": 0}\n', "line 2"),
        ('{"plt_ms": 5}\n{\n', "line 2: not JSON"),
        ('{"plt_ms": 5}\n[1]\n', "line 2: not an object"),
        ('{"plt_ms": 5}\n{"plt_ms": 5, "plt": 4}\n', "'plt' is no field"),
        ('{"plt_ms": true}\n', "no number"),
        ('{"plt_ms": 5, "context": {"loss": 2}}\n', "loss is 2; it is not negative and at most 1, a share"),
        ('{"plt_ms": 5, "context": {"speed": 2}}\n', "'speed' is no feature"),
        *(
            (f'{{"plt_ms": 5}}\n{{"plt_ms": 5, "context": {{"prefix": "{one}"}}}}\n', f"line 2: prefix '{one}' is no")
            for one in ("999.1.1.1/24", "999.1.1.1", "192.0.2.0/33", "10.0.0/8", "2001:db8::/129", "::g:/48", "1::2::3")
        ),
        ("plt_ms,prefix\n5,192.0.2.0/24\n5,999.1.1.1/24\n", "line 3: prefix '999.1.1.1/24' is no"),
        ('{"plt_ms": 5, "context": 3}\n', "line 1"),
        ('{"plt_ms": 5, "profile": {"speed": 2}}\n', "no knob is called 'speed'"),
        ('{"plt_ms": 5, "profile": {"initcwnd": [2]}}\n', "is no setting"),
        ('{"plt_ms": 5, "propensity": 1.5}\n', "propensity"),
        ('{"plt_ms": 5, "arm": "guess"}\n', "no arm is called"),
        ("rtt_ms\n5\n", "plt_ms is not in the header"),
        ("plt_ms,speed\n5,5\n", "'speed' is no column"),
        ("plt_ms,rtt_ms\n5\n", "line 2: 2 columns"),
        ("plt_ms,rtt_ms\n5,x\n", "rtt_ms: 'x' is no number"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(typed: Typed, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "x").write_text(text)
    code, _, err = typed("learn", "import", "x", "--strict")
    assert code == USAGE and says in err and len(err.strip().splitlines()) == 1
    code, _, err = typed("learn", "import", "x")
    assert code in (USAGE, PARTIAL) and says in err and "Traceback" not in err
