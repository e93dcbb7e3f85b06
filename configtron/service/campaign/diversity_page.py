# SPDX-License-Identifier: MIT
"""A comparison between regions: what to know beside its figures, and its page with the packets behind examples."""

from __future__ import annotations

from pathlib import Path

from configtron.db.store import Run, Store
from configtron.report.comparison import RegionComparison
from configtron.report.page.diversity import page, to_draw
from configtron.report.page.words import RunFacts
from configtron.report.target_results import found_in
from configtron.service.campaign.runs import run_folder, vantages_of_run
from configtron.service.capture.proofs import proofs_of


def region_page(store: Store, run: Run, found: RegionComparison) -> str:
    """Return one HTML file that loads nothing: plots, providers, and the packets behind the examples."""
    differences = to_draw(found)
    sites = {difference.target for difference in differences}
    items = found_in(result for result in store.results(run.id) if result.site in sites) if sites else ()
    proofs = proofs_of(differences, found.baseline, items, Path(run_folder(store, run.id)))
    regions = {vantage.name: vantage.region for vantage in vantages_of_run(run).values()}
    return page(RunFacts(run.id, run.begun_at, run.status, run.version, regions), found, proofs)


def comparison_remark(run: Run, found: RegionComparison) -> str:
    """Return what a reader must know beside the figures of a comparison between regions; "" if there is nothing."""
    if not found.parameters:
        return f"run {run.id}: {run.status}, no verdict to compare; see `configtron probe show {run.id}`"
    if len(found.vantages) < 2:
        alone = f"run {run.id}: seen from {found.baseline} alone, so there is nothing to compare with"
        return f"{alone}; `configtron probe --vantages FILE` looks from several regions"
    return f"run {run.id}: {run.status}; these are the figures so far" if run.status != "done" else ""
