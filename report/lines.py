# SPDX-License-Identifier: MIT
"""Lines for programs: JSON Lines (the canonical form, `probe.schema.json`) and CSV (one row a verdict)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from typing import TextIO

from configtron.model.nouns import Observation, Vantage
from configtron.model.records import Result, canonical, result_to_json, target_record, value_form
from configtron.report.csv_columns import PROBE_COLUMNS
from configtron.report.target_results import TargetResult


def write_jsonl(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    """One complete record per target and vantage."""
    for item in found:
        vantage = vantages.get(item.vantage) or Vantage(item.vantage, item.vantage)
        verdicts = list(item.verdicts.values())
        out.write(target_record(item.fingerprint.target, vantage, verdicts, item.evidence) + "\n")


def write_csv(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    """One row per verdict, under a header; a lower bound is written ">= n", a list as JSON."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(PROBE_COLUMNS)
    for item in found:
        target = item.fingerprint.target
        region = vantages[item.vantage].region if item.vantage in vantages else item.vantage
        about = (target.host, target.address, target.port, target.provider, target.tag, item.vantage, region)
        for knob, verdict in item.verdicts.items():
            writer.writerow((*about, knob, plain_value(verdict), verdict.unit, verdict.grade, verdict.reason or ""))


def plain_value(verdict: Observation) -> str:
    """A verdict's value in one cell: a lower bound as ">= n", a list as JSON, none as nothing."""
    if verdict.value is None:
        return ""
    return canonical(value_form(verdict.value)) if isinstance(verdict.value, tuple) else verdict.text


def write_results(results: Iterable[Result], out: TextIO) -> None:
    """One line per probe call: single readings, as a worker writes them."""
    for result in results:
        out.write(result_to_json(result) + "\n")
