# SPDX-License-Identifier: MIT
"""Outcomes as people bring them: JSON Lines or CSV, a line an outcome. Pure: lines in, outcomes out, with line numbers.

A line that cannot be read raises `BadInput` and names it; whoever reads decides what becomes of those before it. What
passes here is what the store can keep and a policy can learn from: no text that is none, no number without bounds.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from configtron.characteristics import CHARACTERISTICS
from configtron.errors import BadInput
from configtron.grid import setting
from configtron.knobs import KNOBS
from configtron.learner.columns import ARM, ARMS
from configtron.nouns import Context, Decision, Outcome, Profile

# Nobody waits a day for a page: whoever says so wrote nanoseconds. And none is there within a microsecond.
LEAST_MS, MOST_MS = 0.001, 86_400_000.0
# Rarer than once in a billion nobody's policy chooses; weighed by its inverse, one outcome would be all that counts.
LEAST_PROPENSITY = 1e-9
# What a context knows in numbers -> the most it can be: a client's line of a terabit, a round trip of an hour.
MOST_KBPS, MOST_RTT_MS = 1e9, 3_600_000.0
NUMBERS = {
    "bandwidth_kbps": MOST_KBPS, "rtt_ms": MOST_RTT_MS, "loss": 1.0, **{row.name: row.most for row in CHARACTERISTICS},
}  # fmt: skip
WORDS = ("site", "prefix", "region", "device", "browser")
# Of which each number is a part of one: more than 1 is a percentage.
SHARES = ("loss", "delivery_share")
OF_DECISION = ("arm", "class", "propensity", "expected_ms")
# Numbers of networks have 32 bits (RFC 6793); the store's integers 63 and a sign, enough nanoseconds for the year 2262.
MOST_ASN, MOST_NS = 2**32 - 1, 2**63 - 1
# Characters of a word: more than any website's name or prefix has. And of a strange value that is shown.
LONGEST, SHOWN = 1024, 60


def outcomes(lines: Iterable[str], source: str, name: str) -> Iterator[Outcome]:
    """Each line's outcome; JSON Lines if the first line that is not empty begins with a brace, else CSV with a
    header. Bytes that are no UTF-8 come as lone surrogates (`errors="surrogateescape"`): their line is refused."""
    numbered = _numbered(lines, name)
    at, first = next(numbered, (0, ""))
    if not at:
        return
    # What spreadsheets put before a header: the byte order mark.
    first = first.removeprefix("\ufeff")
    json_lines = first.lstrip().startswith("{")
    forms = _json(chain([(at, first)], numbered), name) if json_lines else _csv(first, at, numbered, name)
    for number, form in forms:
        try:
            yield _outcome(form, source)
        except BadInput as error:
            raise BadInput(f"{name}, line {number}: {error}") from error


def _numbered(lines: Iterable[str], name: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 1):
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise BadInput(f"{name}, line {number}: not UTF-8; write the file in that") from error
        if line.strip():
            yield number, line


def _json(lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        try:
            form = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{name}, line {number}: not JSON") from error
        if not isinstance(form, dict):
            raise BadInput(f"{name}, line {number}: not an object")
        yield number, form


def _csv(header: str, at: int, lines: Iterable[tuple[int, str]], name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reached = [at]

    def counted() -> Iterator[str]:
        yield header
        for number, line in lines:
            reached[0] = number
            yield line

    reader = csv.DictReader(counted())
    try:
        columns = _columns(reader.fieldnames or (), f"{name}, line {at}")
        for row in reader:
            if None in row or None in row.values():
                raise BadInput(f"{name}, line {reached[0]}: {len(columns)} columns are wanted")
            yield reached[0], _form({key: text for key, text in row.items() if text != ""})
    except csv.Error as error:
        raise BadInput(f"{name}, line {reached[0]}: not CSV ({error})") from error


def _columns(columns: Iterable[str], where: str) -> list[str]:
    known, columns = {*NUMBERS, *WORDS, "asn", *OF_DECISION, *KNOBS, "plt_ms", "measured_at"}, list(columns)
    see = "see: configtron learn import --help"
    if "plt_ms" not in columns:
        raise BadInput(f"{where}: plt_ms is not in the header; {see}")
    if strange := [word for word in columns if word not in known]:
        raise BadInput(f"{where}: {_shown(strange[0])} is no column of outcomes; {see}")
    if twice := [word for at, word in enumerate(columns) if word in columns[:at]]:
        raise BadInput(f"{where}: the header has {twice[0]} twice")
    return columns


def _form(given: Mapping[str, str]) -> dict[str, Any]:
    """A row of a CSV as the object that JSON Lines would have for it."""
    context = {key: given[key] for key in (*NUMBERS, *WORDS, "asn") if key in given}
    rest = {key: given[key] for key in (*OF_DECISION, "plt_ms", "measured_at") if key in given}
    return {"context": context, "profile": {key: text for key, text in given.items() if key in KNOBS}, **rest}


def _outcome(form: Mapping[str, Any], source: str) -> Outcome:
    known = {"context", "profile", *OF_DECISION, "plt_ms", "measured_at"}
    if strange := sorted(set(form) - known):
        raise BadInput(f"{_shown(strange[0])} is no field of an outcome; there is: {', '.join(sorted(known))}")
    if form.get("plt_ms") is None:
        raise BadInput("plt_ms is missing")
    plt_ms = _number("plt_ms", form["plt_ms"])
    if not LEAST_MS <= plt_ms <= MOST_MS:
        what = f"a page load time is from {LEAST_MS} ms to {MOST_MS:.0f}, a day"
        raise BadInput(f"plt_ms is {_shown(form['plt_ms'])}; {what}")
    propensity = None if form.get("propensity") is None else _number("propensity", form["propensity"])
    if propensity is not None and not LEAST_PROPENSITY <= propensity <= 1:
        raise BadInput(f"propensity is {_shown(form['propensity'])}; it is a probability, from {LEAST_PROPENSITY} to 1")
    expected = None if form.get("expected_ms") is None else _number("expected_ms", form["expected_ms"])
    profile = _profile(_object("profile", form))
    arm = form.get("arm") or ("static" if profile.settings else "default")
    if not isinstance(arm, str) or arm not in ARM:
        raise BadInput(f"no arm is called {_shown(arm)}; there is: {', '.join(ARMS)}")
    class_id = _word("class", form["class"]) if form.get("class") is not None else ""
    decision = Decision(context_of(_object("context", form)), class_id, profile, arm, expected, propensity)
    return Outcome(decision, plt_ms, _whole("measured_at", form.get("measured_at"), MOST_NS) or 0, source)


def context_of(form: Mapping[str, Any]) -> Context:
    """A context from its features by name; numbers may be text. Errors: `BadInput`."""
    if strange := sorted(set(form) - {*NUMBERS, *WORDS, "asn"}):
        raise BadInput(f"{_shown(strange[0])} is no feature of a context; there is: {', '.join((*NUMBERS, *WORDS))}")
    given: dict[str, Any] = {key: _number(key, form[key]) for key in NUMBERS if form.get(key) is not None}
    for key, value in given.items():
        if not 0 <= value <= NUMBERS[key]:
            share = ", a share" if key in SHARES else ""
            raise BadInput(f"{key} is {_shown(form[key])}; it is not negative and at most {NUMBERS[key]:.0f}{share}")
    given |= {key: _word(key, form[key]) for key in WORDS if form.get(key) is not None}
    return Context(**given, asn=_whole("asn", form.get("asn"), MOST_ASN))


def _object(key: str, form: Mapping[str, Any]) -> Mapping[str, Any]:
    found = form.get(key)
    if not isinstance(found, dict | None):
        raise BadInput(f"{key}: {_shown(found)} is no object")
    return found or {}


def _profile(form: Mapping[str, Any]) -> Profile:
    settings = {name: setting(name, value) for name, value in sorted(form.items())}
    return Profile("/".join(str(value).replace("/", "") for value in settings.values()), tuple(settings.items()))


def _number(key: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{key}: {_shown(value)} is no number")
    return number


def _whole(key: str, value: Any, most: int) -> int | None:
    """A whole number that may be text; None for none."""
    if value is None:
        return None
    number = value
    if isinstance(value, str | float):
        try:
            number = int(value) if isinstance(value, str) or value.is_integer() else None
        except ValueError:
            number = None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise BadInput(f"{key}: {_shown(value)} is no whole number from 0 to {most}")
    return number


def _word(key: str, value: Any) -> str:
    """Text that can be kept and printed: no controls, no halves of characters (JSON's escapes can write them)."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise BadInput(f"{key}: {_shown(value)} is no word of at most {LONGEST} characters")
    if any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 or 0xD800 <= ord(letter) < 0xE000 for letter in value):
        raise BadInput(f"{key}: {_shown(value)} has characters that no name has")
    return value


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "what is nested so deep"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
