# SPDX-License-Identifier: MIT
"""A small run for tests of reports and commands: two sites, two vantages, one difference, one bound, one failure."""

from dataclasses import replace

from configtron.model.nouns import Observation, Target, Vantage
from configtron.model.records import Result

VANTAGES = {"na": Vantage("na", "North America"), "eu": Vantage("eu", "Europe")}


def reading(knob: str, value: object, grade: str = "C", unit: str = "segments") -> Observation:
    """A single reading; text starting with "!" is a reason."""
    if isinstance(value, str) and value.startswith("!"):
        return Observation(knob, reason=value[1:], unit=unit)
    details = (("proof", "before-timer"),)
    return Observation(knob, value, unit=unit, method="flight", grade=grade, evidence=(2, 3), details=details)  # type: ignore[arg-type]


def result(site: str, vantage: str, trial: int, *observations: Observation, port: int = 80) -> Result:
    """One probe call."""
    trace_id = f"{vantage}/{site}/icw.{trial}"
    seen = tuple(replace(o, trace_id=trace_id) for o in observations)
    target = Target(site, "192.0.2.1", port)
    return Result(trace_id, vantage, target, "icw", started_at=10**18 + trial, evidence_file=f"{vantage}.pcapng",
                  first_frame=10 * trial, frames=9, observations=seen)  # fmt: skip


def run() -> list[Result]:
    """Ordered by site and vantage, as the store gives results."""
    made = []
    for site, vantage, icw, grade in (
        ("a.example", "eu", 4, "C"), ("a.example", "na", 10, "C"), ("b.example", "eu", "!too-short", "N"),
        ("b.example", "na", 3, "L"),
    ):  # fmt: skip
        for trial in (1, 2):
            made.append(result(site, vantage, trial, reading("icw", icw, grade), reading("synack_rto", 1.03, unit="s")))
    return made
