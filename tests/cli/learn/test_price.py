# SPDX-License-Identifier: MIT
"""Features and the bound on damage as typed: `learn run`, `status`, `explain`, `export`, `replay sessions`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from configtron.db.outcomes import Outcomes
from configtron.learner.damage import unmeasured
from configtron.model.errors import DONE, USAGE
from configtron.model.tensor import write
from tests.learner.test_damage import BBR, SETTINGS, TENSOR
from tests.learner.test_relevance import log
from tests.support.learn_command import Typed, shown


@pytest.fixture
def files(tmp_path: Path) -> Path:
    with (tmp_path / "measured.npz").open("wb") as file:
        write(TENSOR, file)
    with (tmp_path / "bare.npz").open("wb") as file:
        write(replace(TENSOR, damage=None), file)
    return tmp_path


@pytest.mark.slow
def test_features_that_decide_are_named_wherever_classes_are(typed: Typed, tmp_path: Path) -> None:
    with Outcomes(tmp_path / "l.db") as store:
        store.begin_log("sim", "{}", log(3, effect=0.4))
    code, _, err = typed("learn", "run", "--policy", "mab_nc", "--classes", "8")
    assert code == DONE and "classes live over bandwidth, round trip, loss, window_bytes (chance 0.0005)" in err
    assert "nothing more than chance: queue_ms" in err and "asn" in err
    (policy,) = [row for row in shown(typed, "learn", "status") if row["kind"] == "policy"]
    assert policy["features"] == ["bandwidth_kbps", "rtt_ms", "loss", "window_bytes"]
    assert "classes over bandwidth_kbps, rtt_ms, loss, window_bytes" in str(policy["about"])
    known = "bandwidth_kbps=5000,rtt_ms=80,loss=0.01"
    one, other = (
        shown(typed, "learn", "explain", f"{known}{more}")[0]
        for more in (",window_bytes=65536", ",window_bytes=4000000")
    )
    assert one["what"] != other["what"] and one["seen"]["window_bytes"] == 65536
    assert shown(typed, "learn", "explain", known)[0]["what"] != "-"
    few = typed("learn", "run", "--policy", "mab_nc", "--name", "few", "--classes", "8", "--features", "few")
    assert few[0] == DONE and "live over" not in few[2]


def settings_of(policy: str, path: Path) -> list[dict[str, object]]:
    with Outcomes(path / "l.db") as store:
        return [dict(json.loads(row[1])) for row in store.decisions(policy)]


@pytest.mark.slow
def test_a_policy_keeps_to_the_bound_and_says_so(typed: Typed, files: Path) -> None:
    printed = shown(typed, "replay", "sessions", "--tensor", "measured.npz", "--sessions", "1500",
                    "--policy", "brute_nc", "--damage", "none", "--log")  # fmt: skip
    assert all(row["damage"] > 1.15 for row in printed)
    # The guard's names are set aside, so that the measured bound alone decides.
    run, bound = ("learn", "run", "--policy", "brute_nc", "--classes", "8", "--allow-unfair"), "measured.npz"
    code, _, err = typed(*run, "--name", "kept", "--damage-from", bound)
    assert code == DONE and "at most 1.25 bytes" in err and "no bbr" in err
    assert typed(*run, "--name", "free")[0] == DONE
    harm = {name: np.mean([not unmeasured(one) for one in settings_of(name, files)]) for name in ("kept", "free")}  # type: ignore[arg-type]
    assert harm["free"] > 0.1 and harm["kept"] == 0.0, "the log has no queues, so both depths are in every class"
    cells = shown(typed, "learn", "export", "--policy", "kept", "--only", "cell")
    assert not any(row["settings"].get("tcp_congestion_control") == "bbr" for row in cells)


@pytest.mark.slow
@pytest.mark.parametrize(("lost", "chosen"), [(1.02, True), (2.4, False)])
def test_measured_damage_decides_what_is_unfair(typed: Typed, tmp_path: Path, lost: float, *, chosen: bool) -> None:
    """bbr that harms no neighbour needs no --allow-unfair; where it harms, or nothing was measured, it stays out."""
    assert TENSOR.damage is not None
    harm = np.where(BBR[None, :, None], lost, TENSOR.damage.clip(max=1.02)).astype(np.float32)
    for name, damage in (("measured.npz", harm), ("bare.npz", None)):
        with (tmp_path / name).open("wb") as file:
            write(replace(TENSOR, damage=damage), file)
    assert typed("replay", "sessions", "--tensor", "bare.npz", "--sessions", "1500", "--policy", "brute_nc",
                 "--log", "-f", "jsonl")[0] == DONE  # fmt: skip
    run = ("learn", "run", "--policy", "brute_nc", "--classes", "4")
    code, _, err = typed(*run, "--name", "priced", "--damage-from", "measured.npz")
    assert code == DONE and ("unfair to cubic" in err) != chosen
    assert typed(*run, "--name", "named")[0] == DONE
    share = {name: np.mean([one.get("tcp_congestion_control") == "bbr" for one in settings_of(name, tmp_path)])
             for name in ("priced", "named")}  # fmt: skip
    assert (share["priced"] > 0.1) == chosen and share["named"] == 0.0
    assert typed("learn", "run", "--policy", "thompson", "--classes", "4", "--warm", "measured.npz")[0] == DONE
    exported = shown(typed, "learn", "export", "--policy", "thompson", "--to-tune", "--unjudged")
    profiles = [row["settings"] for row in exported if row["kind"] == "profile"]
    assert any(one.get("tcp_congestion_control") == "bbr" for one in profiles) == chosen
    code, _, err = typed("tune", "--driver", "memory", "plan")
    assert code == DONE, err


@pytest.mark.slow
def test_the_price_of_what_was_served_is_printed(typed: Typed, files: Path) -> None:
    how = ("replay", "sessions", "--tensor", "measured.npz", "--sessions", "2500", "--policy", "thompson")
    assert all(row["damage"] < 1.1 for row in shown(typed, *how))
    assert "damage" in typed(*how, "-f", "csv")[1].splitlines()[0]
    code, _, err = typed("replay", "sessions", "--tensor", "bare.npz", "--sessions", "10", "--damage", "1.5")
    assert code == USAGE and "does not say what neighbours lost" in err
    assert "damage" not in typed("replay", "sessions", "--tensor", "bare.npz", "--sessions", "10", "-f", "csv")[1]


@pytest.mark.parametrize("given", ["0.5", "much", "nan"])
def test_a_bound_that_is_none_is_refused(typed: Typed, files: Path, given: str) -> None:
    code, _, err = typed("replay", "sessions", "--tensor", "measured.npz", "--sessions", "10", "--damage", given)
    assert code == USAGE and "from 1 on, or none" in err


def test_a_bound_without_a_measurement_is_refused(typed: Typed, tmp_path: Path) -> None:
    with Outcomes(tmp_path / "l.db") as store:
        store.begin_log("sim", "{}", log(3, 100))
    code, _, err = typed("learn", "run", "--policy", "mab_nc", "--damage", "1.25")
    assert code == USAGE and "--damage-from" in err
    assert len(SETTINGS) == len(BBR)
