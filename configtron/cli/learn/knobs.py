# SPDX-License-Identifier: MIT
"""`configtron learn knobs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import click

from configtron.cli.completing import learned
from configtron.cli.learn.options import rounded, write
from configtron.cli.settings import settings
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE, BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable

    from configtron.learner.importance import DeadKnob
    from configtron.model.records import Json
    from configtron.service.learning.knobs import KnobEffects

EFFECT_COLUMNS = ("kind", "knob", "where", "median", "median_low", "median_high", "p95", "p95_low", "p95_high", "about")
# What an effect in one cell of a hundred is, of its root mean square over all.
RARE = 10.0


@click.command(short_help="Show which knobs matter, and which do nothing.")
@click.option(
    "--policy",
    "name",
    default="",
    metavar="POLICY",
    shell_complete=learned,
    help="By what this one has seen; `learn status` lists them.  [default: the one saved last]",
)
@click.option("--tensor", type=click.File("rb"), metavar="FILE", help="By this PLT-tensor.")
@form_options
def knobs(name: str, tensor: BinaryIO | None, form: str, output_file: str) -> int:
    """Show the knobs that are learned about, which of them do nothing and, on a tensor, what is lost without each.

    \b
    knob        its values, the default first, and where it is known to be without effect
    dead        no difference beyond noise in what was seen (by a policy, or a tensor with repeats): between how many
                pairs, and the largest effect that could have stayed unseen, which is 5 % at most: as root mean
                square over pairs of all cells, so that in one cell of a hundred it may be ten times that
    unexplored  what this policy was made without, or goes on without since outcomes proved it dead
    unproven    the same as dead, but a larger effect could have stayed unseen: more would tell
    importance  excess of the best configuration with this knob at its default over the best of all, median and p95
                over networks and sites, with 95 % intervals
    """
    from configtron.cli.learn.pace import Shown
    from configtron.model.tensor import read
    from configtron.service.learning.knobs import knobs_of_policy, knobs_of_tensor

    if name and tensor is not None:
        raise BadInput("--policy and --tensor are two answers; ask for one at a time")
    known = list(_table())
    if tensor is not None:
        found = knobs_of_tensor(read(tensor, tensor.name))
    else:
        found = knobs_of_policy(settings().db, name, Shown())
    write(form, output_file, EFFECT_COLUMNS, [*known, *_rows(found)])
    return DONE


def _table() -> Iterator[dict[str, Json]]:
    from configtron.model.grid import DEAD
    from configtron.model.knobs import TUNABLE
    from configtron.model.records import value_form

    for knob in TUNABLE:
        values = [knob.default, *(value for value in knob.values if value != knob.default)]
        dead = [f"dead{f' where {one.where} is {one.value}' if one.where else ''}: {one.reason}"
                for one in DEAD if one.knob == knob.name]  # fmt: skip
        about = "; ".join([", ".join(map(str, values)), *dead])
        yield {"kind": "knob", "knob": knob.name, "values": [value_form(one) for one in values], "about": about}


def _rows(found: KnobEffects) -> Iterator[dict[str, Json]]:
    names = ("median", "median_low", "median_high", "p95", "p95_low", "p95_high")
    for row in found.importance:
        yield {"kind": "importance", "knob": row.name, **{key: rounded(getattr(row, key)) for key in names}}
    for one in found.unexplored:
        where = f"{one.where}={one.value}" if one.where else ""
        yield {"kind": "unexplored", "knob": one.knob, "where": where, "about": one.reason}
    yield from _dead(found.dead)


def _dead(found: Iterable[DeadKnob]) -> Iterator[dict[str, Json]]:
    from configtron.learner.importance import SMALL

    for one in found:
        where = f"{one.dead.where}={one.dead.value}" if one.dead.where else ""
        about = f"{one.dead.reason}; {one.pairs} pairs; an effect below {one.unseen:.2g} (root mean square "
        about += f"over cells; {one.unseen * RARE:.2g} in one of a hundred) would be unseen"
        kind = "dead" if one.unseen <= SMALL else "unproven"
        yield {"kind": kind, "knob": one.dead.knob, "where": where, "pairs": one.pairs, "unseen": rounded(one.unseen),
               "about": about}  # fmt: skip
