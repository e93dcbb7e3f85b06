# SPDX-License-Identifier: MIT
"""`configtron learn policies`."""

from __future__ import annotations

import click

from configtron.cli.options import form_options
from configtron.cli.output import LEARNING, write_rows


@click.command(short_help="List the policies there are to choose from.")
@form_options
def policies(form: str, output_file: str) -> None:
    """List the policies there are: the product's default, the paper's ensemble, and baselines to compare with.

    What runs in simulation only knows the truth: `configtron replay sessions`. `takes` says which of --warm,
    --engine, --evolve and --by-device make a difference.
    """
    from configtron.service.learning.rows import POLICIES_COLUMNS, policy_rows

    write_rows(form, output_file, POLICIES_COLUMNS, policy_rows(), LEARNING)
