# SPDX-License-Identifier: MIT
"""Facts of a manager's database, read with care: other programs and failing disks write there too.

Rules for this file: pure; a fact that is not of the form in which it was stored is an error that names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from configtron.model.errors import BadInput
from configtron.model.records import Json

# How the name of an agent's fact begins.
AGENT = "agent "
# Members of an agent's fact: those that are numbers, texts, and spans of settings.
NUMBERS = ("heard_s", "refused", "waiting", "dropped", "skew_s")
TEXTS = ("held", "reason", "rejected", "release", "driver", "frozen")
SPANS = ("bounds", "reaches")
# s since 1970 that are a date of four digits.
LATEST_S = 2**37
# Characters of a map's place, TERM.VERSION: two numbers below 2^63.
PLACE_LENGTH = 39


def agent_states(facts: Mapping[str, str], where: object) -> dict[str, dict[str, Json]]:
    """Return what is kept of each agent, by name. where: the database. Errors: `BadInput` for a damaged one."""
    return {name.removeprefix(AGENT): agent_state(name, text, where) for name, text in facts.items()
            if name.startswith(AGENT)}  # fmt: skip


def agent_state(name: str, text: str, where: object) -> dict[str, Json]:
    """Return one agent's fact as an object whose known members are of their kinds. Errors: `BadInput`."""
    try:
        form = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise damaged(name, where) from error
    if not isinstance(form, dict) or not _fits(form):
        raise damaged(name, where)
    return form


def damaged(name: str, where: object) -> BadInput:
    """Return the error for a damaged fact."""
    remedy = "restore a copy of the database, or name another one: configtron --db FILE"
    return BadInput(f"{where}: the manager's fact {name[:60]!r} is damaged; {remedy}")


def whole_fact(facts: Mapping[str, str], name: str, where: object) -> int:
    """Return a fact that is a whole number, 0 where it is absent. Errors: `BadInput`."""
    text = facts.get(name, "0")
    if not _is_whole(text):
        raise damaged(name, where)
    return int(text)


def place_fact(facts: Mapping[str, str], name: str, where: object) -> tuple[int, int] | None:
    """Return a fact that names a map, TERM.VERSION; None: there is none. Errors: `BadInput`."""
    if not (text := facts.get(name, "")):
        return None
    term, _, version = text.partition(".") if isinstance(text, str) else ("", "", "")
    if not _is_whole(term) or not _is_whole(version):
        raise damaged(name, where)
    return int(term), int(version)


def _is_whole(text: object) -> bool:
    fits = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < PLACE_LENGTH // 2
    return bool(fits)


def _fits(form: Mapping[str, object]) -> bool:
    numbers = all(_number(form.get(name, 0)) for name in NUMBERS)
    texts = all(isinstance(form.get(name, ""), str) for name in TEXTS)
    return numbers and texts and _is_date(form.get("heard_s", 0)) and all(_spans(form.get(name, [])) for name in SPANS)


def _number(value: object) -> bool:
    # Not NaN, not infinite: they become dates and counts.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**62


def _is_date(seconds: object) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < LATEST_S


def _spans(value: object) -> bool:
    """Return whether a value is a list of [knob, least, most, [value, ...]]."""
    return isinstance(value, list) and all(isinstance(row, list) and len(row) == 4 and _span(*row) for row in value)


def _span(knob: object, least: object, most: object, values: object) -> bool:
    ends = all(end is None or _number(end) for end in (least, most))
    listed = isinstance(values, list) and all(isinstance(one, str) for one in values)
    return isinstance(knob, str) and ends and listed
