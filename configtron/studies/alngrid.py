# SPDX-License-Identifier: MIT
"""The study `alngrid`: `alnrivals` with its whole plan, for intervals of harm that decide."""

from __future__ import annotations

from configtron.studies.alnrivals import WHOLE, run_plan
from configtron.studies.output.results import Evaluated
from configtron.studies.registry.kinds import Arguments, ClaimsStudy


def run(arguments: Arguments) -> Evaluated:
    """The whole plan. Errors: those of `run_plan`."""
    return run_plan(arguments, "alngrid", WHOLE)


STUDY = ClaimsStudy(
    "alngrid",
    "Applied Learning Networks; RFC 9959",
    "alnrivals with more transfers",
    "an hour",
    run,
)
