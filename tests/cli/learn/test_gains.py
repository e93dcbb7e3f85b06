# SPDX-License-Identifier: MIT
"""`learn export`: what is proven to gain, what the guard takes, what humans left; what was judged or asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner.gain import HELD_REASONS
from configtron.learner.rule_cost import Loss, Share
from configtron.model.errors import DONE, REFUSED, USAGE
from configtron.service.learning.rows import _known
from tests.support import ROOT
from tests.support.learn_command import MAB, Typed, brought, refused, rows, shown, wanted

PREFIXES = [f"198.51.{at}.0/24" for at in range(90)]
WINDOWS, CONTROLS = (10, 30), ("cubic", "reno", "bbr")


def log(n: int, seed: int, *, window: float = 0.0, bbr: float = 0.0, propensity: bool = True) -> list[dict[str, Any]]:
    """n outcomes of evenly drawn windows and controls; window, bbr: the share of time that they save."""
    rng = np.random.default_rng(seed)
    rtt, lines = np.exp(rng.normal(4.0, 0.5, len(PREFIXES))), []
    for _ in range(n):
        at, icw, control = rng.integers(len(PREFIXES)), int(rng.choice(WINDOWS)), str(rng.choice(CONTROLS))
        ms = 12.0 * rtt[at] * float(np.exp(0.25 * rng.standard_normal()))
        ms *= (1.0 - window * (icw == 30)) * (1.0 - bbr * (control == "bbr"))
        context = {"bandwidth_kbps": 9000.0, "rtt_ms": rtt[at], "loss": 0.0, "site": "news", "prefix": PREFIXES[at]}
        line = {"context": context, "profile": {"initcwnd": icw, "tcp_congestion_control": control}, "plt_ms": ms}
        lines.append(line | ({"propensity": 1.0 / 6.0} if propensity else {}))
    return lines


def learned(typed: Typed, outcomes: list[dict[str, Any]], *words: object) -> None:
    brought(typed, outcomes)
    assert typed("learn", "run", "--policy", "mab_nc", "--classes", 3, *words)[0] == DONE


def export(typed: Typed, *words: object) -> tuple[list[dict[str, Any]], str]:
    code, out, err = typed("learn", "export", "--to-tune", "-f", "jsonl", *words)
    assert code == DONE, err
    return rows(out), err


@pytest.mark.slow
def test_outcomes_become_a_plan_that_the_guard_takes(typed: Typed, tmp_path: Path) -> None:
    """Bbr saves three times as much as the window does; the guard refuses it, so the window is what is handed over."""
    learned(typed, log(3000, 1, window=0.12, bbr=0.35))
    typed("tune", "profile", "set", "mine", "initcwnd=4")
    typed("tune", "prefix", "set", PREFIXES[0], "mine")
    typed("tune", "prefix", "set", "198.51.64.0/24", "198.51.32.0/19", "mine")
    exported, err = export(typed)
    profiles = [row["settings"] for row in exported if row["kind"] == "profile"]
    assert profiles and all(dict(one)["initcwnd"] == 30 for one in profiles)
    assert not any("bbr" in json.dumps(one) for one in profiles)
    assert any("learned" in json.dumps(row) for row in shown(typed, "tune", "--driver", "memory", "plan"))
    # What a human set is there, and nothing learned is within it; both are reported.
    now = wanted(typed)
    assert now[PREFIXES[0]] == now["198.51.64.0/24"] == now["198.51.32.0/19"] == "mine"
    assert "198.51.40.0/24" not in now and now["198.51.70.0/24"].startswith("learned")
    left = {row["prefix"]: row["when"] for row in exported if row["kind"] == "held-back" and row["reason"] == "human"}
    assert set(left) == {PREFIXES[0], *(f"198.51.{at}.0/24" for at in (64, *range(32, 64)))}
    assert left["198.51.40.0/24"] == "human: a human set a wider prefix around it"
    assert "2 prefixes that a human set, and 32 within a wider one, are left alone" in err
    owners = {row["prefix"]: row["owner"] for row in shown(typed, "tune", "prefix", "list")}
    assert owners[PREFIXES[0]] == "human" and owners["198.51.70.0/24"] == "learner"
    # A human takes a learned one over, and with it the profile; the next export leaves both.
    mine = now["198.51.70.0/24"]
    typed("tune", "prefix", "set", "198.51.70.0/24", mine)
    typed("tune", "profile", "set", mine, "initcwnd=16")
    export(typed)
    assert wanted(typed)["198.51.70.0/24"] == mine and wanted(typed)["198.51.71.0/24"] == f"{mine}-2"
    stored = {row["profile"]: (row["owner"], row["settings"]["initcwnd"])
              for row in shown(typed, "tune", "profile", "list")}  # fmt: skip
    assert stored[mine] == ("human", 16) and stored[f"{mine}-2"] == ("learner", 30)
    # The listing can be read again, third column and all.
    (tmp_path / "back.csv").write_text(typed("tune", "prefix", "list", "-f", "csv")[1])
    assert typed("tune", "prefix", "import", "back.csv", "--whole")[0] == DONE


@pytest.mark.slow
def test_without_the_guard_the_plan_is_refused(typed: Typed) -> None:
    """The same log with the operator's word for it: bbr is handed over, and `plan` without that word refuses it."""
    learned(typed, log(3000, 1, window=0.12, bbr=0.35), "--allow-unfair")
    exported, _ = export(typed, "--allow-unfair")
    assert any("bbr" in json.dumps(row["settings"]) for row in exported if row["kind"] == "profile")
    assert typed("tune", "--driver", "memory", "plan")[0] == REFUSED
    assert typed("tune", "--driver", "memory", "--allow-unfair", "plan")[0] == DONE


@pytest.mark.slow
def test_the_operators_bounds_hold_before_learning_and_before_export(typed: Typed, tmp_path: Path) -> None:
    def served() -> list[int]:
        found = shown(typed, "learn", "explain", "bandwidth_kbps=9000,rtt_ms=55,loss=0,site=news")
        return [row["settings"]["initcwnd"] for row in found if row["kind"] == "choice"]

    (tmp_path / "configtron").mkdir()
    (tmp_path / "configtron" / "config.toml").write_text('[tune]\nbound = ["initcwnd=1..20"]\n')
    brought(typed, log(2000, 2, window=0.2))
    code, _, err = typed("learn", "run", "--policy", "thompson", "--classes", 3)
    assert code == DONE and "beyond your bound, 1..20 (--bound)" in err and "configurations are not chosen" in err
    assert served() and max(served()) <= 20
    exported, _ = export(typed)
    assert wanted(typed) == {} and "profile" not in {row["kind"] for row in exported}
    typed("learn", "run", "--policy", "thompson", "--name", "free", "--classes", 3, "--all-configurations")
    assert 30 in served()
    export(typed)
    assert wanted(typed) == {}
    assert typed("learn", "run", "--policy", "thompson", "--all-configurations")[0] == USAGE


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_log_without_any_effect_changes_nothing(typed: Typed, seed: int) -> None:
    learned(typed, log(2000, seed))
    exported, err = export(typed)
    assert wanted(typed) == {} and shown(typed, "tune", "profile", "list") == []
    held = [row for row in exported if row["kind"] == "held-back"]
    assert {row["reason"] for row in held} == {"not-proven"} and len(held) == 3
    assert "3 of 3 classes keep Default (100% of the clients)" in err


@pytest.mark.slow
def test_what_the_log_could_show_is_printed(typed: Typed) -> None:
    learned(typed, log(2000, 4, window=0.1))
    every, *of_classes = [row for row in export(typed)[0] if row["kind"] == "power"]
    assert every["of"] == "all" and every["outcomes"] == 2000 and len(of_classes) == 3
    assert 0.02 < every["least"] <= every["smallest"] < 0.2
    assert every["more_2"] > every["more_5"] >= every["more_10"]
    assert all(row["smallest"] > every["smallest"] for row in of_classes)


@pytest.mark.slow
def test_tests_of_a_growing_log_are_few_and_each_errs_less(typed: Typed) -> None:
    learned(typed, log(1200, 5))
    errors = []
    for more in (0, 100, 100, 100, 900):
        if more:
            brought(typed, log(more, 100 + more))
            typed("learn", "run", "--policy", "mab_nc")
        power = next(row for row in export(typed)[0] if row["kind"] == "power")
        errors.append((power["tests"], power["error"]))
    # 100 and 200 more are less than a quarter of 1200: the verdict of before stands.
    assert errors == [(1, 0.025), (1, 0.025), (1, 0.025), (2, 0.00833333), (3, 0.00416667)]


@pytest.mark.slow
def test_a_log_without_propensities_hands_nothing_over(typed: Typed) -> None:
    learned(typed, log(1500, 6, window=0.3, propensity=False))
    reasons = {row["reason"] for row in export(typed)[0] if row["kind"] == "held-back"}
    assert reasons == {"no-propensities"} and wanted(typed) == {}
    export(typed, "--unjudged")
    assert wanted(typed)
    # Nor does what was handed over without a test stay once it is asked for one.
    export(typed)
    assert wanted(typed) == {}


def test_every_reason_is_documented() -> None:
    page = (ROOT / "docs" / "fingerprint.md").read_text()
    assert [why for why in HELD_REASONS if f"| `{why}` | " not in page] == []


def gain_tests(tmp_path: Path) -> int:
    with Outcomes(tmp_path / "l.db") as store:
        return len(store.gain_tests(0))


@pytest.mark.slow
def test_a_policy_that_learned_next_to_nothing_spends_no_test(filled: Typed, tmp_path: Path) -> None:
    filled("learn", "run", "--policy", "thompson", "--outcomes", 1)
    code, out, err = filled("learn", "export", "--to-tune")
    assert code == USAGE and out == "" and "learned from 1 outcome," in err and err.count("\n") <= 2
    assert gain_tests(tmp_path) == 0


@pytest.mark.slow
def test_only_rules_that_are_handed_over_spend_a_test(typed: Typed, tmp_path: Path) -> None:
    """What is printed without a test says nothing of an effect, so that it can be asked for as often as one likes."""
    learned(typed, log(3000, 1, window=0.2))
    for _ in range(3):
        code, out, err = typed("learn", "export", "-f", "jsonl")
        assert code == DONE and "no profile is tested here: --to-tune tests them" in err
        assert "held-back" not in {row["kind"] for row in rows(out)}, "a verdict is a look"
        assert "; not tested" in next(row["when"] for row in rows(out) if row.get("of") == "tune")
    assert gain_tests(tmp_path) == 0
    exported, err = export(typed)
    assert "classes keep Default" in err and {row["tests"] for row in exported if row["kind"] == "power"} == {1}
    # The verdict that stands is shown without another test.
    code, out, err = typed("learn", "export", "-f", "jsonl")
    assert {row["tests"] for row in rows(out) if row["kind"] == "power"} == {1} and "classes keep Default" in err
    assert gain_tests(tmp_path) == 1


@pytest.mark.slow
def test_a_table_has_the_answer_first_and_ten_rows_of_power(filled: Typed) -> None:
    assert filled("learn", "run", "--policy", "mab_nc", "--classes", 20)[0] == DONE
    every = [row["kind"] for row in shown(filled, "learn", "export")]
    assert every.count("power") > 10, "the test is empty"
    _, table, _ = filled("learn", "export")
    kinds = [line.split()[0] for line in table.splitlines()]
    assert kinds.count("power") == 10 and kinds[-10:] == ["power"] * 10 and kinds[1] == "loss"
    assert "groups of classes with fewer outcomes; --all" in table
    assert max(Counter(kinds).values()) == 10 < every.count("prefix")
    assert f"{every.count('prefix') - 9} more of {every.count('prefix')}; --all, or -f csv, shows each" in table
    assert len(filled("learn", "export", "--all")[1].splitlines()) == len(every) + 1
    for words in (("--power",), ("--only", "power"), ("-f", "csv")):
        whole = filled("learn", "export", *words)[1]
        assert [line.replace(",", " ").split()[0] for line in whole.splitlines()].count("power") == every.count("power")


@pytest.mark.slow
def test_what_no_log_could_judge_is_not_handed_over(filled: Typed) -> None:
    filled(*MAB)
    (tune,) = (row for row in shown(filled, "learn", "export", "--last", 300, "--only", "loss") if row["of"] == "tune")
    assert "are needed" in tune["reason"], "the log suffices: the test is empty"
    filled("tune", "profile", "set", "mine", "initcwnd=4")
    exported, err = export(filled, "--last", 300)
    held = [row for row in exported if row["kind"] == "held-back"]
    # Default for all, with the reason, is what a timer that exports each hour can go on with: it was exit code 2.
    assert "4 of 4 classes keep Default" in err and "0 prefixes are wanted" in err
    assert len(held) == 4 and {row["reason"] for row in held} <= {"few-loads", "not-proven", "partly-tried"}
    assert [row["profile"] for row in shown(filled, "tune", "profile", "list")] == ["mine"] and wanted(filled) == {}
    exported, err = export(filled, "--last", 300, "--unjudged")
    profiles = {row["profile"] for row in exported if row["kind"] == "profile"}
    assert profiles and f"unjudged: {tune['reason']}" in err
    assert {row["profile"] for row in shown(filled, "tune", "profile", "list")} == {*profiles, "mine"}


@pytest.mark.slow
def test_what_was_judged_is_handed_over_and_says_so(filled: Typed) -> None:
    filled(*MAB)
    exported, err = export(filled, "--unjudged", "--only", "loss")
    assert exported[3]["p95"] is not None and "unjudged; see" in err
    refused(filled, "--to-tune", "learn", "export", "--unjudged")


@pytest.mark.slow
def test_classes_that_keep_default_are_counted(filled: Typed) -> None:
    filled("learn", "run", "--policy", "configtron_unbounded", "--classes", 30, "--outcomes", 300)
    exported, err = export(filled, "--unjudged", "--last", 300)
    tune = exported[3]
    untouched = [row for row in exported if row["kind"] == "class" and row["profile"] == "untouched"]
    assert 0 < tune["unseen"] <= len(untouched), "every class saw what it got: the test is empty"
    for text in (tune["when"], err):
        assert f"{tune['instead'] + tune['unseen']} of 30 classes have loaded nothing of what they would get" in text
        assert f"{tune['unseen']} keep Default" in text
    filled("learn", "run", "--policy", "thompson", "--classes", 30, "--outcomes", 300)
    other = shown(filled, "learn", "export", "--policy", "thompson", "--only", "loss")[3]
    assert other["unseen"] == 0 and "keep Default" not in other["when"]


@pytest.mark.slow
def test_a_model_hands_over_no_value_that_was_never_loaded(typed: Typed) -> None:
    """Windows of 10 and 30 teach a slope; what it says of others is a guess."""
    rng, lines = np.random.default_rng(3), []
    for at in range(1200):
        context = {"bandwidth_kbps": 9000.0, "rtt_ms": 60.0 * float(np.exp(0.1 * rng.standard_normal())), "loss": 0.0,
                   "site": "news", "prefix": f"192.0.{at % 12}.0/24"}  # fmt: skip
        window = int(rng.choice([10, 30]))
        ms = (900.0 if window == 10 else 1000.0) * float(np.exp(0.1 * rng.standard_normal()))
        lines.append({"context": context, "profile": {"initcwnd": window}, "plt_ms": ms, "propensity": 0.5})
    brought(typed, lines)
    typed("learn", "run", "--policy", "thompson", "--classes", 2)
    profiles = [row["when"] for row in export(typed, "--unjudged")[0] if row["kind"] == "profile"]
    assert not any("initcwnd" in one and "initcwnd=30" not in one for one in profiles)


def test_a_loss_is_none_where_it_is_the_rounding_of_sums() -> None:
    row = _known(Loss(*[Share(2.2e-16, -4.4e-16, 1e-3)] * 3, clients=9, loaded=1.0), "x")
    assert [row[name] for name in ("median", "median_interval")] == [0.0, [0.0, 0.001]]
