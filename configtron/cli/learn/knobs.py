# SPDX-License-Identifier: MIT
"""`configtron learn knobs`."""

from __future__ import annotations

from typing import BinaryIO

import click

from configtron.cli.completing import learned
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import DONE, BadInput


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
    unproven    the same as dead, but a larger effect could have stayed unseen: more outcomes would show
    importance  excess of the best configuration with this knob at its default over the best of all, median and p95
                over networks and sites, with 95 % intervals
    """
    from configtron.cli.display import EventLines
    from configtron.model.tensor import read
    from configtron.service.learning import rows
    from configtron.service.learning.knobs import knobs_of_policy, knobs_of_tensor

    if name and tensor is not None:
        raise BadInput("--policy and --tensor are two answers; ask for one at a time")
    if tensor is not None:
        found = knobs_of_tensor(read(tensor, tensor.name))
    else:
        found = knobs_of_policy(settings().db, name, EventLines())
    write_rows(form, output_file, rows.EFFECT_COLUMNS, [*rows.known_knob_rows(), *rows.effect_rows(found)], LEARNING)
    return DONE
