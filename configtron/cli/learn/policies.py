# SPDX-License-Identifier: MIT
"""`configtron learn policies`."""

from __future__ import annotations

import click

from configtron.cli.learn.options import write
from configtron.cli.tune.options import form_options
from configtron.model.errors import DONE

POLICIES_COLUMNS = ("policy", "default", "runs", "takes", "about")


@click.command(short_help="List the policies there are to choose from.")
@form_options
def policies(form: str, output_file: str) -> int:
    """List the policies there are: the product's default, the paper's ensemble, and what they are held against.

    What runs in simulation only knows the truth: `configtron replay sessions`. `takes` says which of --warm,
    --engine, --evolve and --by-device make a difference.
    """
    from configtron.learner import POLICIES, PREFERRED

    rows = [
        {"policy": row.name, "default": row.name == PREFERRED, "runs": "in simulation" if row.oracle else "anywhere",
         "takes": " ".join(row.takes), "about": row.help}
        for row in POLICIES.values()
    ]  # fmt: skip
    write(form, output_file, POLICIES_COLUMNS, [{**row} for row in rows])
    return DONE
