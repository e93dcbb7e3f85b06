# SPDX-License-Identifier: MIT
"""The live page and `/metrics` of a manager, or of `learn serve --local`, from its database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from configtron.model.exposition import AGENT_METRICS, CONTENT_TYPE, exposition
from configtron.report.fleet_inputs import ReportInputs
from configtron.report.fleet_metrics import manager_metrics
from configtron.report.page.loop_page import render
from configtron.service.fleet.agent_metrics import outcome_samples
from configtron.service.learning.fleet_report import ReportOptions, report
from configtron.service.outcomes.local_outcomes import LocalOutcomes
from configtron.service.text_listener import KeptText, ServedText

# The latest rows that the live figures are of: a second of a processor. s for which they are kept, and after which a
# browser asks again.
LIVE_ROWS, KEPT_S, REFRESH_S = 20_000, 10.0, 30


def loop_texts(database: Path, rows: int = LIVE_ROWS, outcomes: LocalOutcomes | None = None
               ) -> dict[str, ServedText]:  # fmt: skip
    """Return the page and the metrics by path. outcomes: the page loads of this process, whose figures are added.
    Errors, when one is made: those of `report`."""

    def inputs() -> ReportInputs:
        found = report(ReportOptions(database, rows))
        silence = outcomes.reader.silence if outcomes is not None else ""
        return replace(found, notes=(*found.notes, silence)) if silence else found

    def figures() -> str:
        if outcomes is None:
            return manager_metrics(inputs())
        samples = outcome_samples(outcomes.reader.records(), outcomes.counts())
        return manager_metrics(inputs()) + exposition(AGENT_METRICS, samples)

    page = KeptText(lambda: render(inputs(), refresh_s=REFRESH_S), KEPT_S)
    metrics = KeptText(figures, KEPT_S)
    return {"/": ServedText("text/html; charset=utf-8", page), "/metrics": ServedText(CONTENT_TYPE, metrics)}
