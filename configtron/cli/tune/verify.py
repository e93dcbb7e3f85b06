"""`configtron tune verify`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.errors import CONDITION, DONE, NOTHING, Missing

if TYPE_CHECKING:
    from configtron.cli.tune.desk import Desk
    from configtron.db.tuning import Tuning
    from configtron.records import Json
    from configtron.tune.journal import Act

COLUMNS = ("act", "driver", "scope", "knob", "applied", "found")


@click.command(short_help="Read everything back and compare it with what was applied.")
@form_options
def verify(form: str, output_file: str) -> int:
    """Read back from the kernel all that is in force, and show where it is not what was applied. Nothing is written.
    A knob that the kernel refuses at single connections is shown too, where the driver sees that.

    Exit code 1: something differs; 4: nothing is in force.
    """
    from configtron.cli.tune.desk import desk
    from configtron.db.glance import glance
    from configtron.report.lines import opened
    from configtron.report.tuning import write_rows
    from configtron.tune.journal import IN_FORCE

    def look(book: Tuning) -> tuple[int, int, list[dict[str, Json]]]:
        here = desk(book)
        acts = [act for act in book.acts(*IN_FORCE) if act.boot == here.boot and act.space in ("", here.space)]
        rows = [row for act in acts for row in _differences(here, act)]
        return len(acts), sum(len(act.rules.prefixes) for act in acts), rows

    acts, prefixes, rows = glance(settings().db, look)
    with opened(output_file) as out:
        write_rows(form, COLUMNS, rows, out)
    if settings().loudness >= 0:
        told = f"{acts} acts, {prefixes} prefixes read back: {len(rows)} differences"
        click.echo(told if acts else "nothing of ours is in force here", err=True)
    return CONDITION if rows else DONE if acts else NOTHING


def _differences(here: Desk, act: Act) -> Iterator[dict[str, Json]]:
    from configtron.cli.tune.acting import in_force
    from configtron.ports import Witness
    from configtron.records import value_form
    from configtron.tune.plan import advise

    driver = here.load(act.driver, act.place)
    if lack := driver.missing():
        raise Missing(f"act {act.id}: driver {act.driver}: {lack}")
    for wrong in advise(act.driver, act.rules, in_force(driver, [act.rules])):
        yield {
            "act": act.id, "driver": act.driver, "scope": wrong.scope, "knob": wrong.knob,
            "applied": value_form(wrong.was), "found": value_form(wrong.to),
        }  # fmt: skip
    if isinstance(driver, Witness):
        for knob, (count, why) in driver.refusals().items():
            yield {
                "act": act.id, "driver": act.driver, "scope": "connections", "knob": knob,
                "applied": None, "found": f"refused {count} times: {why}",
            }  # fmt: skip
