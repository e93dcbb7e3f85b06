# SPDX-License-Identifier: MIT
"""`configtron learn knobs`."""

from __future__ import annotations

from typing import BinaryIO

import click

from configtron.cli.learn.options import policy_option
from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, event_lines, write_rows
from configtron.cli.settings import settings
from configtron.model.errors import BadInput


@click.command(short_help="Show which knobs matter, and which do nothing.")
@policy_option(help="By the outcomes of this policy of `learn status`.  [default: the one saved last]")
@click.option("--tensor", type=click.File("rb"), metavar="FILE", help="By this PLT-tensor.")
@form_options
def knobs(name: str, tensor: BinaryIO | None, form: str, output_file: str) -> None:
    """Show the knobs that are learned about, which of them do nothing and, on a tensor, what is lost without each.

    \b
    knob        its values, the default first, and where it is
                known to have no effect
    dead        no difference beyond noise; an effect above
                5 % would have shown
    unexplored  not tried by this policy: its options exclude
                it, or outcomes proved it dead
    unproven    as dead, but too few outcomes to exclude a
                larger effect
    importance  excess of the best configuration with this
                knob at its default over the best of all

    docs/learn.md explains the columns.
    """
    from configtron.model.tensor import read
    from configtron.service.learning import rows
    from configtron.service.learning.knobs import knobs_of_policy, knobs_of_tensor

    if name and tensor is not None:
        raise BadInput("--policy and --tensor are two answers; ask for one at a time")
    if tensor is not None:
        found = knobs_of_tensor(read(tensor, tensor.name))
    else:
        found = knobs_of_policy(settings().db, name, event_lines())
    write_rows(form, output_file, rows.EFFECT_COLUMNS, [*rows.known_knob_rows(), *rows.effect_rows(found)], LEARNING)
