# SPDX-License-Identifier: MIT
"""The live page and `/metrics` of a manager, or of `learn serve --local`, from its database."""

from __future__ import annotations

from pathlib import Path

from configtron.model.exposition import CONTENT_TYPE
from configtron.report.fleet_inputs import ReportInputs
from configtron.report.fleet_metrics import manager_metrics
from configtron.report.page.loop_page import render
from configtron.service.learning.fleet_report import ReportOptions, report
from configtron.service.text_listener import KeptText, ServedText

# The latest rows that the live figures are of: a second of a processor. s for which they are kept, and after which a
# browser asks again.
LIVE_ROWS, KEPT_S, REFRESH_S = 20_000, 10.0, 30


def loop_texts(database: Path, rows: int = LIVE_ROWS) -> dict[str, ServedText]:
    """Return the page and the metrics by path. Errors, when one is made: those of `report`."""

    def inputs() -> ReportInputs:
        return report(ReportOptions(database, rows))

    page = KeptText(lambda: render(inputs(), refresh_s=REFRESH_S), KEPT_S)
    metrics = KeptText(lambda: manager_metrics(inputs()), KEPT_S)
    return {"/": ServedText("text/html; charset=utf-8", page), "/metrics": ServedText(CONTENT_TYPE, metrics)}
