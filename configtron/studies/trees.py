# SPDX-License-Identifier: MIT
"""The study `trees`: the accuracy of models that predict the best configuration. CT section 4."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from configtron.learner.columns import Codes, Contexts, Floats
from configtron.learner.tree import LEAST_LEAF, tree_columns
from configtron.model.tensor import Tensor
from configtron.studies.sim.sessions import networks_of
from configtron.studies.sim.world import CLASSES, chance, classes_of, world
from configtron.studies.simulated.points import Point, SessionsStudy
from configtron.studies.simulated.tensor_source import TensorSource

# Folds of the cross-validation, and where the generator begins that deals networks out to them.
FOLDS, FOLDING = 5, 19


def accuracy(_: str, seed: int, sessions: int, source: TensorSource) -> list[Point]:
    """Cross-validated accuracy of three kinds of models, and what their mistakes cost."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    tensor = source.tensor("spread", seed)
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
                predicted = _crossed(model, columns, label, fold)
                lost = tensor.lookup(condition, predicted, seen.site) / tensor.lookup(condition, label, seen.site) - 1.0
                found += _mistaken(f"{name}, best {whose}", which, predicted != label, lost)
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
    predicted = np.empty(len(label), dtype=np.int64)
    for mine in np.unique(fold):
        model.fit(columns[fold != mine], label[fold != mine])  # type: ignore[attr-defined]
        predicted[fold == mine] = model.predict(columns[fold == mine])  # type: ignore[attr-defined]
    return predicted


STUDY = SessionsStudy(
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
    duration="5 minutes",
)
