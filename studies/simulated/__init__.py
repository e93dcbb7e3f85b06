# SPDX-License-Identifier: MIT
"""STUDIES: every row of the paper's evaluation that a simulator can answer. To add one: a `Study`, a row here."""

from __future__ import annotations

from configtron.studies.simulated.ablations import FEATURES, KNOBS
from configtron.studies.simulated.classing import CLASSING
from configtron.studies.simulated.convergence import ARM_SHARES, CONVERGENCE
from configtron.studies.simulated.drift import DRIFT
from configtron.studies.simulated.gains import STUDY as GAINS
from configtron.studies.simulated.managers import LOCAL, UPDATES
from configtron.studies.simulated.realism import REALISM
from configtron.studies.simulated.searching import ACCURACY, EXPLORED, STARTS

__all__ = ["STUDIES"]

STUDIES = {
    study.name: study
    for study in (
        GAINS, CONVERGENCE, ARM_SHARES, LOCAL, UPDATES, FEATURES, KNOBS, STARTS, EXPLORED, ACCURACY,
        DRIFT, CLASSING, REALISM,
    )
}  # fmt: skip
