"""Outcomes as people bring them: JSON Lines or CSV, a line an outcome. Pure: lines in, outcomes out, with line numbers.

A batch that cannot be read raises `BadInput` at its line; whoever reads decides what becomes of those before it.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from configtron.errors import BadInput
from configtron.knobs import KNOBS
from configtron.nouns import Context, Decision, Outcome, Profile, Value

NUMBERS = ("bandwidth_kbps", "rtt_ms", "loss", "min_rtt_ms", "jitter_ms", "delivery_kbps")
WORDS = ("site", "prefix", "region", "device")
OF_DECISION = ("arm", "class", "propensity", "expected_ms")


def outcomes(lines: Iterable[str], source: str, name: str) -> Iterator[Outcome]:
    """Each line's outcome; JSON Lines if the first line begins with a brace, else CSV with a header."""
    left = iter(lines)
    first = next((line for line in left if line.strip()), None)
    if first is None:
        return
    every = chain([first], left)
    forms = _json(every, name) if first.lstrip().startswith("{") else _csv(every, name)
    for number, form in forms:
        try:
            yield _outcome(form, source)
        except (BadInput, TypeError, ValueError, AttributeError) as error:
            raise BadInput(f"{name}, line {number}: {error}") from error


def _json(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            form = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{name}, line {number}: not JSON") from error
        if not isinstance(form, dict):
            raise BadInput(f"{name}, line {number}: not an object")
        yield number, form


def _csv(lines: Iterable[str], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(lines)
    columns = reader.fieldnames or ()
    known = {*NUMBERS, *WORDS, "asn", *OF_DECISION, *KNOBS, "plt_ms", "measured_at"}
    if "plt_ms" not in columns or (strange := [word for word in columns if word not in known]):
        lacks = "plt_ms is not in the header" if "plt_ms" not in columns else f"{strange[0]!r} is no column of outcomes"
        raise BadInput(f"{name}, line 1: {lacks}; see: configtron learn import --help")
    for row in reader:
        if None in row or None in row.values():
            raise BadInput(f"{name}, line {reader.line_num}: {len(columns)} columns are wanted")
        given = {key: text for key, text in row.items() if text != ""}
        context = {key: given[key] for key in (*NUMBERS, *WORDS, "asn") if key in given}
        profile = {key: _value(text) for key, text in given.items() if key in KNOBS}
        rest = {key: given[key] for key in (*OF_DECISION, "plt_ms", "measured_at") if key in given}
        yield reader.line_num, {"context": context, "profile": profile, **rest}


def _value(text: str) -> Value:
    try:
        return int(text)
    except ValueError:
        return text


def _outcome(form: Mapping[str, Any], source: str) -> Outcome:
    known = {"context", "profile", *OF_DECISION, "plt_ms", "measured_at"}
    if strange := sorted(set(form) - known):
        raise BadInput(f"{strange[0]!r} is no field of an outcome; there is: {', '.join(sorted(known))}")
    if "plt_ms" not in form:
        raise BadInput("plt_ms is missing")
    plt_ms = _number("plt_ms", form["plt_ms"])
    propensity = None if form.get("propensity") is None else _number("propensity", form["propensity"])
    if plt_ms <= 0 or (propensity is not None and not 0 < propensity <= 1):
        raise BadInput("plt_ms is above 0 ms, a propensity above 0 and at most 1")
    settings = _profile(form.get("profile") or {})
    expected = None if form.get("expected_ms") is None else _number("expected_ms", form["expected_ms"])
    arm = form.get("arm") or ("static" if settings.settings else "default")
    context = context_of(form.get("context") or {})
    decision = Decision(context, _word("class", form.get("class", "")), settings, str(arm), expected, propensity)
    return Outcome(decision, plt_ms, int(form.get("measured_at", 0)), source)


def context_of(form: Mapping[str, Any]) -> Context:
    """A context from its features by name; numbers may be text. Errors: `BadInput`."""
    if strange := sorted(set(form) - {*NUMBERS, *WORDS, "asn"}):
        raise BadInput(f"{strange[0]!r} is no feature of a context")
    given: dict[str, Any] = {key: _number(key, form[key]) for key in NUMBERS if form.get(key) is not None}
    if any(value < 0 for value in given.values()) or given.get("loss", 0.0) > 1:
        raise BadInput("a context's numbers are not negative, and loss is a share")
    given |= {key: _word(key, form[key]) for key in WORDS if form.get(key) is not None}
    if form.get("asn") is not None:
        given["asn"] = int(form["asn"])
    return Context(**given)


def _profile(form: Mapping[str, Any]) -> Profile:
    if unknown := sorted(set(form) - KNOBS.keys()):
        raise BadInput(f"no knob is called {unknown[0]!r}; `configtron tune doctor` lists them")
    for name, value in form.items():
        if not isinstance(value, int | float | str):
            raise BadInput(f"{name}: {value!r} is no setting")
    return Profile("/".join(str(value).replace("/", "") for _, value in sorted(form.items())), tuple(form.items()))


def _number(key: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{key}: {value!r} is no number")
    return number


def _word(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadInput(f"{key}: {value!r} is no word")
    return value
