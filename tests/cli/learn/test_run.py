# SPDX-License-Identifier: MIT
"""`learn run`: what is asked makes a difference, clients are watched, and knobs that do nothing are left alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner import PREFERRED
from configtron.learner.saved import recipe_of
from configtron.model.errors import DONE, INTERRUPTED, USAGE
from configtron.model.tensor import write
from configtron.service.learning import lessons
from tests.support.learn_command import Typed, brought, kept, refused, rows, shown
from tests.support.worlds import small_tensor


@pytest.mark.slow
def test_clients_are_watched(typed: Typed, tmp_path: Path) -> None:
    """A client whose network changes half-way gets decisions by its own outcomes, and the change is reported; a run in
    two parts gives the same bits as one."""
    rng, lines = np.random.default_rng(3), []
    for at in range(800):
        moved, prefix = at >= 400, f"192.0.{at % 4}.0/24"
        kbps, rtt = (50_000.0, 15.0) if moved and at % 4 == 0 else (900.0, 300.0) if at % 2 == 0 else (50_000.0, 15.0)
        wrong = np.exp(0.08 * rng.standard_normal(2))
        context = {"bandwidth_kbps": kbps * wrong[0], "rtt_ms": rtt * wrong[1], "loss": 0.0, "prefix": prefix}
        lines.append({"context": context, "plt_ms": 1000 + rtt, "profile": {"initcwnd": 10}})
    brought(typed, lines)
    how = ("learn", "run", "--policy", "mab_nc", "--classes", 2)
    code, out, err = typed(*how, "--watch", "-f", "jsonl", "--name", "whole")
    (row,) = rows(out)
    # One client moved. A new run is believed after three samples, of medians of three.
    assert code == DONE and row["reclassified"] == 1 and 1 <= row["latency"] <= 6
    assert "1 times a client came to another class" in err
    shown(typed, *how, "--watch", "--name", "parts", "--outcomes", 430)
    shown(typed, "learn", "run", "--policy", "parts")
    assert kept(tmp_path, "whole") == kept(tmp_path, "parts")
    shown(typed, "learn", "explain", "rtt_ms=300,bandwidth_kbps=900,loss=0", "--policy", "whole")
    assert shown(typed, *how, "--name", "plain")[0]["reclassified"] == 0
    refused(typed, "without --watch", "learn", "run", "--policy", "plain", "--watch")


@pytest.mark.slow
def test_dead_knobs_are_reported_and_not_explored(filled: Typed, tmp_path: Path) -> None:
    """A warm start's repeats prove pacing and corking dead; outcomes of either are taken in all the same."""
    repeats = np.repeat(small_tensor().median_ms[..., None], 4, axis=3)
    noise = np.exp(0.05 * np.random.default_rng(1).standard_normal(repeats.shape))
    with (tmp_path / "repeats.npz").open("wb") as file:
        write(replace(small_tensor(), repeats_ms=(repeats * noise).astype(np.float32)), file)
    code, _, err = filled("learn", "run", "--classes", 4, "--warm", "repeats.npz", "--outcomes", 700)
    assert code == DONE and "tcp_autocorking is not explored: no difference beyond noise" in err
    # Known beforehand, and not in the live grid to begin with.
    assert not any("bbr" in line for line in err.splitlines() if "not explored" in line)
    assert filled("learn", "run")[0] == DONE
    with Outcomes(tmp_path / "l.db") as store:
        found = store.learner(PREFERRED)
        assert found is not None and found.outcomes == 1500
        grid, logged = recipe_of(found.recipe).grid, store.profiles(1)
    assert len(grid) == 4 * 6 * 2 and {name for name, _ in grid.profiles[0].settings} >= {"pacing"}
    assert any(dict(profile.settings)["pacing"] == "fq" for profile in logged)
    assert {dict(profile.settings)["pacing"] for profile in grid.profiles} == {"pfifo_fast"}


@pytest.mark.slow
def test_what_would_make_no_difference_is_not_taken(filled: Typed) -> None:
    few = ("replay", "sessions", "--tensor", "small.npz", "--sessions", 50, "--classes", 5, "--warm", "small.npz")
    both = (*few, "--policy", "default", "--policy")
    for words, says in (
        (("learn", "run", "--policy", "configtron", "--warm", "small.npz"),
         "--warm makes no difference to configtron; it does to: offline, thompson"),
        (("learn", "run", "--engine", "gpyopt"), "--engine makes no difference to thompson; it does to: bo, "),
        ((*both, "mab_nc"), "--warm makes no difference to default, mab_nc"),
    ):  # fmt: skip
        code, _, err = filled(*words)
        assert code == USAGE and says in err
    assert filled(*both, "squarecb")[0] == DONE


@pytest.mark.slow
def test_a_warm_start_over_other_configurations_and_sites_is_taken_for_what_it_says(
    filled: Typed, tmp_path: Path
) -> None:
    tensor = small_tensor()
    few = tensor.over(tensor.grid.only([tensor.grid.default, 3, 21]))
    gaps = few.median_ms.copy()
    gaps[0, 1] = np.nan
    with (tmp_path / "few.npz").open("wb") as file:
        write(replace(few, sites=("a", "b", "c"), median_ms=gaps), file)
    code, _, err = filled("learn", "run", "--warm", "few.npz", "--classes", 4, "--outcomes", 700)
    assert code == DONE and "--warm: not used of it: 3 of 216 cells (not measured), the names of 3 of 3 sites" in err
    assert filled("learn", "run", "--policy", "thompson", "--outcomes", 100)[0] == DONE, "made again from its file"


def crowds(n: int = 3000, *, device: bool = True) -> list[dict[str, Any]]:
    """Clients of one rough network kind; the far half of them loads three times as long, from the 1000th on."""
    rng, lines = np.random.default_rng(3), []
    for at in range(n):
        far, wrong = at % 2 == 0, np.exp(0.05 * rng.standard_normal(3))
        slow = 3.0 if far and at >= 1000 else 1.0
        context = {"bandwidth_kbps": 9000.0 * wrong[0], "rtt_ms": (150.0 if far else 60.0) * wrong[1], "loss": 0.0,
                   "site": "news", "prefix": f"192.0.{at % 20}.0/24"}  # fmt: skip
        context |= {"device": "phone" if far else "desk"} if device else {}
        window = int(rng.choice([10, 30]))
        lines.append({"context": context, "plt_ms": 1000.0 * slow * wrong[2] ** 2, "profile": {"initcwnd": window}})
    return lines


@pytest.mark.slow
def test_classes_evolve_and_are_reported(typed: Typed, tmp_path: Path) -> None:
    """Members that come to differ are split, in two runs as in one; without --evolve nothing is."""
    brought(typed, crowds())
    how = ("learn", "run", "--policy", "mab_nc", "--classes", 1)
    code, out, err = typed(*how, "--evolve", "--name", "whole", "-f", "jsonl")
    (row,) = rows(out)
    assert code == DONE and row["classes"] == 1 + row["splits"] and row["splits"] >= 1
    assert "a class is split where its loads spread by more than" in err and "repeats" in err
    assert "or where two halves of it want different configurations" in err
    shown(typed, *how, "--evolve", "--name", "parts", "--outcomes", 1700)
    shown(typed, "learn", "run", "--policy", "parts")
    plain = shown(typed, *how, "--name", "plain")[0]
    assert (plain["classes"], plain["splits"]) == (1, 0)
    assert kept(tmp_path, "whole") == kept(tmp_path, "parts")
    by = {one["name"]: (one["splits"], one["classes"]) for one in shown(typed, "learn", "status")[1:]}
    assert by["parts"] == (row["splits"], row["classes"]) and by["plain"][0] == 0
    refused(typed, "without --evolve", "learn", "run", "--policy", "plain", "--evolve")
    refused(typed, "--evolve makes no difference to bo", "learn", "run", "--policy", "bo", "--evolve")


@pytest.mark.slow
def test_devices_have_classes(typed: Typed, tmp_path: Path) -> None:
    brought(typed, crowds())
    how = ("learn", "run", "--policy", "mab_nc", "--classes", 2, "--by-device", "-f", "jsonl")
    code, out, err = typed(*how)
    assert code == DONE and rows(out)[0]["classes"] == 6 and "classes of their own: desk, phone" in err
    devices = recipe_of(kept(tmp_path, "mab_nc")[1]).classes.devices
    assert devices == ("",) * 2 + ("phone",) * 2 + ("desk",) * 2
    brought(typed, crowds(900, device=False))
    code, out, err = typed(*how, "--log", 2, "--name", "none")
    assert code == DONE and rows(out)[0]["classes"] == 2 and "no device has 200 of the first outcomes" in err


CONTEXT = {"bandwidth_kbps": 5000, "rtt_ms": 80, "loss": 0}


@pytest.mark.slow
def test_sites_without_number_are_not_all_distinguished(typed: Typed, tmp_path: Path) -> None:
    """A site that is an address of its own for every load would cost memory by the square."""
    sites = [f"s{at:03}" for at in range(112)] + ["much", "more"] * 3
    brought(typed, [*({"context": {**CONTEXT, "site": site}, "plt_ms": 9} for site in sites), *[{"plt_ms": 5}] * 2])
    code, _, err = typed("learn", "run", "--policy", "thompson")
    assert code == DONE and "114 sites: the 100 with the most outcomes are distinguished" in err
    assert recipe_of(kept(tmp_path, "thompson")[1]).sites == ("more", "much", *sites[:98])
    with Outcomes(tmp_path / "l.db") as store:
        assert len(store.sites()) == 114


@pytest.mark.slow
def test_configurations_without_number_are_refused(typed: Typed) -> None:
    """A window that is logged segment by segment would cost memory by the square."""
    for most in (1001, 1000):
        brought(typed, [
            {"context": {**CONTEXT, "site": f"s{at % 25}"}, "plt_ms": 9 + at % 3, "propensity": 0.01,
             "profile": {"initcwnd": 1 + at % most, "tcp_autocorking": at % most % 2}}
            for at in range(1100)
        ])  # fmt: skip
    for says in ("the logs have 1001 configurations, and a policy distinguishes 1000",
                 "initcwnd rounded, which has 1001 values"):  # fmt: skip
        refused(typed, says, "learn", "run", "--policy", "mab_nc")
    assert typed("learn", "evaluate", "--policy", "default", "--policy", "initcwnd=5,tcp_autocorking=1")[0] == DONE
    code, _, err = typed("learn", "run", "--log", 2, "--policy", "mab_nc", "--classes", 2)
    assert code == DONE and "25 sites: the 20 with the most outcomes are distinguished" in err


@pytest.mark.slow
@pytest.mark.parametrize(("apart", "reported"), [(1.0, True), (0.0, False)])
def test_auto_says_when_no_number_of_classes_will_do(typed: Typed, apart: float, reported: bool) -> None:
    """Every other load takes seven times as long, for a reason that no network feature shows."""
    rng, lines = np.random.default_rng(3), []
    for at in range(300):
        context = {"bandwidth_kbps": rng.uniform(900, 50_000), "rtt_ms": rng.uniform(10, 300), "loss": 0.0}
        lines.append({"context": context, "plt_ms": 1000 * np.exp(2 * apart * (at % 2))})
    brought(typed, lines)
    for how, wanted in ((("--classes", "auto"), reported), (("--classes", 3, "--evolve"), False)):
        code, _, err = typed("learn", "run", "--policy", "mab_nc", "--fresh", *how)
        assert code == DONE and ("no number of classes up to 64 keeps them that alike: members differ" in err) == wanted


@pytest.mark.slow
def test_an_interruption_says_what_is_kept_and_by_what_it_goes_on(
    filled: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled("learn", "run", "--policy", "mab_nc", "--name", "mine", "--classes", 4, "--outcomes", 700)
    with monkeypatch.context() as patch:
        patch.setattr(lessons, "learn", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        code, out, err = filled("learn", "run", "--policy", "mine")
    assert code == INTERRUPTED and out == ""
    (line,) = [line for line in err.splitlines() if line.startswith("mine: ")]
    reported, _, command = line.partition("; go on with: ")
    assert reported == "mine: 700 outcomes are learned and saved"
    # The command names the database in use, so that it can be typed as it stands.
    assert re.fullmatch(r"configtron --db \S+ learn run --policy mine", command)
    assert filled("learn", "run", "--policy", "mine")[0] == DONE
