# SPDX-License-Identifier: MIT
"""Probe runs: begin and resume them, read, compare and score their results.

from pathlib import Path
from configtron.service import campaign

done = campaign.run(campaign.ProbeOptions(words=("example.com",)), Path("runs.db"))
with campaign.open_runs(Path("runs.db")) as store:
    for record in campaign.records_of(store, store.run(done.number)):
        print(record.site, record.verdicts)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from configtron.service.lazily import lazily

if TYPE_CHECKING:
    from configtron.service.campaign.comparison import changes
    from configtron.service.campaign.conditions import parse_conditions
    from configtron.service.campaign.cost import PlanOptions, campaign_cost
    from configtron.service.campaign.dry_run import PlannedTargets, planned_targets
    from configtron.service.campaign.inputs import blocklist_of, calls_each, read_template, vantages_of
    from configtron.service.campaign.layout import RunLayout
    from configtron.service.campaign.merging import MergedRun, MergeOptions, merge
    from configtron.service.campaign.parquet_export import export_parquet
    from configtron.service.campaign.resolving import ResolvedNames, ResolveOptions, resolve_targets
    from configtron.service.campaign.run_options import ProbeOptions
    from configtron.service.campaign.run_report import WrittenRun, write_run
    from configtron.service.campaign.running import RunResult, planned, run
    from configtron.service.campaign.runs import (
        RUNS_COLUMNS,
        RUNS_SCHEMA,
        SUMMARY,
        baseline_of,
        find_run,
        locked,
        open_runs,
        records_of,
        run_folder,
        run_rows,
        status_of,
        vantages_of_run,
    )
    from configtron.service.campaign.scoring import LabScore, judged, score_run
    from configtron.service.campaign.summary import RunSummary
    from configtron.service.campaign.tally import RunProgress

__all__ = [
    "RUNS_COLUMNS", "RUNS_SCHEMA", "run_rows", "PlanOptions", "campaign_cost",
    "ResolvedNames", "ResolveOptions", "resolve_targets",
    "MergedRun", "MergeOptions", "merge", "export_parquet",
    "SUMMARY", "LabScore", "PlannedTargets", "ProbeOptions", "RunLayout", "RunProgress", "RunResult", "RunSummary",
    "WrittenRun",    "baseline_of", "blocklist_of", "calls_each", "changes", "find_run", "judged", "locked",
    "open_runs", "parse_conditions", "planned", "planned_targets", "read_template", "records_of",
    "run", "run_folder", "score_run", "status_of", "vantages_of", "vantages_of_run", "write_run",
]  # fmt: skip

# Module -> the names that it defines.
NAMES = {
    "comparison": "changes",
    "conditions": "parse_conditions",
    "cost": "PlanOptions campaign_cost",
    "dry_run": "PlannedTargets planned_targets",
    "inputs": "blocklist_of calls_each read_template vantages_of",
    "layout": "RunLayout",
    "merging": "MergedRun MergeOptions merge",
    "parquet_export": "export_parquet",
    "resolving": "ResolvedNames ResolveOptions resolve_targets",
    "run_options": "ProbeOptions",
    "run_report": "WrittenRun write_run",
    "running": "RunResult planned run",
    "runs": "RUNS_COLUMNS RUNS_SCHEMA SUMMARY baseline_of find_run locked open_runs records_of run_folder run_rows"
    " status_of vantages_of_run",
    "scoring": "LabScore judged score_run",
    "summary": "RunSummary",
    "tally": "RunProgress",
}
if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {name: module for module, names in NAMES.items() for name in names.split()})
