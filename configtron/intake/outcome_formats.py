# SPDX-License-Identifier: MIT
"""Outcomes as people bring them: JSON Lines or CSV, a line an outcome. Pure: lines in, outcomes out, with line numbers.

A line that cannot be read is refused and named (`imports/reading.py`); the others stay. An outcome that passes here
fits the store and a policy: no malformed text, no number without bounds.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Any

from configtron.fingerprint.features import plain_text, prefix_of
from configtron.intake.imports.reading import Reading
from configtron.learner.columns import ARM, ARMS
from configtron.learner.prefixes import network_of
from configtron.model.characteristics import CHARACTERISTICS
from configtron.model.errors import BadInput
from configtron.model.grid import setting
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Context, Decision, Outcome, Profile

# No visitor waits a day for a page: a file that has it wrote nanoseconds. And none is there within a microsecond.
LEAST_MS, MOST_MS = 0.001, 86_400_000.0
# Rarer than once in a billion no policy chooses; weighed by its inverse, one outcome would be all that counts.
LEAST_PROPENSITY = 1e-9
# A context's numbers -> the largest value of each: a client's line of a terabit, a round trip of an hour.
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
# The units in which programs write dates, by the size of the number: a unit's dates begin in 1973, ns. Smaller numbers
# are seconds.
FIRST_NS = 10**17
EPOCHS = ((1e17, 1), (1e14, 10**3), (1e11, 10**6))
# Characters of a word: more than any website's name or prefix has. And of a strange value that is shown.
LONGEST, SHOWN = 1024, 60
# The spelling of an address or a prefix: digits and points, or hexadecimal digits and colons, a zone or a length;
# or any word with a point or a colon that has a length.
LIKE_ADDRESS = re.compile(
    r"\s*(?:(?:\d+(?:\.\d+)+|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)(?:%[^/]*)?(?:/.*)?|[^/\s]*[.:][^/\s]*/\d+)\s*"
)
# Prefixes, and names of sites, that are remembered as good.
REMEMBERED = 50_000
# Cells of a CSV that have no value, as pandas, R and databases write them, in lower case; NA as a region is Namibia.
NO_VALUES = ("", "nan", "na", "n/a", "<na>", "none", "null")
# Controls, and halves of characters (JSON's escapes can write them).
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def outcomes(lines: Iterable[tuple[int, str]], source: str, reading: Reading) -> Iterator[Outcome]:
    """Yield each numbered line's outcome; JSON Lines if the first begins with a brace, else CSV with a header. A bad
    line is refused (`Reading.refuse`), and the next one read. Errors: `BadInput` for a header that is none."""
    numbered = iter(lines)
    at, first = next(numbered, (0, ""))
    if not at:
        return
    if first.lstrip().startswith("{"):
        forms = objects(chain([(at, first)], numbered), reading)
    else:
        where = f"{reading.name}, line {at}"
        columns = _columns(first, where)
        forms = ((number, _form(row)) for number, row in csv_rows(columns, at, numbered, reading))
    for number, form in forms:
        if (made := reading.read(number, outcome_of, form, source)) is not None:
            yield made


def objects(lines: Iterable[tuple[int, str]], reading: Reading) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON object of each line; refuse any other line."""
    for number, line in lines:
        try:
            form = json.loads(line)
        except (ValueError, RecursionError):
            reading.refuse(number, "not JSON")
            continue
        if isinstance(form, dict):
            yield number, form
        else:
            reading.refuse(number, "not an object")


def csv_rows(columns: list[str], at: int, lines: Iterable[tuple[int, str]], reading: Reading
             ) -> Iterator[tuple[int, dict[str, str]]]:  # fmt: skip
    """Yield the row of each line by its columns, without cells of no value (`NO_VALUES`); refuse a line that is none.
    at: the header's."""
    reached = [at]

    def counted() -> Iterator[str]:
        for number, line in lines:
            reached[0] = number
            yield line

    rows = csv.reader(counted(), skipinitialspace=True)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            reading.refuse(reached[0], f"not CSV ({error})")
            continue
        if row is None:
            return
        if len(row) != len(columns):
            reading.refuse(reached[0], f"{len(columns)} columns are wanted")
            continue
        yield reached[0], {key: text for key, text in zip(columns, row, strict=True)
                           if text.lower() not in NO_VALUES or (text, key) == ("NA", "region")}  # fmt: skip


def _columns(header: str, where: str) -> list[str]:
    """Return the words of a CSV's header. Errors: `BadInput`."""
    try:
        columns = next(csv.reader([header], skipinitialspace=True))
    except csv.Error as error:
        raise BadInput(f"{where}: not CSV ({error})") from error
    known = {*NUMBERS, *WORDS, "asn", *OF_DECISION, *KNOBS, "plt_ms", "measured_at"}
    see = "see: configtron learn import --help"
    if "plt_ms" not in columns:
        raise BadInput(f"{where}: plt_ms is not in the header; {see}")
    if strange := [word for word in columns if word not in known]:
        raise BadInput(f"{where}: {_shown(strange[0])} is no column of outcomes; {see}")
    if twice := [word for at, word in enumerate(columns) if word in columns[:at]]:
        raise BadInput(f"{where}: the header has {twice[0]} twice")
    return columns


def _form(given: Mapping[str, str]) -> dict[str, Any]:
    """Return a row of a CSV as the object that JSON Lines would have for it."""
    context = {key: given[key] for key in (*NUMBERS, *WORDS, "asn") if key in given}
    rest = {key: given[key] for key in (*OF_DECISION, "plt_ms", "measured_at") if key in given}
    return {"context": context, "profile": {key: text for key, text in given.items() if key in KNOBS}, **rest}


def outcome_of(form: Mapping[str, Any], source: str) -> Outcome:
    """Return an outcome from its fields as a line of JSON has them. Errors: `BadInput`."""
    known = {"context", "profile", *OF_DECISION, "plt_ms", "measured_at"}
    if strange := sorted(set(form) - known):
        raise BadInput(f"{_shown(strange[0])} is no field of an outcome; there is: {', '.join(sorted(known))}")
    plt_ms = took_of(form.get("plt_ms"))
    propensity = None if form.get("propensity") is None else propensity_of(form["propensity"])
    expected = None if form.get("expected_ms") is None else number_from("expected_ms", form["expected_ms"])
    profile = _profile(_object("profile", form))
    arm = form.get("arm") or ("static" if profile.settings else "default")
    if not isinstance(arm, str) or arm not in ARM:
        raise BadInput(f"no arm is called {_shown(arm)}; there is: {', '.join(ARMS)}")
    class_id = _word("class", form["class"]) if form.get("class") is not None else ""
    decision = Decision(context_of(_object("context", form)), class_id, profile, arm, expected, propensity)
    at = form.get("measured_at") or 0
    # A simulation counts nanoseconds from its beginning.
    dated = _whole if source == "sim" or str(at) == "0" else epoch_ns
    return Outcome(decision, plt_ms, dated("measured_at", at) or 0, source)


def took_of(value: Any, name: str = "plt_ms") -> float:
    """Return a page load time, ms. Errors: `BadInput`."""
    if value is None:
        raise BadInput(f"{name} is missing")
    if not LEAST_MS <= (took_ms := number_from(name, value)) <= MOST_MS:
        what = f"a page load time is from {LEAST_MS} ms to {MOST_MS:.0f}, a day"
        raise BadInput(f"{name} is {_shown(value)}; {what}")
    return took_ms


def epoch_ns(key: str, value: Any, of_text: Callable[[str], int] | None = None) -> int:
    """Return a date as nanoseconds since the epoch: the rule of all readers. A number is seconds, ms, us or ns by its
    size (`EPOCHS`), and may be text; other text is of `of_text`. Errors: `BadInput` for none of 1973 to 2262."""
    number = value
    if isinstance(value, str):
        try:
            number = int(value) if value.strip().isdigit() else float(value)
        except ValueError:
            if of_text is not None:
                return of_text(value)
    found = 0
    if isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number):
        # a whole number has nanoseconds that a float loses
        found = round((int(number) if number == int(number) else number) * unit_ns(number))
    if not FIRST_NS <= found <= MOST_NS:
        raise BadInput(f"{key}: {_shown(value)} is no date of 1973 to 2262, in seconds, ms, us or ns")
    return found


def propensity_of(value: Any) -> float:
    """Return how likely a configuration was. Errors: `BadInput`."""
    propensity = number_from("propensity", value)
    if not LEAST_PROPENSITY <= propensity <= 1:
        raise BadInput(f"propensity is {_shown(value)}; it is a probability, from {LEAST_PROPENSITY} to 1")
    return propensity


def context_of(form: Mapping[str, Any]) -> Context:
    """Return a context from its features by name; numbers may be text. Errors: `BadInput`."""
    if strange := sorted(set(form) - {*NUMBERS, *WORDS, "asn"}):
        raise BadInput(f"{_shown(strange[0])} is no feature of a context; there is: {', '.join((*NUMBERS, *WORDS))}")
    given: dict[str, Any] = {key: number_of(key, form[key]) for key in NUMBERS if form.get(key) is not None}
    given |= {key: _word(key, form[key]) for key in WORDS if form.get(key) is not None}
    if "prefix" in given:
        given["prefix"] = _kept_prefix(given["prefix"])
    return Context(**given, asn=_whole("asn", form.get("asn"), MOST_ASN))


def number_of(key: str, value: Any) -> float:
    """Return a context's number of that name, from a number or text. Errors: `BadInput`."""
    number = number_from(key, value)
    if not 0 <= number <= NUMBERS[key]:
        share = ", a share" if key in SHARES else ""
        raise BadInput(f"{key} is {_shown(value)}; it is not negative and at most {NUMBERS[key]:.0f}{share}")
    return number


@lru_cache(REMEMBERED)
def site_of(name: str) -> str:
    """Return the name of a site if it can be kept and printed. Errors: `BadInput`."""
    return _word("site", name)


@lru_cache(REMEMBERED)
def _kept_prefix(prefix: str) -> str:
    """Return the prefix of an address; a prefix without the bits below its length; other words, which name clients,
    too, as they are. Errors: `BadInput` for text that is spelt as an address or a prefix and is none."""
    if address := plain_text(prefix):
        return prefix_of(address)
    if not LIKE_ADDRESS.fullmatch(prefix):
        return prefix
    network = network_of(prefix)
    if network is None:
        raise BadInput(f"prefix {_shown(prefix)} is no address and no prefix")
    return str(network)


def _object(key: str, form: Mapping[str, Any]) -> Mapping[str, Any]:
    found = form.get(key)
    if not isinstance(found, dict | None):
        raise BadInput(f"{key}: {_shown(found)} is no object")
    return found or {}


def _profile(form: Mapping[str, Any]) -> Profile:
    settings = {name: setting(name, value) for name, value in sorted(form.items())}
    return Profile("/".join(str(value).replace("/", "") for value in settings.values()), tuple(settings.items()))


def number_from(key: str, value: Any) -> float:
    """Return a finite number, from a number or text. Errors: `BadInput`."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise BadInput(f"{key}: {_shown(value)} is no number")
    return number


def unit_ns(number: float) -> int:
    """Return the nanoseconds of the unit of a date, by the size of the number."""
    return next((unit for least, unit in EPOCHS if number >= least), 10**9)


def _whole(key: str, value: Any, most: int = MOST_NS) -> int | None:
    """Return a whole number that may be text; None for none."""
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
    """Return text that can be kept and printed: no controls, no halves of characters (JSON's escapes can write
    them)."""
    if not isinstance(value, str) or len(value) > LONGEST:
        raise BadInput(f"{key}: {_shown(value)} is no word of at most {LONGEST} characters")
    if UNPRINTABLE.search(value):
        raise BadInput(f"{key}: {_shown(value)} has characters that no name has")
    return value


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "what is nested so deep"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
