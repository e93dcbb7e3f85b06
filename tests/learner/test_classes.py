# SPDX-License-Identifier: MIT
"""Network classes: one rule for agent and learner, k, devices, slopes within; split where members diverge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from configtron.learner import Setting, policy
from configtron.learner.class_spread import no_slopes
from configtron.learner.classes import Classes, choose_k, fit, fit_by_device, of_tensor, spreads
from configtron.learner.columns import Codes, Contexts, Floats, contexts_of
from configtron.learner.evolve import FALSE_ALARM, Divergence, parted, remainders, split, split_by_wants
from configtron.learner.split_test import ClassDifference, difference, likeliest, values_of
from configtron.model.grid import live_grid
from configtron.model.nearest import nearest
from configtron.model.nouns import Context
from configtron.studies.policies.mab import Bandit
from tests.support.worlds import SITES, clients, lived, small_classes, small_tensor


def test_devices_have_classes_of_their_own() -> None:
    tensor = small_tensor()
    contexts, _ = clients(tensor, 900, noise=0.5)
    device = np.random.default_rng(2).integers(-1, 3, 900)
    contexts = replace(contexts, device=device, devices=("phone", "desktop", "rare"))
    rare = np.flatnonzero(device == 2)[30:]
    device[rare] = 0
    classes = fit_by_device(contexts, 4, np.random.default_rng(1), least_members=100)
    assert set(classes.devices) == {"", "phone", "desktop"} and len(set(classes.ids)) == 12
    code, nouns = classes.of(contexts), classes.nouns()
    found = [nearest(nouns, contexts.row(i)) for i in range(900)]
    assert [noun.id for noun in found if noun] == [classes.ids[k] for k in code]
    whose = np.array(classes.devices)[code]
    assert set(whose[device == 0]) == {"phone"} and set(whose[device == 2]) == set(whose[device == -1]) == {""}
    assert (classes.again(code, contexts.points()) == code).all()
    alone = replace(contexts, device=np.zeros(0, dtype=np.int64), devices=())
    assert set(np.array(classes.devices)[classes.of(alone)]) == {""}


def test_unknown_features_are_of_no_class() -> None:
    classes = small_classes(small_tensor())
    columns = [np.array([np.nan, 5000.0]), np.array([50.0, 50.0]), np.array([0.0, 0.0])]
    assert list(classes.assign(Contexts(*columns, np.zeros(2, dtype=np.int64), ("a",)).points()) >= 0) == [False, True]
    assert nearest(classes.nouns(), Context(rtt_ms=50.0, loss=0.0)) is None


@pytest.mark.slow
def test_k_is_the_smallest_that_is_tight_enough() -> None:
    tensor = small_tensor(conditions=60)
    contexts, condition = clients(tensor, 2000, noise=0.0)
    log_ms = np.log(tensor.lookup(condition, np.full(2000, tensor.grid.default), contexts.site))
    sizes = []
    for sigma in (10.0, 0.3, 0.1):
        rng = np.random.default_rng(1)
        classes = choose_k(contexts.points(), log_ms, contexts.site, rng, sigma_ln=sigma, candidates=(2, 8, 16, 32))
        sizes.append(len(classes))
        mean = np.average(spreads(classes, contexts.points(), log_ms, contexts.site), weights=classes.count)
        assert mean <= sigma or len(classes) == 32
    assert sizes[0] == 2 and sizes == sorted(sizes) and sizes[1] < sizes[2]


def test_classes_start_from_a_tensor() -> None:
    tensor = small_tensor(conditions=60)
    wide, tight = (of_tensor(tensor, np.random.default_rng(1), sigma_ln=sigma) for sigma in (0.6, 0.15))
    assert len(wide) < len(tight) and wide.count.sum() == 180 and (tight.spread >= 0).all()


def test_no_known_points_one_class_of_everyone() -> None:
    found = fit(np.full((3, 3), np.nan), 2, np.random.default_rng(1))
    mixed = contexts_of([Context(), Context(9000.0, 40.0, 0.0), Context(rtt_ms=40.0)])
    assert found.everyone and (found.count.tolist(), found.of(mixed).tolist()) == ([3.0], [0, 0, 0])
    assert len(fit(np.zeros((5, 3)), 4, np.random.default_rng(1))) == 1


def test_few_clients_are_of_the_classes_that_many_are_of() -> None:
    """One by one and as a column are two ways to the same bits, ties, unknown features and a choice of classes too."""
    rng = np.random.default_rng(8)
    points = rng.normal(size=(300, 3))
    points[7, 1], points[11] = np.nan, np.nan
    classes = fit(points, 12, rng)
    tied = replace(classes, centroid=np.repeat(classes.centroid[:6], 2, axis=0))
    for these in (classes, tied):
        for among in (None, [3, 5, 8]):
            alone = np.concatenate([these.assign(points[at : at + 1], among) for at in range(300)])
            assert (alone == these.assign(points, among)).all() and alone[7] == alone[11] == -1


def test_planted_slopes_come_back() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([[-0.9, 0.1, 0.0], [-0.1, 0.8, 0.3]])
    network = rng.integers(2, size=4000)
    away = 0.3 * rng.standard_normal((4000, 3))
    rest = (away * truth[network]).sum(axis=1) + 0.2 * rng.standard_normal(4000)
    slopes = no_slopes(2)
    for rows in np.split(np.arange(4000), 8):
        slopes = slopes.plus(network[rows], away[rows], rest[rows])
    assert np.allclose(slopes.slopes(), truth, atol=0.08) and not no_slopes(3).slopes().any()
    one = no_slopes(1).plus(np.zeros(4000, dtype=np.int64), away, away @ np.array([1.0, 0.0, 0.0])).grown(2)
    assert np.allclose(one.slopes()[1], [1.0, 0.0, 0.0], atol=0.1), "a class that saw little takes the others' word"


@pytest.mark.slow
def test_what_is_learned_is_less_noisy_for_slopes() -> None:
    tensor = small_tensor(conditions=60)
    made = [
        policy(name, Setting(tensor.grid, SITES, small_classes(tensor, 4), np.random.default_rng(3), 250))
        for name in ("thompson", "mab_nc")
    ]
    for one in made:
        lived(one, tensor, 2500)
    with_slopes, without = (one.cells.tally_.noise_ln(0.0) for one in made)  # type: ignore[attr-defined]
    assert with_slopes < 0.7 * without


GRID = live_grid()
VALUES = values_of(GRID)
ROWS = 5
H1, H2 = (np.flatnonzero(GRID.column("http_version") == version) for version in (0, 1))


def loads(seed: int, *, n: int = 1200, wants: float = 0.0, slower: float = 0.0) -> tuple[Floats, Codes, Codes, Floats]:
    """Points, rows, configurations and ln(ms) of one class, as a searched cell has them: one configuration nine times
    of ten, any at all the tenth. Members farther along the second feature are `slower`, and like HTTP/2 by `wants`
    where the others dislike it. A pair of knobs acts together, which no sum of knobs says; loads have a heavy tail."""
    rng = np.random.default_rng(seed)
    row, far = rng.integers(ROWS, size=n), rng.random(n) < 0.4
    usual = np.array([GRID.default, 40, 80, 120, 7])[row]
    configuration = np.where(rng.random(n) < 0.1, rng.integers(len(GRID), size=n), usual)
    points = 0.1 * rng.standard_normal((n, 3))
    points[:, 1] += 0.8 * far
    h2, window = GRID.column("http_version")[configuration], GRID.column("initcwnd")[configuration]
    log_ms = 7.0 + 0.3 * row + slower * far + 0.3 * (h2 == 1) * (window > 2) + 0.05 * window
    log_ms += wants * (h2 == 1) * np.where(far, -1.0, 1.0)
    tail = np.where(rng.random(n) < 0.05, rng.exponential(0.5, n), 0.0)
    return points, row, configuration, log_ms + 0.12 * rng.standard_normal(n) + tail


def found(seed: int, **more: float) -> ClassDifference | None:
    points, row, configuration, log_ms = loads(seed, **more)  # type: ignore[arg-type]
    return likeliest(points, row, configuration, log_ms, VALUES, least=100, gain_ln=0.02)


def test_halves_that_want_different_configurations_are_found() -> None:
    """In nine of ten classes; in less than 14 of 20 in one of a thousand runs."""
    sure = 0
    for seed in range(20):
        one = found(seed, wants=0.5)
        if one is None or one.chance >= 1e-4:
            continue
        far = loads(seed, wants=0.5)[0][:, 1] > 0.4
        sure += 0.02 <= one.gain_ln < 0.5 and max((one.half == far).mean(), (one.half != far).mean()) > 0.99
    assert sure >= 14


@pytest.mark.slow
@pytest.mark.parametrize("slower", [0.0, 1.0])
def test_a_difference_is_not_invented(slower: float) -> None:
    """Being slower is none. Of 200 classes that want the same, three or so are below one in a hundred by chance."""
    chances = []
    for seed in range(200):
        points, row, configuration, log_ms = loads(seed, slower=slower)
        far = (points[:, 1] > 0.4).astype(np.int64)
        chances.append(difference(row, configuration, far, log_ms, VALUES, points)[0])
    assert np.mean(np.array(chances) < 0.05) < 0.10 and np.mean(np.array(chances) < 0.01) < 0.03
    assert min(chances) > 1e-4


def test_a_logger_that_chose_by_the_network_is_no_difference() -> None:
    """All want the same, and load slower the farther they are; HTTP/2 was had mostly by the far ones of each half."""
    chances = []
    for seed in range(60):
        points, row, configuration, log_ms = loads(seed)
        rng = np.random.default_rng((seed, 1))
        points = rng.uniform(-1.0, 1.0, points.shape)
        far = (points[:, 1] > 0.0).astype(np.int64)
        away = points[:, 1] + 0.5 - far
        h2 = rng.random(len(row)) < 0.5 + np.where(far, 0.8, -0.8) * away
        configuration = np.where(h2, rng.choice(H2, len(row)), rng.choice(H1, len(row)))
        log_ms = 7.0 + 0.1 * h2 + 0.6 * points[:, 1] + 0.15 * rng.standard_normal(len(row))
        chances.append(difference(row, configuration, far, log_ms, VALUES, points)[0])
    assert np.mean(np.array(chances) < 0.05) < 0.2 and min(chances) > 1e-4


def test_partings_that_were_tried_count() -> None:
    for seed in range(8):
        points, row, configuration, log_ms = loads(seed, wants=0.5)
        thrice = points[:, [1, 1, 1]]
        if one := likeliest(thrice, row, configuration, log_ms, VALUES, least=100, gain_ln=0.02):
            chance, _ = difference(row, configuration, one.half, log_ms, VALUES, thrice)
            assert one.chance == pytest.approx(min(4 * chance, 1.0), rel=1e-6, abs=0.0)
            return
    pytest.fail("no class had a difference")


def test_the_likeliest_parting_is_taken_whichever_was_tried_last_and_none_that_gains_nothing() -> None:
    points, row, configuration, log_ms = loads(3, wants=0.5)
    far, seen = points[:, 1] > 0.4, (row, configuration, log_ms, VALUES)
    one = likeliest(points * np.array([1.0, 1.0, 30.0]), *seen, least=100, gain_ln=0.0)
    assert one is not None and (one.half == far).all()
    assert likeliest(points, *seen, least=100, gain_ln=2.0) is likeliest(points, *seen, least=700, gain_ln=0.0) is None
    assert likeliest(np.zeros_like(points), *seen, least=1, gain_ln=0.0) is None
    default = np.full_like(configuration, GRID.default)
    alone = difference(row, default, far.astype(np.int64), log_ms, VALUES, points)
    assert alone == (1.0, 0.0), "one configuration alone says nothing of others"


BOUND = Divergence(spread_ln=0.2, least_members=50)


def two_crowds(n: int, apart: float, slower: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Points of one class in two crowds `apart` e-folds of round trip, the farther one `slower` in ln(ms)."""
    rng = np.random.default_rng(seed)
    far = rng.random(n) < 0.4
    points = np.array([8.0, 4.0, -6.0]) + 0.05 * rng.standard_normal((n, 3))
    points[:, 1] += apart * far
    return points, 7.0 + slower * far + 0.1 * rng.standard_normal(n)


def one_class(points: np.ndarray) -> tuple[Classes, Codes]:
    return fit(points, 1, np.random.default_rng(1)), np.zeros(len(points), dtype=np.int64)


def test_a_class_is_split_where_its_members_diverge_and_by_no_noise() -> None:
    points, log_ms = two_crowds(800, apart=1.0, slower=0.8)
    classes, zeros = one_class(points)
    noise = 7.0 + 0.5 * np.random.default_rng(2).standard_normal(800)
    after, same = (
        split(classes, zeros, points, remainders(zeros, zeros, y), BOUND, np.random.default_rng(1))
        for y in (log_ms, noise)
    )
    assert after.ids == ("nc0", "nc1") and after.count.sum() == 800 and same is classes
    assert abs(after.centroid[0, 1] - 4.0) < 0.1 and abs(after.centroid[1, 1] - 5.0) < 0.1


def test_a_policy_keeps_every_load_through_a_split() -> None:
    points, log_ms = two_crowds(900, apart=1.2, slower=0.9)
    tensor, (classes, site) = small_tensor(), one_class(points)
    policy = Bandit(Setting(tensor.grid, SITES, classes, np.random.default_rng(1), 300, divergence=BOUND))
    contexts = Contexts(*np.exp(points[:, :2]).T, np.exp(points[:, 2]) - 0.002, site, SITES)
    for start in range(0, 900, 300):
        here = contexts[slice(start, start + 300)]
        policy.observe_many(here, policy.choose_many(here), np.exp(log_ms[start : start + 300]))
    tally = policy.cells.tally_
    assert policy.class_ids_ == ("nc0", "nc1") and tally.count.sum() == 900
    assert len(tally.count) == 2 * (len(SITES) + 1) and set(policy.choose_many(contexts).network) == {0, 1}
    near, far = (tally.total[rows].sum() / tally.count[rows].sum() for rows in (slice(0, 4), slice(4, 8)))
    assert abs(far - near - 0.9) < 0.1


def test_what_is_left_is_as_wide_as_loads_are() -> None:
    """Of pairs of loads, each is half as far from the pair's mean, squared, as from the truth."""
    y = np.random.default_rng(4).standard_normal(4000)
    pairs = np.arange(4000) // 2
    assert abs(remainders(pairs, pairs * 0, y).std() - 1.0) < 0.05
    assert np.isnan(remainders(np.array([1, 2]), np.zeros(2, dtype=np.int64), y[:2])).all()


def test_classes_are_cut_into_as_many_as_their_members_make_up() -> None:
    points = np.concatenate([two_crowds(800, apart=1.0, slower=0.0)[0], [[14.0, 2.0, -3.0]] * 30])
    classes = fit(points, 2, np.random.default_rng(1))
    network = classes.assign(points)
    after = parted(classes, network, points, 100, np.random.default_rng(1))
    sizes, now = np.bincount(network), after.assign(points)
    assert len(set(after.ids)) == len(after) == 2 + sizes.max() // 100 - 1 and after.ids[:2] == ("nc0", "nc1")
    small = int(sizes.argmin())
    assert (after.centroid[small] == classes.centroid[small]).all(), "thirty members make up no second class"
    assert after.count.sum() == 830 and (now[800:] == small).all()
    apart = [np.linalg.norm(points[:800] - c.centroid[n[:800]], axis=1).mean()
             for c, n in ((classes, network), (after, now))]  # fmt: skip
    assert apart[1] < 0.5 * apart[0]


def test_clients_that_are_too_often_the_same_are_cut_no_further() -> None:
    """Round trips in whole ms: three points, however many members. One alone stays as it is."""
    points = np.repeat(np.array([[8.0, 4.0, -6.0], [8.0, 4.5, -6.0], [9.0, 4.0, -6.0]]), 400, axis=0)
    classes, zeros = one_class(points)
    after = parted(classes, zeros, points, 100, np.random.default_rng(1))
    assert sorted(map(tuple, after.centroid)) == sorted(set(map(tuple, points))) and after.count.sum() == 1200
    alone = parted(classes, zeros[:400], points[:400], 100, np.random.default_rng(1))
    assert len(alone) == 1 and np.isfinite(alone.centroid).all()


def test_a_class_whose_halves_want_different_configurations_is_split() -> None:
    """Their loads spread too little for the other rule. Nine of ten are split: less than 3 of 6 in one of 800 runs."""
    bound, split = Divergence(spread_ln=9.0, false_alarm=FALSE_ALARM), 0
    for seed in range(6):
        points, *rest = loads(seed, n=2000, wants=0.5)
        classes, zeros = one_class(points)
        after = split_by_wants(classes, zeros, points, tuple(rest), VALUES, bound)
        if after.ids == ("nc0", "nc1") and after.count[0] > after.count[1]:
            split += abs(after.centroid[1, 1] - after.centroid[0, 1] - 0.8) < 0.1
    assert split >= 3
    unknown, never = (np.full_like(rest[0], -1), *rest[1:]), Divergence(9.0, false_alarm=0.0)
    assert split_by_wants(classes, zeros, points, unknown, VALUES, bound) is classes
    assert split_by_wants(classes, zeros, points, tuple(rest), VALUES, never) is classes


@pytest.mark.parametrize("slower", [0.0, 1.0])
def test_what_wants_the_same_stays_one_class_however_slow_a_half_is(slower: float) -> None:
    points, *rest = loads(4, slower=slower)
    bound = Divergence(spread_ln=9.0, false_alarm=FALSE_ALARM)
    assert split_by_wants(*one_class(points), points, tuple(rest), VALUES, bound).ids == ("nc0",)


def test_looking_and_not_splitting_changes_no_decision() -> None:
    tensor = small_tensor()
    contexts, _ = clients(tensor, 2000)
    chosen = []
    for bound in (None, Divergence(spread_ln=0.01, least_members=300, false_alarm=1e-300)):
        rng = np.random.default_rng(2)
        policy = Bandit(Setting(tensor.grid, SITES, small_classes(tensor, 2), rng, 250, divergence=bound))
        for start in range(0, 2000, 250):
            here = contexts[slice(start, start + 250)]
            chosen.append(policy.choose_many(here).configuration)
            noise = np.random.default_rng(start).standard_normal(250)
            policy.observe_many(here, policy.choose_many(here), np.exp(7.0 + 0.3 * noise))
        assert policy.cells.splits_ == 0
    assert (np.concatenate(chosen[:8]) == np.concatenate(chosen[8:])).all()
