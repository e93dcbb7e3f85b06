# SPDX-License-Identifier: MIT
"""The expected results and records of a recording: as they were written when it was made.

    observation.json   beside a recording that is kept: a JSON array, one reading a line, so that changes can be read;
                       its records leave out the trials, which are the results before them
    results.jsonl      beside the packets of a run: its journal
    any file           named by the user, in either form, or what `probe -f jsonl` and `probe export` write

A result (one probe call) is known by its trace; a record (all verdicts on one target from one vantage) by both names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

from configtron.model.errors import BadInput
from configtron.model.nouns import Vantage
from configtron.model.records import Json, Result, canonical, result_from_json

KEPT, JOURNAL = "observation.json", "results.jsonl"
Form = dict[str, Json]
# A record's name: the target's host, the vantage.
Name = tuple[str, str]
# What a file that is something else comes to, brackets in brackets without end among it.
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, BadInput)


class ExpectedResults(NamedTuple):
    """Lines by name, as canonical JSON; `bare` are results that never had packets."""

    results: dict[str, str]
    records: dict[Name, str]
    bare: tuple[Result, ...]


NOTHING = ExpectedResults({}, {}, ())


def beside(recording: Path) -> Path | None:
    """Return the file of expected results beside a recording, if there is one."""
    found = (recording.with_name(name) for name in (KEPT, JOURNAL))
    return next((path for path in found if path.is_file()), None)


def read(path: Path, recording: Path) -> ExpectedResults:
    """Return the expected results of that recording from that file. Errors: `BadInput`."""
    results: dict[str, str] = {}
    records: dict[Name, str] = {}
    bare = []
    try:
        for form in _forms(path):
            if "schema" in form:
                records[name_of(form)] = _record(form)
                continue
            result = result_from_json(canonical(form))
            if Path(result.evidence_file).name == recording.name:
                results[result.trace_id] = canonical(form)
            elif not result.frames:
                bare.append(result)
    except UNREADABLE as error:
        raise BadInput(f"{path}: neither results nor records of configtron: {_why(error)}") from error
    return ExpectedResults(results, records, tuple(bare))


def read_records(path: Path, vantage: str) -> dict[Name, str]:
    """Return the records of one vantage in a file. Errors: `BadInput`."""
    mark = f'"vantage":{{"name":{json.dumps(vantage, ensure_ascii=False)},'
    found = {}
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                if mark in line:
                    form = json.loads(line)
                    found[name_of(form)] = _record(form)
    except UNREADABLE as error:
        raise BadInput(f"{path}: no records of `configtron probe -f jsonl`: {_why(error)}") from error
    return found


def name_of(form: Form) -> Name:
    """Return the host and the vantage of a record."""
    target, vantage = cast(Form, form["target"]), cast(Form, form["vantage"])
    return str(target["host"]), str(vantage["name"])


def vantage_of(record: str) -> Vantage:
    """Return the vantage that a record names."""
    form = json.loads(record)["vantage"]
    return Vantage(form["name"], form["region"])


def _record(form: Form) -> str:
    """Return a record as canonical JSON, or raise if it is none."""
    text = canonical(form)
    vantage_of(text)
    if not all(isinstance(verdict, dict) for verdict in cast(Form, form["observations"]).values()):
        raise TypeError("a verdict is no object")
    return text


def _why(error: BaseException) -> str:
    return str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"


def _forms(path: Path) -> Iterator[Form]:
    with path.open(encoding="utf-8") as file:
        if file.read(1) == "[":
            file.seek(0)
            yield from cast(list[Form], json.load(file))
            return
        file.seek(0)
        for line in file:
            yield cast(Form, json.loads(line))


def write(path: Path, results: Iterable[str], records: Iterable[str]) -> None:
    """Write them: JSON Lines under that suffix, else an array with one reading a line. Errors: `BadInput`."""
    if path.suffix == ".jsonl":
        text = "".join(line + "\n" for line in (*results, *records))
    else:
        lines = (*results, *map(without_trials, records))
        text = "[\n" + ",\n".join(spread(json.loads(line)) for line in lines) + "\n]\n"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from error


def without_trials(record: str) -> str:
    """Return a record without its trials: they repeat the results beside them."""
    form = json.loads(record)
    for verdict in form["observations"].values():
        verdict.pop("trials", None)
    return canonical(form)


def has_trials(record: str) -> bool:
    """Return whether a record shows the readings behind its verdicts."""
    return any("trials" in verdict for verdict in json.loads(record)["observations"].values())


def spread(form: Form) -> str:
    """Return an object as JSON with each of its readings on a line of its own."""
    readings = form.pop("observations")
    if isinstance(readings, dict):
        rows = [f" {canonical(knob)}:{canonical(reading)}" for knob, reading in readings.items()]
        inside = "{\n" + ",\n".join(rows) + "}"
    else:
        rows = [f" {canonical(reading)}" for reading in cast(list[Json], readings)]
        inside = "[\n" + ",\n".join(rows) + "]" if rows else "[]"
    return f'{canonical(form)[:-1]},"observations":{inside}}}'
