# SPDX-License-Identifier: MIT
"""The packets behind differences: on each side the reading that the verdict rests on, and its trace."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from configtron.fingerprint.diversity import RegionDifference, setting
from configtron.model.errors import BadInput
from configtron.model.nouns import Observation, Trace
from configtron.model.records import Result
from configtron.probe.wire.pcap import read_evidence
from configtron.report.page.words import Proofs, ReadingProof
from configtron.report.target_results import TargetResult

# What reading a file raises that is not what we wrote, or no longer.
UNREADABLE = (BadInput, OSError, ValueError, LookupError, struct.error)


def proofs_of(
    differences: Iterable[RegionDifference], baseline: str, found: Iterable[TargetResult], folder: Path
) -> Proofs:
    """Both sides of each difference; `folder` is the run's, where its evidence lies."""
    items = {(item.site, item.vantage): item for item in found}
    proofs = {}
    for each in differences:
        sides = (baseline, each.region)
        here, there = (_proof(items.get((each.target, name)), name, each.knob, folder) for name in sides)
        proofs[each] = (here, there)
    return proofs


def _proof(item: TargetResult | None, vantage: str, knob: str, folder: Path) -> ReadingProof:
    reading = _reading(item.verdicts[knob]) if item is not None and knob in item.verdicts else None
    results = {result.trace_id: result for result in item.evidence} if item is not None else {}
    result = results.get(reading.trace_id) if reading is not None else None
    if reading is None or result is None or not result.evidence_file:
        return ReadingProof(vantage, missing="the run names none")
    frames = [result.first_frame + n for n in reading.evidence]
    span = f" {frames[0]}" + (f"–{frames[-1]}" if len(frames) > 1 else "") if frames else ""
    where = f"{result.evidence_file}, frames{span}" if frames else result.evidence_file
    try:
        return ReadingProof(vantage, reading, _trace(result, folder), where)
    except UNREADABLE as error:
        reason = error.strerror if isinstance(error, OSError) else error
        return ReadingProof(vantage, missing=f"{result.evidence_file}: {reason or type(error).__name__}")


def _reading(verdict: Observation) -> Observation | None:
    """Of the exact trials that read what the verdict says, one without lost packets if there is; else the first."""
    exact = [trial for trial in verdict.trials if trial.grade == "C"]
    best = sorted(exact, key=lambda trial: (setting(trial) != setting(verdict), bool(trial.detail("holes"))))
    return best[0] if best else None


def _trace(result: Result, folder: Path) -> Trace:
    traces = read_evidence(folder / result.evidence_file, offset=result.evidence_offset, end=result.evidence_end)
    trace = next(traces, None)
    if trace is None or trace.id != result.trace_id:
        raise BadInput("does not hold that trace")
    return trace
