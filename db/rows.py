# SPDX-License-Identifier: MIT
"""Rows of the store and the nouns they stand for. Pure; SQL is in `store.py`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from configtron.fingerprint.features import Sighting
from configtron.model.nouns import Context, Observation, Target, Value
from configtron.model.records import (
    Result,
    canonical,
    observation_form,
    observation_of,
    pairs_form,
    pairs_of,
    value_form,
    value_of,
)

# Columns in the order of Result's fields, the target's spread in its place.
TRACE_COLUMNS = (
    "trace_id", "vantage", "site", "host", "address", "port", "path", "provider", "tag", "probe", "params",
    "started_at", "ending", "tainted", "evidence_file", "evidence_offset", "evidence_end", "first_frame", "frames",
)  # fmt: skip
OBSERVATION_COLUMNS = (
    "position", "knob", "value", "reason", "unit", "method", "grade", "read_from", "evidence", "trials", "details",
)  # fmt: skip

CONTEXT_COLUMNS = (
    "at_ns", "local", "local_port", "way", "ended", "age_s", "bytes_out", "bytes_in", "bounded", "bandwidth_kbps",
    "delivery_kbps", "rtt_ms", "min_rtt_ms", "jitter_ms", "loss", "site", "prefix", "asn", "region", "device",
    "queue_ms", "loss_run", "window_bytes", "delivery_share", "ack_gap_ms", "reordering", "unknown",
)  # fmt: skip

# Canonical JSON of what most readings lack.
NO_ITEMS, NO_PAIRS = "[]", "{}"

Row = tuple[str | int | float | None, ...]


def trace_row(result: Result) -> Row:
    """Return a result's row, without its run."""
    target = result.target
    return (
        result.trace_id, result.vantage, result.site, target.host, target.address, target.port, target.path,
        target.provider, target.tag, result.probe, canonical(pairs_form(result.params)), result.started_at,
        result.ending, canonical(list(result.tainted)) if result.tainted else NO_ITEMS,
        result.evidence_file, result.evidence_offset, result.evidence_end, result.first_frame, result.frames,
    )  # fmt: skip


def observation_row(observation: Observation) -> Row:
    """Return an observation's row, without its trace and position."""
    return (
        observation.knob,
        None if observation.value is None else _value_text(observation.value),
        observation.reason,
        observation.unit,
        observation.method,
        observation.grade,
        observation.trace_id,
        _numbers_text(observation.evidence),
        canonical([observation_form(trial) for trial in observation.trials]) if observation.trials else NO_ITEMS,
        canonical(pairs_form(observation.details)) if observation.details else NO_PAIRS,
    )


def result_of(rows: Sequence[tuple[str, ...]]) -> Result:
    """Return the result in the joined rows of one trace: its columns, then those of one observation each."""
    trace = dict(zip(TRACE_COLUMNS, rows[0], strict=False))
    readings = (row[len(TRACE_COLUMNS) :] for row in rows)
    return Result(
        trace["trace_id"],
        trace["vantage"],
        Target(trace["host"], trace["address"], int(trace["port"]), trace["path"], trace["provider"], trace["tag"]),
        trace["probe"],
        _pairs(trace["params"]),
        int(trace["started_at"]),
        trace["ending"],
        _strings(trace["tainted"]),
        trace["evidence_file"],
        int(trace["evidence_offset"]),
        int(trace["evidence_end"]),
        int(trace["first_frame"]),
        int(trace["frames"]),
        tuple(_observation_of(row) for row in readings if row[0] is not None),
    )


def _observation_of(row: tuple[str, ...]) -> Observation:
    _, knob, value, reason, unit, method, grade, read_from, evidence, trials, details = row
    return Observation(
        knob=knob,
        value=None if value is None else _value(value),
        reason=reason,
        unit=unit,
        method=method,
        grade=grade,
        trace_id=read_from,
        evidence=_numbers(evidence),
        trials=_trials(trials),
        details=_pairs(details),
    )


# Most texts of a run are the same few (no details, no trials, the values of one kind of server): written and parsed
# once.
REMEMBERED = 4096


# Typed: 1, 1.0 and True are equal, and three texts. A tuple's items have no types there.
def _value_text(value: Value) -> str:
    return canonical(value_form(value)) if isinstance(value, tuple) else _plain_text(value)


@lru_cache(REMEMBERED, typed=True)
def _plain_text(value: Value) -> str:
    return canonical(value_form(value))


@lru_cache(REMEMBERED)
def _numbers_text(numbers: tuple[int, ...]) -> str:
    return canonical(list(numbers))


@lru_cache(REMEMBERED)
def _pairs(text: str) -> tuple[tuple[str, Value], ...]:
    return pairs_of(json.loads(text))


@lru_cache(REMEMBERED)
def _value(text: str) -> Value:
    return value_of(json.loads(text))


@lru_cache(REMEMBERED)
def _numbers(text: str) -> tuple[int, ...]:
    return tuple(json.loads(text))


@lru_cache(REMEMBERED)
def _strings(text: str) -> tuple[str, ...]:
    return tuple(json.loads(text))


def _trials(text: str) -> tuple[Observation, ...]:
    return () if text == "[]" else tuple(observation_of(form) for form in json.loads(text))


def context_row(seen: Sighting) -> Row:
    """Return a sighting's row, without its watch; of the other end its prefix alone."""
    kept = seen.context
    return (
        seen.at_ns, seen.local, seen.local_port, seen.way, seen.ended, seen.age_s, seen.bytes_out, seen.bytes_in,
        int(seen.bounded), kept.bandwidth_kbps, kept.delivery_kbps, kept.rtt_ms, kept.min_rtt_ms, kept.jitter_ms,
        kept.loss, kept.site, kept.prefix, kept.asn, kept.region, kept.device, kept.queue_ms, kept.loss_run,
        kept.window_bytes, kept.delivery_share, kept.ack_gap_ms, kept.reordering, canonical(dict(seen.unknown)),
    )  # fmt: skip


def sighting_of(source: str, row: Sequence[Any]) -> Sighting:
    """Return the sighting in a row of `CONTEXT_COLUMNS`."""
    found = dict(zip(CONTEXT_COLUMNS, row, strict=True))
    context = Context(**{name: found[name] for name in CONTEXT_COLUMNS[9:-1]})
    return Sighting(
        source, found["at_ns"], found["local"], found["local_port"], "", 0, found["way"], found["ended"],
        found["age_s"], found["bytes_out"], found["bytes_in"], bool(found["bounded"]), context,
        tuple(json.loads(found["unknown"]).items()),
    )  # fmt: skip
