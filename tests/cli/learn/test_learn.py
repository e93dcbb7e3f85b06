# SPDX-License-Identifier: MIT
"""`configtron learn` from outcomes to rules, and how it answers what cannot be."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner import POLICIES, PREFERRED
from configtron.linux.xdg import MANAGERS_DB, SERVICES_DB
from configtron.model.errors import DONE, NOTHING, USAGE
from configtron.model.tensor import write
from configtron.service import learning
from configtron.service.learning import overview
from tests.support.learn_command import MAB, Typed, brought, kept, refused, rows, shown, wanted
from tests.support.worlds import small_tensor


@pytest.mark.slow
def test_a_policy_learns_and_goes_on(filled: Typed, tmp_path: Path) -> None:
    how = ("learn", "run", "--policy", "configtron", "--classes", 4, "--update-every", 60, "-f", "jsonl")
    code, out, err = filled(*how, "--name", "whole")
    (row,) = rows(out)
    assert code == DONE and (row["learned"], row["updates"], row["classes"]) == (1500, 25, 4)
    assert sum(row["arms"].values()) == pytest.approx(1.0, abs=1e-4) and "1500/1500 outcomes" in err
    assert rows(filled(*how, "--name", "parts", "--outcomes", 700)[1])[0]["learned"] == 700
    assert shown(filled, "learn", "run", "--policy", "parts")[0]["learned_now"] == 800
    assert kept(tmp_path, "whole") == kept(tmp_path, "parts")
    code, out, err = filled("learn", "run", "--policy", "whole", "-f", "jsonl")
    assert code == DONE and "nothing new" in err and rows(out)[0]["learned_now"] == 0
    assert [filled("learn", "drop", "--policy", "whole")[0] for _ in range(2)] == [DONE, NOTHING]


def test_too_few_outcomes_are_named_with_a_remedy(typed: Typed) -> None:
    brought(typed, [{"plt_ms": 1000}])
    brought(typed, [{"plt_ms": 1000}])
    code, _, err = typed(*MAB[:4])
    assert code == DONE and "mab_nc: nothing is learned before the first update" in err and "2 outcomes are read" in err


@pytest.mark.slow
def test_beacons_alone_reach_a_policy_and_a_test(typed: Typed) -> None:
    """Of no network anything is known: one class, by name, and a true gain that is proven for each prefix."""
    chance = random.Random(1)
    rows_ = [{"remote_addr": f"203.0.113.{n}" if n % 3 else "198.51.100.7", "propensity": 0.5,
              "profile": {"initcwnd": 30 if n % 2 else 10}, "body": {
                  "t_done": chance.lognormvariate(7, 0.1) * (0.8 if n % 2 else 1), "rt.end": 1795687200000 + n,
                  "u": "https://shop.example/"}} for n in range(600)]  # fmt: skip
    brought(typed, rows_)
    why = "no network contexts: one class"
    code, _, err = typed("learn", "run", "--policy", "thompson", "--classes", 1, "--update-every", 200)
    assert code == DONE and why in err and why in typed("learn", "explain", "203.0.113.7")[1]
    assert why in shown(typed, "learn", "status")[1]["about"]
    code, out, err = typed("learn", "export", "--to-tune", "-f", "jsonl")
    found = rows(out)
    prefixes = {row["prefix"] for row in found if row["kind"] == "prefix"}
    assert prefixes == {"203.0.113.0/24", "198.51.100.0/24"} and why in err
    assert [row["settings"] for row in found if row["kind"] == "profile"] == [{"initcwnd": 30}]


@pytest.mark.slow
def test_a_policy_stays_as_it_was_made(filled: Typed) -> None:
    shown(filled, *MAB)
    code, _, err = filled("learn", "run", "--policy", "mab_nc", "--classes", 9, "--seed", 3)
    assert code == USAGE and "without --seed, --classes" in err and "--fresh" in err
    assert filled("learn", "run", "--policy", "default", "--name", "mab_nc")[0] == USAGE
    shown(filled, *MAB[:4])
    (row,) = shown(filled, "learn", "run", "--policy", "mab_nc", "--classes", 9, "--fresh")
    assert row["classes"] == 9 and row["learned_now"] == 1500


@pytest.mark.slow
def test_configurations_that_came_later_are_set_aside_until_a_new_start(filled: Typed) -> None:
    """Once and for good: the next run reads on behind them, and finds knobs that do nothing as before."""
    filled(*MAB)
    new, old = {"plt_ms": 5, "profile": {"initcwnd": 42}}, {"plt_ms": 50}
    brought(filled, [new, old, new, new, old])
    code, out, err = filled(*MAB[:4], "-f", "jsonl")
    assert code == DONE and (rows(out)[0]["learned_now"], rows(out)[0]["learned"]) == (2, 1502)
    assert "mab_nc: 3 outcomes are of configurations that it lacks, and set aside" in err and "--fresh" in err
    brought(filled, [new])
    code, out, err = filled(*MAB[:4], "-f", "jsonl")
    assert code == DONE and rows(out)[0]["learned_now"] == 0 and "mab_nc: 1 outcome is of" in err
    code, _, err = filled(*MAB[:4])
    assert code == DONE and "nothing new" in err and "set aside" not in err
    code, _, err = filled("learn", "evaluate", "--policy", "mab_nc", "--log", 1)
    assert code == DONE and "not counted" not in err
    for words in (("export", "--only", "loss"), ("export", "--to-tune", "--unjudged")):
        code, out, err = filled("learn", *words, "-f", "jsonl")
        assert code == DONE and "other configurations" not in out
        assert "mab_nc: 4 outcomes are of configurations that it lacks, and not counted" in err
    code, out, err = filled(*MAB, "--fresh", "-f", "jsonl")
    assert code == DONE and rows(out)[0]["learned"] == 1506
    assert "mab_nc: chooses among" in err and " before: " in err
    assert "chooses among" not in filled(*MAB, "--fresh")[2]


@pytest.mark.slow
def test_a_run_is_cancelled_within_a_batch(filled: Typed, tmp_path: Path) -> None:
    """What is learned by then is saved, and the next run ends with what one that was never cancelled knows."""
    options = learning.LearnOptions(tmp_path / "l.db", "mab_nc", policy_options=learning.PolicyOptions(classes="4"))
    whole = learning.run(replace(options, name="whole"))
    part = learning.run(options, cancelled=lambda: True)
    assert part.cancelled and 0 < part.outcomes < whole.outcomes == 1500
    again = learning.run(learning.LearnOptions(tmp_path / "l.db", "mab_nc"))
    assert not again.cancelled and again.learned == 1500
    assert kept(tmp_path, "whole") == kept(tmp_path, "mab_nc")


@pytest.mark.slow
def test_a_warm_start_is_kept_with_the_policy(filled: Typed, tmp_path: Path) -> None:
    how = ("--classes", 4, "--update-every", 300, "--outcomes", 600)
    shown(filled, "learn", "run", "--warm", "small.npz", *how)
    shown(filled, "learn", "run", "--name", "cold", "--policy", "thompson", *how)
    (tmp_path / "small.npz").unlink()
    shown(filled, "learn", "run")
    with Outcomes(tmp_path / "l.db") as store:
        warm, cold = store.learner(PREFERRED), store.learner("cold")
    assert warm is not None and cold is not None and warm.outcomes == 1500
    assert warm.warm is not None and cold.warm is None and warm.state != cold.state


@pytest.mark.slow
def test_candidates_are_judged_by_what_came_later(filled: Typed) -> None:
    filled(*MAB, "--outcomes", 1000)
    candidates = ("--policy", "mab_nc", "--policy", "default", "--policy", "initcwnd=30,tcp_congestion_control=bbr")
    code, out, err = filled("learn", "evaluate", *candidates, "-f", "jsonl")
    printed = rows(out)
    assert code == DONE and err == "" and [row["estimator"] for row in printed] == ["logged", "dr", "dr_ln"] * 3
    assert {row["sessions"] for row in printed} == {500}
    assert len({row["ms"] for row in printed if row["estimator"] == "logged"}) == 1
    assert all(row["low_ms"] < row["ms"] < row["high_ms"] for row in printed if not row.get("reason"))
    first = printed[1]
    assert 0 < first["effective"] <= 500 and 0 <= first["unlogged"] <= 1 and first["learned_from_these"] is False
    filled(*MAB[:4])
    code, out, err = filled("learn", "evaluate", "--policy", "mab_nc", "-f", "jsonl")
    own = rows(out)[1:]
    assert "they cannot judge it" in err and {row["sessions"] for row in own} == {1500}
    assert all(row["learned_from_these"] for row in own)
    assert {row["low_ms"] for row in own} == {row["high_ms"] for row in own} == {None}
    assert {row["reason"] for row in own} <= {"log:learned-from", "log:weights-above-one", "log:partly-tried"}


def test_a_candidate_that_was_never_tried_has_a_reason_in_place_of_numbers(filled: Typed) -> None:
    never = ("learn", "evaluate", "--policy", "initcwnd=30,tcp_congestion_control=bbr")
    logged, *judged = shown(filled, *never)
    assert logged["reason"] == "" and logged["low_ms"] < logged["ms"] < logged["high_ms"]
    assert [row["reason"] for row in judged] == ["log:never-tried"] * 2
    assert {row[key] for row in judged for key in ("ms", "low_ms", "high_ms")} == {None}
    code, out, _ = filled(*never, "-f", "csv")
    assert code == DONE and out.splitlines()[2].endswith(",log:never-tried") and ",0.0,0.0," not in out


@pytest.mark.slow
def test_it_says_why(filled: Typed) -> None:
    filled(*MAB)
    printed = shown(filled, "learn", "explain", "bandwidth_kbps=5000,rtt_ms=80,loss=0.01,site=news")
    assert printed[0]["kind"] == "class" and printed[0]["seen"]["rtt_ms"] == 80.0
    shares = [row["share"] for row in printed if row["kind"] == "choice"]
    assert shares == sorted(shares, reverse=True) and 0.5 < sum(shares) <= 1.0
    head = shown(filled, "learn", "explain", "10.0.0.0/24")[0]
    assert head["what"].startswith("nc") and head["site"] == ""
    assert "unknown" in shown(filled, "learn", "explain", "rtt_ms=80")[0]["about"]
    for words in (("rtt_ms=80", "--site", "nosuch"), ("rtt_ms=80,site=nosuch",), ("10.0.0.0/24", "--site", "nosuch")):
        refused(filled, "knows no site 'nosuch'; there is: ", "learn", "explain", *words)
    for words in (("203.0.113.0/24",), ("speed=9",), ("rtt_ms=80", "--policy", "unknown")):
        assert filled("learn", "explain", *words)[0] == USAGE


@pytest.mark.slow
def test_rules_become_what_tune_wants(filled: Typed) -> None:
    filled("tune", "profile", "set", "mine", "initcwnd=4")
    filled("tune", "prefix", "set", "198.51.100.0/24", "mine")
    filled(*MAB)
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
    every = shown(filled, "learn", "export", "--only", "profile")
    assert any(out_of_reach & set(row["settings"]) for row in every), "nothing of the kind was wanted: an empty test"
    stored = {row["profile"]: row["settings"] for row in shown(filled, "tune", "profile", "list")}
    assert stored == {**profiles, "mine": {"initcwnd": 4}}
    assert wanted(filled) == {**prefixes, "198.51.100.0/24": "mine"} and f"{len(prefixes)} prefixes are wanted" in err
    assert len(prefixes) > 20
    # Another policy's rules take the place of these, and leave what is not theirs.
    filled("learn", "run", "--policy", "default", "--name", "none", "--classes", 4)
    assert filled("learn", "export", "--policy", "none")[0] == USAGE
    filled("learn", "run", "--policy", "configtron", "--classes", 4)
    again = shown(filled, "learn", "export", "--only", "prefix", "--only", "profile", "--to-tune", "--unjudged")
    theirs = {row["prefix"]: row["profile"] for row in again if row["kind"] == "prefix"}
    assert wanted(filled) == {**theirs, "198.51.100.0/24": "mine"}
    assert {row["kind"] for row in again} <= {"prefix", "profile"}


def test_status_and_policies(filled: Typed) -> None:
    filled(*MAB, "--outcomes", 100)
    log, policy = shown(filled, "learn", "status")
    assert (log["kind"], log["outcomes"], log["source"]) == ("log", 1500, "sim")
    assert (policy["name"], policy["outcomes"], policy["waiting"]) == ("mab_nc", 100, 1400)
    listed = shown(filled, "learn", "policies")
    assert [row["policy"] for row in listed] == list(POLICIES)
    assert [row["policy"] for row in listed if row["default"]] == [PREFERRED]
    assert {row["policy"] for row in listed if row["runs"] != "anywhere"} == {"static", "optimal", "cell_optimum"}


@pytest.mark.slow
def test_a_policy_of_another_version_hides_nothing_else(filled: Typed, tmp_path: Path) -> None:
    for policy in ("mab_nc", "linucb"):
        shown(filled, "learn", "run", "--policy", policy)
    with sqlite3.connect(tmp_path / "l.db") as base:
        other = "UPDATE learner SET state = replace(state, '\"centroid\":', '\"centre\":') WHERE name = 'linucb'"
        assert base.execute(other).rowcount == 1
    log, *policies = shown(filled, "learn", "status")
    by = {row["name"]: row for row in policies}
    assert log["kind"] == "log" and by.keys() == {"linucb", "mab_nc"}
    old, good = by["linucb"], by["mab_nc"]
    assert old["classes"] is None and "another version" in old["about"] and "--fresh" in old["about"]
    assert good["classes"] > 0 and "another version" not in good["about"]
    for words in (("run", "--policy", "linucb"), ("export", "--policy", "linucb", "--to-tune")):
        code, _, err = filled("learn", *words)
        # Which policy, what to do, what that loses.
        for part in ("another version", "policy linucb: ", "learn run --policy linucb --fresh",
                     "learned from 1500 outcomes is lost"):  # fmt: skip
            assert code == USAGE and part in err.splitlines()[-1]
    shown(filled, "learn", "run", "--policy", "linucb", "--fresh")


@pytest.mark.slow
def test_knobs_that_matter_and_knobs_that_do_not(filled: Typed, tmp_path: Path) -> None:
    """The small world's formula knows three knobs; pacing and corking do nothing in it."""
    code, out, err = filled("learn", "knobs", "-f", "jsonl")
    assert code == DONE and len(rows(out)) == 7 and {row["kind"] for row in rows(out)} == {"knob"}
    assert "no policy" in err
    assert "dead: without effect" in next(row["about"] for row in rows(out) if row["knob"] == "tcp_low_latency")
    found = [row for row in shown(filled, "learn", "knobs", "--tensor", "small.npz") if row["kind"] == "importance"]
    assert {row["knob"] for row in found if row["p95"] == 0.0} == {"pacing", "tcp_autocorking"}
    assert all(row["median_low"] <= row["median"] <= row["median_high"] for row in found)
    filled(*MAB)
    message = [row for row in shown(filled, "learn", "knobs") if row["kind"] in ("dead", "unproven")]
    assert message and all(row["pairs"] > 0 for row in message)
    # A log as small as this proves of no knob that it does nothing, and does not say so.
    assert {row["kind"] for row in message} == {"unproven"} and all(row["unseen"] > 0.05 for row in message)
    repeats = np.repeat(small_tensor().median_ms[..., None], 4, axis=3)
    noise = np.exp(0.05 * np.random.default_rng(1).standard_normal(repeats.shape))
    with (tmp_path / "repeats.npz").open("wb") as file:
        write(replace(small_tensor(), repeats_ms=(repeats * noise).astype(np.float32)), file)
    proven = [row for row in shown(filled, "learn", "knobs", "--tensor", "repeats.npz") if row["kind"] == "dead"]
    assert {row["knob"] for row in proven if not row["where"]} == {"pacing", "tcp_autocorking"}
    filled("learn", "run", "--policy", "default", "--classes", 4)
    assert "no knob can be found dead" in filled("learn", "knobs", "--policy", "default")[2]
    for words in (("--policy", "unknown"), ("--policy", "default", "--tensor", "small.npz"), ("--tensor", "l.db")):
        assert filled("learn", "knobs", *words)[0] == USAGE


def test_nothing_to_learn_from(typed: Typed, tmp_path: Path) -> None:
    code, out, err = typed("learn", "status")
    assert code == DONE and out == "" and "no outcomes yet" in err and not (tmp_path / "l.db").exists()
    assert "learn import" in err and "journalctl -u configtron-serve" in overview.remark(overview.Status(), SERVICES_DB)
    assert "agent's host: journalctl -u configtron-agent" in overview.remark(overview.Status(), MANAGERS_DB)
    for words in (("run",), ("evaluate", "--policy", "default"), ("explain", "rtt_ms=80"), ("export",)):
        refused(typed, "", "learn", *words)
    (tmp_path / "none.npz").write_text("none")
    # Misspelt words are reported first: a user who brought outcomes for it would learn it only then.
    for words, says in (
        (("--policy", "thomson"), "no policy is called 'thomson'"),
        (("--policy", "configtron", "--engine", "steam"), "no engine is called 'steam'"),
        (("--classes", "few"), "--classes 'few'"),
        (("--warm", "none.npz"), "no PLT-tensor"),
    ):
        code, _, err = typed("learn", "run", *words)
        assert code == USAGE and says in err and "no outcomes" not in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("run", "--policy", "optimal"), ("run", "--policy", "best"), ("run", "--classes", "few"),
        ("run", "--classes", "0"), ("run", "--log", "7"), ("run", "--engine", "steam", "--policy", "configtron"),
        ("run", "--warm", "l.db"), ("run", "--policy", "mab_nc", "--warm", "small.npz"),
        ("run", "--policy", "thompson", "--engine", "grid"), ("evaluate", "--policy", "unknown"),
        ("evaluate", "--policy", "speed=9"), ("evaluate", "--policy", "initcwnd=30,initcwnd=4"),
        ("explain", "\udcff"), ("explain", "rtt_ms=fast"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(filled: Typed, words: tuple[str, ...]) -> None:
    refused(filled, "", "learn", *words)
    assert [row["kind"] for row in shown(filled, "learn", "status")] == ["log"]
