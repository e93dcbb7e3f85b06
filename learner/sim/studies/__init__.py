# SPDX-License-Identifier: MIT
"""STUDIES: every row of the paper's evaluation that a simulator can answer. To add one: a `Study`, a row here."""

from __future__ import annotations

from configtron.learner.sim.studies.ablations import FEATURES, KNOBS
from configtron.learner.sim.studies.classing import CLASSING
from configtron.learner.sim.studies.convergence import ARM_SHARES, CONVERGENCE
from configtron.learner.sim.studies.drift import DRIFT
from configtron.learner.sim.studies.gains import STUDY as GAINS
from configtron.learner.sim.studies.managers import LOCAL, UPDATES
from configtron.learner.sim.studies.realism import REALISM
from configtron.learner.sim.studies.searching import ACCURACY, EXPLORED, STARTS

__all__ = ["STUDIES"]

STUDIES = {
    study.name: study
    for study in (
        GAINS, CONVERGENCE, ARM_SHARES, LOCAL, UPDATES, FEATURES, KNOBS, STARTS, EXPLORED, ACCURACY,
        DRIFT, CLASSING, REALISM,
    )
}  # fmt: skip
