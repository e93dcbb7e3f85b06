# SPDX-License-Identifier: MIT
"""Results as text: the JSON that workers write, the store keeps and people read.

Rules for this file: standard library only; equal objects give equal bytes (sorted keys, compact separators, numbers
rounded to the microsecond); unreadable text raises `BadInput` with the fault.

`Result` is one finished call of a probe. A *record* is the published form: one complete JSON object per target and
vantage, described by `configtron/report/probe.schema.json`; its field "schema" has its name and version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, cast

from configtron.model.errors import BadInput
from configtron.model.nouns import Observation, Target, Value, Vantage

# Raised when a field changes its meaning or goes away; new fields do not raise it.
SCHEMA = "configtron.probe/1"
# One microsecond: finer than any timer we read, coarser than the noise of binary fractions.
DECIMALS = 6

# Built once: `json.dumps` would build an encoder for each of a connection's dozen texts.
# Forms are trees that the functions below have just made, so none is looked at for a cycle.
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class Result(NamedTuple):
    """One finished probe call: its parameters, its ending, its readings, and the place of its packets.

    started_at         nanoseconds since the epoch
    evidence_file      name of the pcapng; `offset` and `end` are its bytes, `first_frame` its first frame (from 1, as
                       Wireshark counts), so observation frame n is frame `first_frame + n` there
    observations       single readings, not yet merged over trials
    """

    trace_id: str
    vantage: str
    target: Target
    probe: str
    params: tuple[tuple[str, Value], ...] = ()
    started_at: int = 0
    ending: str = "done"
    tainted: tuple[str, ...] = ()
    evidence_file: str = ""
    evidence_offset: int = 0
    evidence_end: int = 0
    first_frame: int = 0
    frames: int = 0
    observations: tuple[Observation, ...] = ()

    @property
    def site(self) -> str:
        """Return the site asked for, from the trace id; the target's host may be the end of a redirect."""
        parts = self.trace_id.split("/")
        return parts[1] if len(parts) == 3 else self.target.host


def canonical(form: Json) -> str:
    """Return canonical JSON: the only form that configtron writes."""
    return _CANONICAL.encode(form)


def value_form(value: Value | None) -> Json:
    """Return a value as JSON: tuples become lists, fractions are rounded."""
    if isinstance(value, tuple):
        return [value_form(item) for item in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def value_of(form: Json) -> Value:
    """The value that `value_form` wrote."""
    if isinstance(form, list):
        return tuple(value_of(item) for item in form)
    if form is None or isinstance(form, dict):
        raise BadInput(f"not a value: {form!r}")
    return form


def pairs_form(pairs: Iterable[tuple[str, Value]]) -> Json:
    """Named values as a JSON object."""
    return {name: value_form(value) for name, value in pairs}


def pairs_of(form: Json) -> tuple[tuple[str, Value], ...]:
    """Named values in canonical order."""
    if not isinstance(form, dict):
        raise BadInput(f"not an object: {form!r}")
    return tuple((name, value_of(form[name])) for name in sorted(form))


def observation_form(observation: Observation) -> dict[str, Json]:
    """An observation as a JSON object; empty fields are left out."""
    o = observation
    form: dict[str, Json] = {"value": value_form(o.value)}
    if o.value is None:
        form["reason"] = o.reason
    texts = (("knob", o.knob), ("unit", o.unit), ("method", o.method), ("grade", o.grade), ("trace_id", o.trace_id))
    form.update([named for named in texts if named[1]])
    if o.evidence:
        form["evidence"] = list(o.evidence)
    if o.trials:
        form["trials"] = [observation_form(trial) for trial in o.trials]
    if o.details:
        form["details"] = pairs_form(o.details)
    return form


def observation_of(form: Json) -> Observation:
    """The observation that `observation_form` wrote."""
    fields = _object(form)
    try:
        return Observation(
            knob=_text(fields, "knob"),
            value=None if fields.get("value") is None else value_of(fields["value"]),
            reason=cast("str | None", fields.get("reason")),
            unit=_text(fields, "unit"),
            method=_text(fields, "method"),
            grade=_text(fields, "grade", "N"),
            trace_id=_text(fields, "trace_id"),
            evidence=tuple(int(cast(int, n)) for n in _list(fields, "evidence")),
            trials=tuple(observation_of(trial) for trial in _list(fields, "trials")),
            details=pairs_of(fields.get("details", {})),
        )
    except (TypeError, ValueError) as error:
        raise BadInput(f"not an observation: {error}") from error


def result_to_json(result: Result) -> str:
    """One result, one line."""
    form: dict[str, Json] = {
        **dict(zip(_PLAIN, _plain_of(result), strict=True)),
        "target": target_form(result.target),
        "params": pairs_form(result.params),
        "tainted": list(result.tainted),
        "observations": [observation_form(observation) for observation in result.observations],
    }
    return canonical(form)


def result_from_json(text: str) -> Result:
    """The result in that line."""
    fields = _object(_parsed(text))
    try:
        plain = {name: kind(cast(str, fields[name])) for name, kind in _PLAIN.items()}
        return Result(
            target=target_of(fields["target"]),
            params=pairs_of(fields["params"]),
            tainted=tuple(str(name) for name in _list(fields, "tainted")),
            observations=tuple(observation_of(form) for form in _list(fields, "observations")),
            **plain,  # type: ignore[arg-type]  # names and kinds come from the table below
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"not a result: {type(error).__name__}: {error}") from error


def target_form(target: Target) -> dict[str, Json]:
    """A target as a JSON object."""
    return dict(zip(_TARGET, _fields_of(target), strict=True))


def target_of(form: Json) -> Target:
    """The target that `target_form` wrote."""
    fields = _object(form)
    try:
        return Target(*(kind(cast(str, fields[name])) for name, kind in _TARGET.items()))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"not a target: {type(error).__name__}: {error}") from error


def target_record(
    target: Target, vantage: Vantage, observations: Sequence[Observation], evidence: Iterable[Result] = ()
) -> str:
    """The public record: everything that is known about one target from one vantage, as one line.

    `observations` are merged verdicts, whose `trials` are the single readings; `evidence` are the results they were
    read from, by which a trial's frames get the numbers that Wireshark shows.
    """
    results = {result.trace_id: result for result in evidence}
    started = min((result.started_at for result in results.values()), default=0)
    asked = target_form(target)
    form: dict[str, Json] = {
        "schema": SCHEMA,
        "target": asked,
        "vantage": {"name": vantage.name, "region": vantage.region},
        "observations": {o.knob: _verdict_form(o, results) for o in observations},
    }
    if started:
        form["started_at"] = round(started / 1e9, DECIMALS)
    else:
        # What a capture shows was never asked for.
        del asked["path"]
    return canonical(form)


def _verdict_form(verdict: Observation, results: Mapping[str, Result]) -> Json:
    """A merged verdict; a reading that was never merged is its own only trial."""
    trials = verdict.trials or ((verdict,) if verdict.trace_id else ())
    form = _reading_form(verdict)
    form["text"] = verdict.text
    form["trials"] = [{**_reading_form(trial), **_frames_form(trial, results)} for trial in trials]
    return form


def _reading_form(observation: Observation) -> dict[str, Json]:
    outcome: dict[str, Json] = (
        {"reason": observation.reason} if observation.value is None else {"value": value_form(observation.value)}
    )
    return {
        **outcome,
        "unit": observation.unit,
        "grade": observation.grade,
        "method": observation.method,
        "details": pairs_form(observation.details),
    }


def _frames_form(trial: Observation, results: Mapping[str, Result]) -> dict[str, Json]:
    result = results.get(trial.trace_id)
    if result is None or not result.evidence_file:
        return {"trace": trial.trace_id}
    frames: list[Json] = [result.first_frame + n for n in trial.evidence]
    return {"trace": trial.trace_id, "evidence": {"file": result.evidence_file, "frames": frames}}


# Fields of a target and of a result that JSON carries as they are.
_TARGET: dict[str, type[str] | type[int]] = {
    "host": str, "address": str, "port": int, "path": str, "provider": str, "tag": str,
}  # fmt: skip
_PLAIN: dict[str, type[str] | type[int]] = {
    "trace_id": str, "vantage": str, "probe": str, "started_at": int, "ending": str, "evidence_file": str,
    "evidence_offset": int, "evidence_end": int, "first_frame": int, "frames": int,
}  # fmt: skip
_fields_of: Callable[[Target], tuple[Json, ...]] = attrgetter(*_TARGET)
_plain_of: Callable[[Result], tuple[Json, ...]] = attrgetter(*_PLAIN)


def _parsed(text: str) -> Json:
    try:
        return cast(Json, json.loads(text))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"not JSON: {error}") from error


def _object(form: Json) -> dict[str, Json]:
    if not isinstance(form, dict):
        raise BadInput(f"not a JSON object: {form!r}")
    return form


def _list(fields: dict[str, Json], name: str) -> list[Json]:
    found = fields.get(name, [])
    if not isinstance(found, list):
        raise BadInput(f"{name}: not a list: {found!r}")
    return found


def _text(fields: dict[str, Json], name: str, default: str = "") -> str:
    found = fields.get(name, default)
    if not isinstance(found, str):
        raise BadInput(f"{name}: not a text: {found!r}")
    return found


def rounded(value: float | None) -> Json:
    """Return a number for a report: six digits, more than it is known to; None for none and for no finite number."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return float(f"{value:.6g}")
