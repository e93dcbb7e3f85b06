# SPDX-License-Identifier: MIT
"""The diversity of a run for programs: JSON Lines (`diversity.schema.json`) and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from configtron.fingerprint.diversity import RegionDifference, ValueShare
from configtron.fingerprint.region_comparison import ParameterByRegion, RegionCounts
from configtron.model.records import Json, canonical, value_form
from configtron.report.comparison import RegionComparison
from configtron.report.csv_columns import DIVERSITY_COLUMNS
from configtron.report.rows import emit

SCHEMA = "configtron.diversity/1"
# In CSV the row that counts targets over all regions: a target that differs in three is one.
ANYWHERE = "*"
# Shares and bounds in ten-thousandths of a percent: finer than any run can resolve.
DECIMALS = 6


def write_comparison(run: int, found: RegionComparison, form: str, out: TextIO, *, color: bool = True) -> None:
    """Write a comparison in that form: table, jsonl or csv."""
    if form == "csv":
        emit(form, DIVERSITY_COLUMNS, _rows(found), out)
    elif form == "jsonl":
        emit(form, (), (_object(run, found, parameter) for parameter in found.parameters), out, schema=SCHEMA)
    else:
        from configtron.report import tables

        tables.summary([parameter.row for parameter in found.parameters]).write(out, color=color)
        if len(found.vantages) > 2:
            tables.by_region(found.parameters).write(out, color=color)


def _rows(found: RegionComparison) -> Iterator[tuple[Json, ...]]:
    """One row a parameter and region, the baseline with its values alone."""
    for parameter in found.parameters:
        row, about = parameter.row, (parameter.row.knob, parameter.unit, found.baseline)
        counts = (row.compared, row.compared - row.differing, row.differing, row.undetermined, row.mixed)
        bounds = _bounds(row.differing, row.compared, (row.low, row.high))
        yield (*about, ANYWHERE, row.known, _values(row.shares), *counts, *bounds, *_example(row.example))
        for region in parameter.regions:
            here = (*about, region.name, region.known, _values(region.shares))
            if region.name == found.baseline:
                yield (*here, *[""] * (len(DIVERSITY_COLUMNS) - len(here)))
                continue
            counts = (region.compared, region.same, region.differs, region.undetermined, row.mixed)
            bounds = _bounds(region.differs, region.compared, region.interval)
            one = next((each for each in parameter.differences if each.region == region.name), None)
            yield (*here, *counts, *bounds, *_example(one))


def _example(one: RegionDifference | None) -> tuple[str, str, str]:
    return (one.target, str(one.here), str(one.there)) if one else ("", "", "")


def _object(run: int, found: RegionComparison, parameter: ParameterByRegion) -> dict[str, Json]:
    row = parameter.row
    share, low, high = _bounds(row.differing, row.compared, (row.low, row.high))
    differences: list[Json] = [
        {
            "target": each.target,
            "provider": found.sites[each.target].provider,
            "region": each.region,
            "here": value_form(each.here),
            "there": value_form(each.there),
        }
        for each in parameter.differences
    ]
    example = row.example
    return {
        "run": run, "knob": row.knob, "unit": parameter.unit, "baseline": found.baseline,
        "known": row.known, "values": _shares(row.shares), "compared": row.compared, "differing": row.differing,
        "share": share, "low": low, "high": high, "undetermined": row.undetermined,
        "obstacles": dict(parameter.obstacles), "mixed": row.mixed, "mixed_targets": list(found.mixed),
        "example": None if example is None else {
            "target": example.target, "here": value_form(example.here), "region": example.region,
            "there": value_form(example.there),
        },
        "regions": [_region(region, found.baseline) for region in parameter.regions],
        "differences": differences,
    }  # fmt: skip


def _region(region: RegionCounts, baseline: str) -> Json:
    form: dict[str, Json] = {"name": region.name, "known": region.known, "values": _shares(region.shares)}
    if region.name == baseline:
        return form
    share, low, high = _bounds(region.differs, region.compared, region.interval)
    form |= {"same": region.same, "differs": region.differs, "undetermined": region.undetermined}
    return form | {"share": share, "low": low, "high": high}


def _bounds(hits: int, total: int, interval: tuple[float, float]) -> tuple[float | None, float | None, float | None]:
    """(share, low, high); None of nothing."""
    if not total:
        return None, None, None
    return round(hits / total, DECIMALS), round(interval[0], DECIMALS), round(interval[1], DECIMALS)


def _shares(shares: Iterable[ValueShare]) -> list[Json]:
    return [
        {"value": value_form(each.value), "count": each.count, "share": round(each.share, DECIMALS)} for each in shares
    ]


def _values(shares: Iterable[ValueShare]) -> str:
    """All values in one field, as JSON: [[10,36],[4,12]]."""
    return canonical([[value_form(each.value), each.count] for each in shares])
