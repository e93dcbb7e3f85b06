# SPDX-License-Identifier: MIT
"""`configtron learn export --to-tune`: what is handed to the stack was judged by outcomes, or asked for by the user."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from configtron.learner.rule_cost import Loss, Share
from configtron.model.errors import DONE, USAGE
from configtron.service.learning.rows import _known
from tests.support.learn_command import Typed, filled, rows, typed

__all__ = ["filled", "typed"]


@pytest.mark.slow
def test_what_no_log_could_judge_is_not_handed_over(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    few = ("learn", "export", "--last", 300, "-f", "jsonl")
    (tune,) = (row for row in rows(filled(*few, "--only", "loss")[1]) if row["of"] == "tune")
    assert "are needed" in tune["reason"], "the log suffices: the test is empty"
    filled("tune", "profile", "set", "mine", "initcwnd=4")
    code, out, err = filled(*few, "--to-tune")
    held = [row for row in rows(out) if row["kind"] == "held-back"]
    # Default for all, with the reason, is what a timer that exports each hour can go on with: it was exit code 2.
    assert code == DONE and "4 of 4 classes keep Default" in err and "0 prefixes are wanted" in err
    assert len(held) == 4 and {row["reason"] for row in held} <= {"few-loads", "not-proven", "partly-tried"}
    assert [row["profile"] for row in rows(filled("tune", "profile", "list", "-f", "jsonl")[1])] == ["mine"]
    assert rows(filled("tune", "prefix", "list", "-f", "jsonl")[1]) == []
    code, out, err = filled(*few, "--to-tune", "--unjudged")
    profiles = {row["profile"] for row in rows(out) if row["kind"] == "profile"}
    assert code == DONE and profiles and f"unjudged: {tune['reason']}" in err
    assert {row["profile"] for row in rows(filled("tune", "profile", "list", "-f", "jsonl")[1])} == {*profiles, "mine"}


@pytest.mark.slow
def test_what_was_judged_is_handed_over_and_says_so(filled: Typed) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--classes", 4)
    code, out, err = filled("learn", "export", "--to-tune", "--unjudged", "--only", "loss", "-f", "jsonl")
    assert code == DONE and rows(out)[3]["p95"] is not None and "unjudged; see" in err
    code, out, err = filled("learn", "export", "--unjudged")
    assert code == USAGE and out == "" and "--to-tune" in err and err.count("\n") == 1


@pytest.mark.slow
def test_classes_that_keep_default_are_counted(filled: Typed) -> None:
    filled("learn", "run", "--policy", "configtron_unbounded", "--classes", 30, "--outcomes", 300)
    code, out, err = filled("learn", "export", "--to-tune", "--unjudged", "--last", 300, "-f", "jsonl")
    tune = rows(out)[3]
    untouched = [row for row in rows(out) if row["kind"] == "class" and row["profile"] == "untouched"]
    assert code == DONE and 0 < tune["unseen"] <= len(untouched), "every class saw what it got: the test is empty"
    for text in (tune["when"], err):
        assert f"{tune['instead'] + tune['unseen']} of 30 classes have loaded nothing of what they would get" in text
        assert f"{tune['unseen']} keep Default" in text
    filled("learn", "run", "--policy", "thompson", "--classes", 30, "--outcomes", 300)
    other = rows(filled("learn", "export", "--policy", "thompson", "-f", "jsonl", "--only", "loss")[1])[3]
    assert other["unseen"] == 0 and "keep Default" not in other["when"]


@pytest.mark.slow
def test_a_model_hands_over_no_value_that_was_never_loaded(typed: Typed, tmp_path: Path) -> None:
    """Windows of 10 and 30 teach a slope; what it says of others is a guess."""
    rng, lines = np.random.default_rng(3), []
    for at in range(1200):
        context: dict[str, object] = {
            "bandwidth_kbps": 9000.0,
            "rtt_ms": 60.0 * float(np.exp(0.1 * rng.standard_normal())),
            "loss": 0.0,
        }
        context |= {"site": "news", "prefix": f"192.0.{at % 12}.0/24"}
        window = int(rng.choice([10, 30]))
        ms = (900.0 if window == 10 else 1000.0) * float(np.exp(0.1 * rng.standard_normal()))
        lines.append(json.dumps({"context": context, "profile": {"initcwnd": window}, "plt_ms": ms, "propensity": 0.5}))
    (tmp_path / "o.jsonl").write_text("\n".join(lines))
    typed("learn", "import", "o.jsonl")
    typed("learn", "run", "--policy", "thompson", "--classes", 2)
    code, out, _ = typed("learn", "export", "--to-tune", "--unjudged", "-f", "jsonl")
    profiles = [row["when"] for row in rows(out) if row["kind"] == "profile"]
    assert code == DONE and not any("initcwnd" in one and "initcwnd=30" not in one for one in profiles)


def test_a_loss_is_none_where_it_is_the_rounding_of_sums() -> None:
    row = _known(Loss(*[Share(2.2e-16, -4.4e-16, 1e-3)] * 3, clients=9, loaded=1.0), "x")
    assert [row[name] for name in ("median", "median_interval")] == [0.0, [0.0, 0.001]]
