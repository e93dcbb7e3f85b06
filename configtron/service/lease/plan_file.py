# SPDX-License-Identifier: MIT
"""A plan as a file: JSON Lines, one about the plan and one for each piece of advice, as `plan -f jsonl` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from configtron.model.errors import BadInput
from configtron.model.nouns import Value
from configtron.model.records import Json, value_form, value_of
from configtron.model.tuning import Place
from configtron.service.lease.planner import DUE, FROZEN, MUTED, Planned
from configtron.tune.listeners import listeners_text
from configtron.tune.plan import Advice

KIND = "plan"
PLACE = {field.name for field in fields(Place)}
ADVICE = ("driver", "scope", "knob", "id", "was", "to", "state")


class SavedPlan(NamedTuple):
    """A plan read from a file: its driver, its place, prefixes held back, and the advice that is due."""

    driver: str
    place: Place
    held: int
    advices: list[Advice]


def lines(planned: Planned, place: Place) -> Iterable[dict[str, Json]]:
    """Yield the plan, line by line."""
    counts: dict[str, Json] = dict(planned.counts())
    where: dict[str, Json] = {name: value for name, value in asdict(place).items() if value}
    yield {"kind": KIND, "driver": planned.driver.name, "place": where, "held": planned.held, "advices": counts}
    for advice, state in planned.judged():
        yield advice_form(advice, state, planned.untouched)


def advice_form(advice: Advice, state: str, untouched: Mapping[str, Value] = MappingProxyType({})) -> dict[str, Json]:
    """Return one advice as JSON; `now`: the kernel's own value where no profile of ours set the knob before."""
    now: dict[str, Json] = {}
    if advice.was is None and advice.knob in untouched:
        now = {"now": value_form(untouched[advice.knob])}
    return now | {
        "kind": "advice", "id": advice.id, "driver": advice.driver, "scope": advice.scope, "knob": advice.knob,
        "was": value_form(advice.was), "to": value_form(advice.to), "state": state,
    }  # fmt: skip


def saved(path: Path) -> SavedPlan:
    """Read a plan back. An advice whose id is not its own was edited. Errors: `BadInput`."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or 'not text'}") from error
    forms = [_form(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not forms or forms[0].get("kind") != KIND:
        raise BadInput(f"{path}: not a plan; make one: configtron tune plan -f jsonl -o {path}")
    driver, place, held = _head(path, forms[0])
    advices = [_advice(path, number, form) for number, form in enumerate(forms[1:], 2)]
    return SavedPlan(driver, place, held, [advice for advice in advices if advice is not None])


def _head(path: Path, form: dict[str, Any]) -> tuple[str, Place, int]:
    """Return driver, place and prefixes held back from the first line. Errors: `BadInput`."""
    driver, where, held = form.get("driver"), form.get("place"), form.get("held")
    if not isinstance(driver, str):
        raise BadInput(f"{path}: line 1: names no driver; make a new plan")
    if not isinstance(where, dict) or not where.keys() <= PLACE or not all(isinstance(v, str) for v in where.values()):
        raise BadInput(f"{path}: line 1: the place is not {', '.join(sorted(PLACE))} as words; make a new plan")
    if not isinstance(held, int) or held < 0:
        raise BadInput(f"{path}: line 1: held is no number of prefixes; make a new plan")
    if (listen := where.get("listen")) and (wrong := _unlike(listen)):
        raise BadInput(f"{path}: line 1: {wrong}; make a new plan")
    return driver, Place(**where), held


def _unlike(listen: str) -> str:
    """Return why listeners are not written as a plan writes them; "" if they are."""
    try:
        same = listeners_text([listen]) == listen
    except BadInput as error:
        return str(error)
    return "" if same else f"--listen {listen!r}: not in order"


def _form(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        form = json.loads(line)
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{path}: line {number}: not JSON") from error
    if not isinstance(form, dict):
        raise BadInput(f"{path}: line {number}: not an object")
    return form


def _advice(path: Path, number: int, form: dict[str, Any]) -> Advice | None:
    """Return the advice of a line; None if it is not due. Errors: `BadInput`."""
    words = [form.get(name) for name in ("driver", "scope", "knob", "id")]
    if lacking := [name for name in ADVICE if name not in form]:
        raise BadInput(f"{path}: line {number}: an advice without {lacking[0]}; make a new plan")
    edited = f"{path}: line {number}: advice {form['id']} was edited; lines may be taken out, not changed"
    if not all(isinstance(word, str) for word in words) or form["state"] not in (DUE, MUTED, FROZEN):
        raise BadInput(edited)
    try:
        was, to = (None if form[end] is None else value_of(form[end]) for end in ("was", "to"))
    except BadInput as error:
        raise BadInput(edited) from error
    advice = Advice(form["driver"], form["scope"], form["knob"], was, to)
    if advice.id != form["id"]:
        raise BadInput(edited)
    return advice if form["state"] == DUE else None
