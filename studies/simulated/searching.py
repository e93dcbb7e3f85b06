# SPDX-License-Identifier: MIT
"""How a search begins, how much of the space it tests, how well trees repeat what was found: CT's sections 4 to 6."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.engines.grid import GridEngine
from configtron.learner.engines.lhc import latin
from configtron.learner.policies.bayesian import BayesianSearch
from configtron.learner.searches import DONE
from configtron.learner.sim.sessions import Arrivals, networks_of
from configtron.learner.sim.world import CLASSES, NOISE, chance, classes_of, world
from configtron.learner.templates import templates
from configtron.learner.tree import LEAST_LEAF, tree_columns
from configtron.model.tensor import Tensor
from configtron.studies.simulated.ground import Ground
from configtron.studies.simulated.points import Point, Study, lived, quantiles

# First samples, and where a search is taken to have arrived: within five per cent of the best.
FIRST, NEAR = 4, 0.05
# Cells that are searched from each start, and configurations after which a search is given up.
CELLS, MOST = 60, 60
# Client networks of the study of single clients: each has sessions enough to test everything.
PREFIXES, EVERY_S = 40, 4.0
# Folds of the cross-validation, and where the generator begins that deals networks out to them.
FOLDS, FOLDING = 5, 19


def starts(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Configurations tried until one is near the best, from several starts, without noise. Sessions play no part."""
    del sessions
    tensor, rng = ground.tensor("spread", seed), chance(seed, NOISE)
    emulated = ground.warm(tensor, "spread", seed)
    names = ("lhc", "random", "one knob at a time", *(() if emulated is None else ("ranked",)))
    engine, tried = GridEngine(tensor.grid), dict[str, list[tuple[int, bool]]]((name, []) for name in names)
    for _cell in range(CELLS):
        truth = tensor.median_ms[rng.integers(len(tensor.names)), :, rng.integers(len(tensor.sites))].astype(np.float64)
        begins = {
            "lhc": latin(tensor.grid, FIRST, rng),
            "random": rng.permutation(len(tensor.grid))[:FIRST],
            "one knob at a time": _one_knob(tensor, rng),
        }
        if emulated is not None:
            begins["ranked"] = templates(emulated, FIRST)
        for name, first in begins.items():
            tried[name].append(_until_near(engine, truth, first))
    found = []
    for name, searches in tried.items():
        counts, arrived = zip(*searches, strict=True)
        found.append(Point(name, "median tried", float(np.median(counts))))
        found.append(Point(name, "mean tried", float(np.mean(counts))))
        found.append(Point(name, "share never near", float(1.0 - np.mean(arrived))))
    return found


def _one_knob(tensor: Tensor, rng: np.random.Generator) -> Codes:
    """Default, and configurations that differ from it in one knob."""
    grid = tensor.grid
    off = (grid.positions != grid.positions[grid.default]).sum(axis=1)
    return np.concatenate(([grid.default], rng.permutation(np.flatnonzero(off == 1))[: FIRST - 1]))


def _until_near(engine: GridEngine, truth: Floats, first: Codes) -> tuple[int, bool]:
    """How many were tried, and whether the last one is near."""
    tried, best = [int(at) for at in first], truth.min() * (1.0 + NEAR)
    for count, at in enumerate(tried, 1):
        if truth[at] <= best:
            return count, True
    while len(tried) < MOST:
        done = np.array(tried)
        tried.append(engine.suggest(done, truth[done], np.zeros(0, dtype=np.int64)).configuration)
        if truth[tried[-1]] <= best:
            return len(tried), True
    return len(tried), False


def explored(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Share of the space that Bayesian optimisation tests, per client and per class and site, and who is done."""
    tensor, found = ground.tensor("spread", seed), []
    here = world(tensor, sessions, seed, arrivals=Arrivals(prefixes=PREFIXES))
    for row, name in (("per client", "bo"), ("per class and site", "bo_nc")):
        made = here.policy(name)
        assert isinstance(made, BayesianSearch)
        lived(here, [made], EVERY_S)
        used = made.cells.tally_.count.sum(axis=1) > 0
        tested = (made.cells.tally_.count > 0).mean(axis=1)[used]
        over = made.search.searches_.phase[used] == DONE
        median, p95 = quantiles(tested)
        found += [
            Point(row, "median share tested", median),
            Point(row, "p95 share tested", p95),
            Point(row, "share not at its end", float(1.0 - over.mean())),
        ]
    return found


def accuracy(_: str, seed: int, sessions: int, ground: Ground) -> list[Point]:
    """Cross-validated accuracy of three kinds of models, and what their mistakes cost."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    tensor = ground.tensor("spread", seed)
    here = world(tensor, sessions, seed)
    seen, condition = here.sessions.seen, here.sessions.condition
    columns = tree_columns(seen.points(), seen.site, len(tensor.sites))
    models = {
        "SVM": make_pipeline(StandardScaler(), SVC(C=10.0)),
        "decision tree": DecisionTreeClassifier(criterion="entropy", min_samples_split=2, random_state=0),
        "decision tree, 80 a leaf": DecisionTreeClassifier(
            criterion="entropy", min_samples_leaf=LEAST_LEAF, random_state=0
        ),
        "random forest": RandomForestClassifier(50, criterion="entropy", random_state=0),
    }
    labels = {"of its class and site": _of_cell(tensor, seen, seed), "its own": tensor.best[condition, seen.site]}
    turn = chance(seed, FOLDING).permutation(len(tensor.names)) % FOLDS
    folds = {"networks seen": np.arange(len(condition)) % FOLDS, "networks unseen": turn[condition]}
    found = []
    for whose, label in labels.items():
        for name, model in models.items():
            for which, fold in folds.items():
                said = _crossed(model, columns, label, fold)
                lost = tensor.lookup(condition, said, seen.site) / tensor.lookup(condition, label, seen.site) - 1.0
                found += _mistaken(f"{name}, best {whose}", which, said != label, lost)
    return found


def _mistaken(row: str, which: str, wrong: npt.NDArray[np.bool_], lost: Floats) -> list[Point]:
    """How often a model was wrong, and what that cost."""
    found = [Point(row, f"accuracy, {which}", float(1.0 - wrong.mean()))]
    found.append(Point(row, f"mean cost, {which}", float(lost.mean())))
    if wrong.any():
        found.append(Point(row, f"median cost of a mistake, {which}", float(np.median(lost[wrong]))))
    return found


def _of_cell(tensor: Tensor, seen: Contexts, seed: int) -> Codes:
    """(n,) the fastest configuration on the mean over the networks of each one's class, for its site."""
    classes = classes_of(tensor, CLASSES, seed)
    home = classes.of(networks_of(tensor))
    relative = tensor.median_ms / tensor.best_ms[:, None, :]
    best = np.stack([relative[home == k].mean(axis=0).argmin(axis=0) for k in range(len(classes))])
    found: Codes = best[classes.of(seen), seen.site]
    return found


def _crossed(model: object, columns: Floats, label: Codes, fold: Codes) -> Codes:
    """(n,) each session's label as a model says that was fitted on the other folds. fold (n,)."""
    said = np.empty(len(label), dtype=np.int64)
    for mine in np.unique(fold):
        model.fit(columns[fold != mine], label[fold != mine])  # type: ignore[attr-defined]
        said[fold == mine] = model.predict(columns[fold == mine])  # type: ignore[attr-defined]
    return said


STARTS = Study(
    "starts",
    "How a search begins",
    "CT section 4",
    "A Latin hypercube needs 2 to 3 times fewer steps than other starts",
    starts,
    "Configurations tried until one is within 5 % of the cell's best, at most 60, by the grid engine, four first "
    "samples from each start, no noise; a search that is never near by then counts as 60, so its mean is too low. "
    "`ranked` are the four best templates of a mis-specified emulator. The paper "
    "names neither its other starts nor what a step is.",
    figures={("random", "mean tried"): "2 to 3 times lhc's"},
)
EXPLORED = Study(
    "explored",
    "How much of the space a search tests",
    "CT section 6",
    "Bayesian optimisation per client tests over 90 % of the space without reaching its goal",
    explored,
    "Forty clients with 1500 sessions each, all sites mixed in a client's search, so that its loads differ by site; "
    "168 configurations that differ, not 768. A search is over at 5 % expected improvement. "
    "The grid engine weighs how much of what it saw is noise, and among noisy loads expects little soon, so ours ends "
    "where the paper's goes on; what GPyOpt's own loop would do here was not tried.",
    figures={("per client", "median share tested"): "over 0.9"},
)
ACCURACY = Study(
    "trees",
    "How well a model repeats what was found best",
    "CT section 4",
    "Cross-validated accuracy: SVM 93.3, tree 95.6, random forest 96.1 %",
    accuracy,
    "Two labels: the best configuration of a session's class and site, which is what the ensemble's tree is taught, "
    "and of the session's own network, which no class knows. Five folds. `networks seen`: sessions are held back, "
    "their networks' other sessions are not, so a model may know a network again, by its loss above all, which "
    "simulated sessions know exactly (bandwidth and round trip are off by 8 %). `networks unseen`: whole networks are "
    "held back; this is how well a model does for a new network. A mistake's cost is the page load time under the "
    "model's word over that under the label's. The paper does not say how it folded.",
    sessions=4000,
    figures={
        ("SVM, best of its class and site", "accuracy, networks seen"): "0.933",
        ("decision tree, best of its class and site", "accuracy, networks seen"): "0.956",
        ("random forest, best of its class and site", "accuracy, networks seen"): "0.961",
    },
)
