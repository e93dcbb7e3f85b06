"""A plan as a file: JSON Lines, a line about the plan and one for each advice, as `plan -f jsonl` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from configtron.errors import BadInput
from configtron.records import Json, value_form, value_of
from configtron.tune.plan import Advice
from configtron.tuning import Place

if TYPE_CHECKING:
    from configtron.cli.tune.planning import Planned

KIND = "plan"


class Saved(NamedTuple):
    """A plan that was saved: by which driver, where, and the advice that is due."""

    driver: str
    place: Place
    held: int
    advices: list[Advice]


def lines(planned: Planned, place: Place) -> Iterable[dict[str, Json]]:
    """The plan, line by line."""
    counts: dict[str, Json] = dict(planned.counts())
    where: dict[str, Json] = {name: value for name, value in asdict(place).items() if value}
    yield {"kind": KIND, "driver": planned.driver.name, "place": where, "held": planned.held, "advices": counts}
    for advice, state in planned.advices:
        yield advice_form(advice, state)


def advice_form(advice: Advice, state: str) -> dict[str, Json]:
    """One advice."""
    return {
        "kind": "advice", "id": advice.id, "driver": advice.driver, "scope": advice.scope, "knob": advice.knob,
        "was": value_form(advice.was), "to": value_form(advice.to), "state": state,
    }  # fmt: skip


def saved(path: Path) -> Saved:
    """Read a plan back. An advice whose id is not its own was edited. Errors: `BadInput`."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or 'not text'}") from error
    forms = [_form(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not forms or forms[0].get("kind") != KIND:
        raise BadInput(f"{path}: not a plan; make one: configtron tune plan -f jsonl -o {path}")
    try:
        head = forms[0]
        advices = [_advice(path, number, form) for number, form in enumerate(forms[1:], 2)]
        due = [advice for advice, form in zip(advices, forms[1:], strict=True) if form["state"] == "due"]
        words = [word for one in due for word in (one.driver, one.scope, one.knob)]
        words += [head["driver"], *head["place"].values()]
        if wrong := next((word for word in words if not isinstance(word, str)), None):
            raise TypeError(f"{wrong!r} is no word")
        return Saved(head["driver"], Place(**head["place"]), int(head["held"]), due)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise BadInput(f"{path}: not a plan ({type(error).__name__}: {error})") from error


def _form(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        form = json.loads(line)
    except ValueError as error:
        raise BadInput(f"{path}: line {number}: not JSON") from error
    if not isinstance(form, dict):
        raise BadInput(f"{path}: line {number}: not an object")
    return form


def _advice(path: Path, number: int, form: dict[str, Any]) -> Advice:
    was, to = (None if form[end] is None else value_of(form[end]) for end in ("was", "to"))
    advice = Advice(form["driver"], form["scope"], form["knob"], was, to)
    if advice.id != form["id"]:
        raise BadInput(f"{path}: line {number}: advice {form['id']} was edited; lines may be taken out, not changed")
    return advice
