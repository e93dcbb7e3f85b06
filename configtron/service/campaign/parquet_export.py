# SPDX-License-Identifier: MIT
"""`probe export --parquet`: a run as tables that other programs query."""

from __future__ import annotations

from pathlib import Path

from configtron.db.store import Run, Store
from configtron.model.bounds import check_text
from configtron.report.parquet import RunSource, WrittenParquet, write_parquet
from configtron.service.campaign.run_identity import identity_of, machine_of
from configtron.service.campaign.runs import records_of, vantages_of_run


def export_parquet(store: Store, run: Run, folder: Path) -> WrittenParquet:
    """Write a run into a folder of Parquet files, beside other runs'. Errors: `BadInput`, `Missing`, `Unwritten`."""
    check_text("folder", folder)
    source = RunSource(identity_of(store, run), machine_of(run), vantages_of_run(run))
    return write_parquet(records_of(store, run), source, folder)
