# SPDX-License-Identifier: MIT
"""Rules, places and profiles as text: the JSON of the database, of plan files and of everything printed.

Rules for this file: equal values give equal bytes; what cannot be read back raises `BadInput`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any, cast

from configtron.model.errors import BadInput
from configtron.model.knobs import KNOBS
from configtron.model.nouns import Profile, Value
from configtron.model.records import Json, canonical, pairs_form, pairs_of, value_form
from configtron.model.tuning import MANY, Changes, Place, Rules

# Names of congestion controls, disciplines, versions of protocols.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./+-]*")
# How the member of prefixes begins, and its shortest row: "::/0":"a",
PREFIXES, SHORTEST = '"prefixes":{', 11
# The one unit of knobs that is not counted in whole ones.
TIME = "s"


def rules_text(rules: Rules) -> str:
    """Rules as one line of JSON."""
    return _text_of(rules, {"default": rules.default})


# An act's rules are read several times by one command, and are the same bytes each time.
@lru_cache(4)
def rules_of(text: str) -> Rules:
    """The rules that `rules_text` wrote."""
    form = _form_of(text)
    return Rules(form["profiles"], form["prefixes"], form["default"])


def changes_text(changes: Changes) -> str:
    """Changes of rules as one line of JSON."""
    dropped: list[Json] = [*sorted(changes.dropped_profiles)]
    gone: list[Json] = [*sorted(changes.dropped_prefixes)]
    return _text_of(changes, {"default": changes.default, "dropped_profiles": dropped, "dropped_prefixes": gone})


def changes_of(text: str) -> Changes:
    """The changes that `changes_text` wrote."""
    form = _form_of(text)
    dropped, gone = frozenset(form["dropped_profiles"]), frozenset(form["dropped_prefixes"])
    return Changes(form["profiles"], form["prefixes"], dropped, gone, form["default"])


def _text_of(have: Rules | Changes, more: dict[str, Json]) -> str:
    """Return profiles, prefixes and more as a JSON object, many prefixes by their columns."""
    profiles: Json = {name: pairs_form(profile.settings) for name, profile in have.profiles.items()}
    form: dict[str, Json] = {"profiles": profiles, **more}
    if len(have.prefixes) < MANY:
        return canonical({**form, "prefixes": dict(have.prefixes)})
    from configtron.model.prefix_columns import columns_of, json_of

    before, _, behind = canonical({**form, "prefixes": {}}).partition(PREFIXES + "}")
    return f"{before}{PREFIXES}{json_of(columns_of(have.prefixes))}}}{behind}"


def _form_of(text: str) -> dict[str, Any]:
    """Return the object that `_text_of` wrote, with its profiles, and many prefixes as columns."""
    begin = text.find(PREFIXES) + len(PREFIXES)
    end = text.find("}", begin)
    columns, rest = None, text
    if end - begin > MANY * SHORTEST and begin >= len(PREFIXES):
        from configtron.model.prefix_columns import columns_of_json

        columns, rest = columns_of_json(text[begin:end]), text[:begin] + text[end:]
    form = cast(dict[str, Any], json.loads(text if columns is None else rest))
    form["profiles"] = {name: Profile(name, pairs_of(settings)) for name, settings in form["profiles"].items()}
    return form if columns is None else {**form, "prefixes": columns}


def place_text(place: Place) -> str:
    """A place as one line of JSON; absent fields are left out."""
    return canonical({name: value for name, value in asdict(place).items() if value})


@lru_cache(64)
def place_of(text: str) -> Place:
    """The place that `place_text` wrote. Errors: `BadInput`."""
    try:
        return Place(**json.loads(text))
    except (TypeError, ValueError) as error:
        raise BadInput(f"not a place: {text!r}") from error


def value_text(value: Value | None) -> str:
    """A value as people write it: names bare, all else as JSON; "" for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value_form(value))


def settings_text(settings: tuple[tuple[str, Value], ...]) -> str:
    """Settings as they are typed: KNOB=VALUE, with spaces between."""
    return " ".join(f"{knob}={value_text(value)}" for knob, value in settings)


def setting_of(word: str) -> tuple[str, Value]:
    """A setting as typed, KNOB=VALUE, the value with the type that the knob has. Errors: `BadInput`."""
    name, equals, text = word.partition("=")
    if not equals or not text:
        raise BadInput(f"{word!r} is no setting; write KNOB=VALUE, e.g. initcwnd=20")
    knob = KNOBS.get(name)
    if knob is None:
        raise BadInput(f"no knob is called {name!r}{_meant(name)}; `configtron tune doctor` lists what can be set")
    if any(isinstance(value, str) for value in (*knob.values, knob.default) if value is not None):
        # It goes into other programs' configuration: one word, which ends nothing there.
        if not NAME.fullmatch(text):
            raise BadInput(f"{word!r}: {name} takes a name: letters, digits and _ . / + -")
        return name, text
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if number != number or number in (float("inf"), float("-inf")):
            break
        if knob.unit != TIME and number != int(number):
            raise BadInput(f"{word!r}: {name} takes a whole number{f' of {knob.unit}' if knob.unit else ''}")
        return name, number if knob.unit == TIME else int(number)
    raise BadInput(f"{word!r}: {name} takes a number{f' of {knob.unit}' if knob.unit else ''}")


def _meant(name: str) -> str:
    """The knob that a misspelt name is most like; short names of the kernel's long ones too."""
    likely = [knob for knob in KNOBS if name and name in knob]
    return f" (did you mean {min(likely, key=len)}?)" if likely else ""


def named(settings: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Settings in canonical order."""
    return tuple(sorted(settings.items()))
