# SPDX-License-Identifier: MIT
"""`configtron learn measure`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configtron.cli.options import FILE, form_options, not_empty
from configtron.cli.output import progress_bar, say
from configtron.cli.param_types import NamedPath
from configtron.cli.settings import settings
from configtron.linux.signals import terminated
from configtron.model.errors import INTERRUPTED
from configtron.report.files import can_be_written, opened

if TYPE_CHECKING:
    from configtron.report.progress import Moment
    from configtron.service.progress import Event

# The names of `configtron/lab/testbed/studies.py`, written down here so that --help imports nothing.
STUDIES = ("hotcloud", "configtron", "smoke", "realism", "visits")
SERVERS = ("nginx", "apache")


@click.command()
@click.option("--study", type=click.Choice(STUDIES), help="Study to measure.")
@click.option("--smoke", is_flag=True, help="The same as --study smoke.")
@click.option("--condition", "conditions", multiple=True, metavar="CONDITION",
              help="Network instead of the study's; repeat for more. As in hotcloud:1/150/2.5, pantheon:3,"
              " emulated:5/20/1/100 (Mbit/s, ms one way, % lost, packets of queue).")  # fmt: skip
@click.option("--site", "sites", multiple=True, metavar="SITE", help="Site instead of the study's; repeat for more.")
@click.option("--looks", default="", metavar="N,N,...",
              help="Numbers of loads of a cell after which its median is checked; the last one ends it."
              "  [default: the study's]")  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**48 - 1), default=None,
              help="The same seed gives the same loads, bit for bit.  [default: 1]")  # fmt: skip
@click.option("--server", type=click.Choice(SERVERS), default=None, help="Web server of the pages.  [default: nginx]")
@click.option("-j", "--jobs", type=click.IntRange(1), default=None, help="Guests at once.  [default: one a CPU]")
@click.option("--cluster", metavar="ADDRESS", callback=not_empty,
              help="Measure on the workers of this Dask scheduler (tls://HOST:8786).")  # fmt: skip
@click.option("--resume", type=int, metavar="NUMBER", help="Resume a measurement; -1 is the last one.")
@click.option("--fail-on-unknown", is_flag=True, help="Exit with 1 if the interval of a median is too wide.")
@click.option("--tensor", type=FILE, metavar="FILE",
              help="Write the tensor here too; one is always written into the measurement's folder.")  # fmt: skip
@click.option("--status-updates-file", type=NamedPath(path_type=Path, allow_dash=True), metavar="FILE",
              help="Progress as JSON lines; - is stderr.")  # fmt: skip
@form_options
def measure(fail_on_unknown: bool, tensor: Path | None, status_updates_file: Path | None, form: str, output_file: str,
            **given: Any) -> int:  # fmt: skip
    """Fill the PLT-tensor {network condition x configuration x website} with page loads in the lab.

    Each condition is one boot of a guest with real kernel, servers and client, in virtual time. A cell is loaded 6
    times, then 12, then 24, until the 95 % interval of its median is within a tenth of it. The same seed gives the same
    bytes. After Ctrl-C or kill -9, --resume continues with the conditions that are missing. docs/studies.md explains
    flags and exit codes.
    """
    from configtron.report.cells import write_cells
    from configtron.service.learning import measuring

    options = measuring.options_of(settings().db, tuple(sys.argv[1:]), **given)
    can_be_written(tensor, output_file, status_updates_file)
    with progress_bar(_moment_of, status_updates_file, counted=True) as progress, terminated():
        found = measuring.fill(options, progress)
    with opened(output_file) as out:
        tally, lines = measuring.show_cells(options.db, found, lambda cells: write_cells(form, cells, out), tensor)
    say(*lines)
    code = tally.code(found.layout.cells, fail_on_unknown=fail_on_unknown)
    return INTERRUPTED if found.status == measuring.STOPPED else code


def _moment_of(event: Event) -> tuple[Moment, bool] | None:
    from configtron.service.learning.measuring import MeasureProgress

    return (event.moment, event.last) if isinstance(event, MeasureProgress) else None
