# SPDX-License-Identifier: MIT
"""Studies: numbers over worlds, the same again for the same seed, and what parts must show on a small world."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from configtron.model.errors import BadInput
from configtron.model.tensor import read
from configtron.studies import starts, updates
from configtron.studies.features import blind
from configtron.studies.registry import catalogue
from configtron.studies.registry.kinds import SESSIONS
from configtron.studies.sim.world import pops_of, tensor_of, warm_of, without_gaps, world
from configtron.studies.simulated.points import Point, SessionsStudy, summed
from configtron.studies.simulated.tensor_source import TensorSource
from tests.support import ROOT
from tests.support.worlds import small_tensor

STUDIES = {one.name: one for one in catalogue.every((SESSIONS,)) if isinstance(one, SessionsStudy)}
STUDY = SessionsStudy("x", "X", "CT", "claims", lambda *_: [], "differs", figures={("a", "gain"): "0.19"})


def quick(name: str) -> SessionsStudy:
    """The study `updates` over an hour instead of two days: thirty updates instead of a thousand."""
    study = STUDIES[name]
    return replace(study, part=partial(updates.updates, days=0.05)) if name == "updates" else study


def test_numbers_are_means_over_worlds() -> None:
    found = summed(STUDY, [[Point("a", "gain", 1.0), Point("a", "gain", 9.0, 5.0)], [Point("a", "gain", 3.0)]])
    table, curve = found
    assert (table.measured.value, table.worlds, table.paper) == (2.0, 2, "0.19")
    # Student's factor for two worlds is 12.7062, their standard error 1.
    assert table.measured.high == pytest.approx(2.0 + 12.7062)
    assert (curve.x, curve.measured.value, curve.worlds, curve.paper) == (5.0, 9.0, 1, "")
    assert np.isnan(curve.measured.low)
    (none,) = summed(STUDY, [[Point("a", "gain", float("nan"))]])
    assert np.isnan(none.measured.value) and none.worlds == 0


def test_worlds_without_the_number_are_not_counted() -> None:
    ys = (1.0, float("nan"), 3.0)
    (found,) = summed(STUDY, [[Point("a", "gain", y)] for y in ys])
    assert (found.measured.value, found.worlds) == (2.0, 2)


@pytest.mark.slow
def test_searches_that_are_given_up_are_distinguished() -> None:
    """Tried are the same counts either way: only the share says that some are no arrivals."""
    whole = by(STUDIES["starts"].part("", 3, 0, TensorSource(conditions=30)))
    cut = by(starts.starts("", 3, 0, TensorSource(conditions=30), starts.FIRST))
    for name in ("lhc", "random"):
        assert cut[name, "mean tried"] <= starts.FIRST and 0.0 < cut[name, "share never near"] < 1.0
        assert whole[name, "share never near"] < cut[name, "share never near"]


@pytest.fixture(params=sorted(STUDIES))
def studied(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[Point]]]:
    """Each study's first part, on a world of 40 networks."""
    name: str = request.param
    study = quick(name)
    yield name, study.part(study.labels[0], 3, 600, TensorSource(conditions=40))


@pytest.mark.slow
def test_parts_give_numbers_that_the_paper_can_stand_beside(studied: tuple[str, list[Point]]) -> None:
    name, points = studied
    study = STUDIES[name]
    assert points and all(isinstance(point.y, float) for point in points)
    mine = {(point.row, point.column) for point in points if point.x is None}
    of_label = {key for key in study.figures if key[0].startswith(study.labels[0])}
    assert of_label <= mine, "a figure of the paper stands beside nothing"
    assert {plot.column for plot in study.plots if not study.labels[0]} <= {p.column for p in points if p.x is not None}
    assert study.claim and study.differs and study.paper


def by(points: list[Point]) -> dict[tuple[str, str], float]:
    return {(point.row, point.column): point.y for point in points if point.x is None}


@pytest.mark.slow
def test_the_same_seed_is_the_same_world() -> None:
    part = STUDIES["convergence"].part
    one, again, other = (part("", seed, 400, TensorSource(conditions=30)) for seed in (3, 3, 4))
    assert one == again and one != other


def test_arms_are_shares_of_sessions_that_there_were() -> None:
    points = STUDIES["arms"].part("", 3, 2000, TensorSource(conditions=30))
    totals: dict[tuple[str, float | None], float] = {}
    for point in points:
        totals[point.column, point.x] = totals.get((point.column, point.x), 0.0) + point.y
    # Two thousand sessions are four updates: of the hundredth nothing is reported.
    assert {key[0] for key in totals} == {"update 1", "updates 3 to 10", "share"}
    assert all(total == pytest.approx(1.0) for total in totals.values())


@pytest.mark.slow
def test_gains_are_ordered_as_they_must_be() -> None:
    """No policy beats the oracle at the mean of these; the curve of a distribution rises."""
    points = STUDIES["gains"].part("fcc", 3, 1500, TensorSource(conditions=30))
    found = by(points)
    assert found["fcc optimal", "median gain"] > 0
    assert found["fcc optimal", "median gain"] >= max(y for (_, column), y in found.items() if column == "median gain")
    # Networks that change half-way may end up slower than under Default.
    assert found["fcc optimal", "worse than Default by 20 %"] < 0.02
    curve = [(point.x, point.y) for point in points if point.row == "fcc optimal" and point.x is not None]
    assert [y for _, y in sorted(curve)] == sorted(y for _, y in curve)


def test_what_is_hidden_is_not_seen() -> None:
    here = world(tensor_of("spread", 3, conditions=30), 200, 3)
    seen = here.sessions.seen
    without: Any = blind(here, "mab_nc", ("site", "loss"))
    shown = without.shown(seen)
    assert (shown.site == -1).all() and len(set(shown.loss)) == 1 and (shown.rtt_ms == seen.rtt_ms).all()
    assert len(set(without.choose_many(seen).row % (len(here.tensor.sites) + 1))) == 1
    everything: Any = blind(here, "mab_nc", ())
    assert (everything.shown(seen).site == seen.site).all()
    assert len(set(everything.choose_many(seen).row)) > 20


@pytest.fixture(scope="module")
def measured() -> TensorSource:
    """The second data set of every study: what the lab measured, 12 networks x 16 configurations x 3 sites."""
    with (ROOT / "fixtures" / "tensor" / "smoke.npz").open("rb") as file:
        return TensorSource(brought=read(file))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STUDIES))
def test_every_study_runs_on_the_measured_tensor(
    name: str, measured: TensorSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sites, few conditions, other knobs, no emulator beside it."""
    study = quick(name)
    (label,) = measured.labels(study.labels)
    assert label in ("", "measured")
    points = study.part(label, 3, 500, measured)
    assert points and not any(np.isnan(point.y) for point in points)
    rows = {point.row for point in points}
    assert not any("offline" in row or row == "ranked" for row in rows)
    assert points == study.part(label, 3, 500, measured)
    # A few hundred sessions are all of one arm.
    other = study.part(label, 4, 500, measured)
    assert study.tensor_alone == ([point.y for point in points] == [point.y for point in other]) or name == "arms"


def test_a_number_of_one_world_has_its_own_interval() -> None:
    (one,) = summed(STUDY, [[Point("a", "gain", 1.0, own=(0.5, 2.0))]])
    assert (one.measured.value, one.measured.low, one.measured.high) == (1.0, 0.5, 2.0)
    (two,) = summed(STUDY, [[Point("a", "gain", 1.0, own=(0.5, 2.0))]] * 2)
    assert two.measured.low == 1.0


@pytest.mark.slow
def test_features_in_use_are_distinguished_from_others(measured: TensorSource) -> None:
    """A policy that is blind to nothing loses by another client's site, and by its network in some feature."""
    points = STUDIES["features"].part("", 3, 4000, measured)
    lost = {point.row: point for point in points if point.column == "p95 excess"}
    site = lost["thompson, another client's site"]
    assert site.y > 0.1 and site.own is not None and site.own[0] <= site.y <= site.own[1]
    assert max(point.y for row, point in lost.items() if "site" not in row and "thompson" in row) > 0.02


def test_networks_without_one_rate_are_left_out() -> None:
    """A played trace has no one bandwidth: no session is put on it, and a warm start says nothing of it."""
    tensor = small_tensor()
    kbps = tensor.bandwidth_kbps.copy()
    kbps[4] = np.nan
    played = replace(tensor, bandwidth_kbps=kbps)
    left = without_gaps(played)
    assert left.names == tuple(name for name in tensor.names if name != "n4")
    assert (left.median_ms == np.delete(tensor.median_ms, 4, axis=0)).all()
    here = world(left, 300, 3, warm=played, classes=6)
    for name in ("thompson", "offline"):
        assert len(set(here.policy(name).choose_many(here.sessions.seen).configuration)) > 1
    with pytest.raises(BadInput, match="no condition has"):
        without_gaps(replace(tensor, bandwidth_kbps=np.full(24, np.nan)))


def test_gaps_are_taken_out_whole() -> None:
    tensor = small_tensor()
    ms = tensor.median_ms.copy()
    ms[3, tensor.grid.default, 1] = np.nan
    ms[5, 11, 0] = ms[3, 20, 0] = np.nan
    left = without_gaps(replace(tensor, median_ms=ms))
    assert left.missing() == 0 and "n3" not in left.names and len(left.names) == 23
    gone = {profile.name for profile in tensor.grid.profiles} - {profile.name for profile in left.grid.profiles}
    assert gone == {tensor.grid.profiles[11].name} and without_gaps(tensor) is tensor
    assert left.context(4, 2) == tensor.context(5, 2)
    ms[:, 1:] = np.where(np.arange(ms.shape[1] - 1)[None, :, None] != tensor.grid.default - 1, np.nan, ms[:, 1:])
    ms[:, 0] = np.nan
    with pytest.raises(BadInput, match="too many"):
        without_gaps(replace(tensor, median_ms=ms))


def test_pops_are_a_share_of_prefixes_each() -> None:
    here = world(tensor_of("spread", 3), 50, 3)
    assert list(np.bincount(pops_of(here.sessions, 4))) == [300] * 4


@pytest.mark.slow
def test_a_world_does_not_change_with_what_is_asked_of_it() -> None:
    tensor = tensor_of("spread", 3)
    few, many = world(tensor, 10, 3), world(tensor, 10, 3, warm=warm_of(tensor, "spread", 3))
    assert (few.sessions.at_s == many.sessions.at_s).all() and (few.classes.centroid == many.classes.centroid).all()
    assert many.warm is not None and many.warm.provenance == (("variant", "mis-specified"),)
    assert (tensor_of("spread", 3).median_ms == tensor.median_ms).all()
    assert (tensor_of("spread", 4).median_ms != tensor.median_ms).any()
    assert few.policy("mab_nc").rng.random() != few.policy("mab_nc", 1).rng.random()


@pytest.mark.slow
def test_memory_of_networks_is_distinguished_from_generalisation() -> None:
    """Each network's own best is nearly a name: forty networks are known again, and a new one is hardly guessed."""
    found = by(STUDIES["trees"].part("", 3, 1500, TensorSource(conditions=40)))
    row = "random forest, best its own"
    assert found[row, "accuracy, networks seen"] > found[row, "accuracy, networks unseen"] + 0.2
    assert found[row, "mean cost, networks seen"] < found[row, "mean cost, networks unseen"]


@pytest.mark.slow
def test_classes_are_split_where_they_may_evolve_only() -> None:
    found = by(STUDIES["classes"].part("", 3, 6000, TensorSource(conditions=40)))
    splits = {row: y for (row, column), y in found.items() if column == "splits"}
    assert splits["k = 5, evolving"] > 0 and not any(y for row, y in splits.items() if "evolving" not in row)
    ends = {row: y for (row, column), y in found.items() if column == "classes at the end"}
    assert ends["k = 5, evolving"] == 5 + splits["k = 5, evolving"] and ends["k = 5"] == 5 and ends["k = 20"] == 20
    assert found["k = 5, evolving", "p95"] != found["k = 5", "p95"]
