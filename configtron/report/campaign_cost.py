# SPDX-License-Identifier: MIT
"""What a campaign would cost: lines for people, one JSON line, or CSV."""

from __future__ import annotations

from typing import TextIO

from configtron.model.records import rounded
from configtron.model.wording import count_of
from configtron.probe.costs import CampaignCost
from configtron.report.printed import size
from configtron.report.rows import emit

# Described by `configtron/report/plan.schema.json`.
PLAN_SCHEMA = "configtron.plan/1"


def write_cost(cost: CampaignCost, form: str, out: TextIO) -> None:
    """Write a cost in that form: table, jsonl or csv."""
    if form == "table":
        out.writelines(f"{line}\n" for line in _lines(cost))
        return
    row = {**cost._asdict(), "hours": rounded(cost.hours), "disk_bytes": cost.disk_bytes}
    emit(form, tuple(row), [row], out, schema=PLAN_SCHEMA)


def _lines(cost: CampaignCost) -> list[str]:
    moved = cost.bytes_out + cost.bytes_in
    return [
        f"targets      {cost.targets} from {count_of(cost.vantages, 'vantage')}, profile {cost.profile}",
        f"connections  {cost.connections} ({cost.starts} SYNs)",
        f"packets      {cost.packets_out + cost.packets_in} ({cost.packets_out} sent, {cost.packets_in} received)",
        f"bytes        {size(moved)} ({size(cost.bytes_out)} sent, {size(cost.bytes_in)} received)",
        f"hours        {cost.hours:.1f} (set by the {cost.limit})",
        f"disk         {size(cost.disk_bytes)} (packets {size(cost.evidence_bytes)}, journal"
        f" {size(cost.journal_bytes)}, database {size(cost.database_bytes)})",
        f"unit costs   {cost.measured}",
    ]
