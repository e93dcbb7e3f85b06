# SPDX-License-Identifier: MIT
"""Lines for programs: JSON Lines (the canonical form, `probe.schema.json`), CSV (one row a verdict), flat lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from configtron.model.nouns import Observation, Vantage
from configtron.model.records import Json, Result, canonical, result_to_json, target_record, value_form
from configtron.report.target_results import TargetResult

# The reason of a parameter that the run did not measure.
NOT_ASKED = "not-asked"


def write_jsonl(found: Iterable[TargetResult], vantages: Mapping[str, Vantage], out: TextIO) -> None:
    """One complete record per target and vantage."""
    for item in found:
        vantage = vantages.get(item.vantage) or Vantage(item.vantage, item.vantage)
        verdicts = list(item.verdicts.values())
        out.write(target_record(item.fingerprint.target, vantage, verdicts, item.evidence) + "\n")


def verdict_rows(found: Iterable[TargetResult], vantages: Mapping[str, Vantage]) -> Iterator[tuple[str, ...]]:
    """One row of `PROBE_COLUMNS` per verdict; a lower bound is written ">= n", a list as JSON."""
    for item in found:
        target = item.fingerprint.target
        region = vantages[item.vantage].region if item.vantage in vantages else item.vantage
        about = (target.host, target.address, str(target.port), target.provider, target.tag, item.vantage, region)
        for knob, verdict in item.verdicts.items():
            yield (*about, knob, plain_value(verdict), verdict.unit, verdict.grade, verdict.reason or "")


def plain_value(verdict: Observation) -> str:
    """A verdict's value in one cell: a lower bound as ">= n", a list as JSON, none as nothing."""
    if verdict.value is None:
        return ""
    return canonical(value_form(verdict.value)) if isinstance(verdict.value, tuple) else verdict.text


def flat_row(item: TargetResult, fields: Sequence[str] = ()) -> dict[str, Json]:
    """Return host, vantage, and NAME and NAME_grade of each parameter, or its NAME_reason.

    fields: the parameters, in order; () is all of them.
    """
    row: dict[str, Json] = {"host": item.site, "vantage": item.vantage}
    for name in fields or item.verdicts:
        verdict = item.verdicts.get(name)
        if verdict is None or verdict.value is None:
            row[f"{name}_reason"] = verdict.reason if verdict is not None else item.reason or NOT_ASKED
        else:
            row |= {name: value_form(verdict.value), f"{name}_grade": verdict.grade}
    return row


def write_flat(found: Iterable[TargetResult], fields: Sequence[str], out: TextIO) -> None:
    """One flat JSON object per target and vantage, its keys in order."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    out.writelines(encode(flat_row(item, fields)) + "\n" for item in found)


def write_results(results: Iterable[Result], out: TextIO) -> None:
    """One line per probe call: single readings, as a worker writes them."""
    for result in results:
        out.write(result_to_json(result) + "\n")
