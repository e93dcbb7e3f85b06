# SPDX-License-Identifier: MIT
"""The options of `configtron replay study`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import format_option, not_empty, with_options
from configtron.cli.param_types import NamedPath
from configtron.model.choices import NEEDS

# The options that are taken by a study of claims, by a study of simulated sessions, with --resume, and with --list.
EVERYWHERE = ("names", "every", "smoke", "seed", "html", "form", "output_file")
OF_CLAIMS = (*EVERYWHERE, *"tensor measurement jobs folder fail_on_absent archive only site cluster".split())
OF_SESSIONS = (*EVERYWHERE, "tensor", "count", "seeds")
OF_RESUME = ("resume", "html", "form", "output_file")
OF_LIST = ("listed", "form", "output_file")
# What `--help` lists last.
ADVANCED = ("measurement", "folder", "archive", "only", "site", "cluster")
# netem's generator takes 48 bits.
MOST_SEED = 2**48 - 1


def _complete_name(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from configtron.studies.registry.listing import names

    return [name for name in names() if name.startswith(begun)]


# fmt: off
study_options = with_options(
    click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_name),
    click.option("--list", "listed", is_flag=True, help="List all studies: paper, what each reproduces, how long."),
    click.option("--all", "every", multiple=True, type=click.Choice(NEEDS), help="Run every study that needs this."),
    click.option("--tensor", metavar="FILE|NAME",
                 help="A tensor: a file; hotcloud, configtron or realism, which are shipped; analytic or idiosyncratic."
                      "  [default: the last measurement, else a shipped one; of sessions analytic and all shipped]"),
    click.option("--sessions", "count", type=click.IntRange(1), metavar="N",
                 help="For studies of simulated sessions: sessions in each world.  [default: as each study has]"),
    click.option("--seeds", type=click.IntRange(2), default=None, metavar="N",
                 help="For studies of simulated sessions: number of worlds, with seeds from --seed on.  [default: 3]"),
    click.option("--measurement", type=int, default=None, metavar="NUMBER",
                 help="For studies of a tensor: a measurement of the database; -1 is the last.  [default: -1]"),
    click.option("--smoke", is_flag=True, help="Run the smallest version that shows a result."),
    click.option("--seed", type=click.IntRange(0, MOST_SEED), default=1, show_default=True,
                 help="The same seed gives the same parts, bit for bit."),
    click.option("-j", "--jobs", type=click.IntRange(1), default=None,
                 help="For studies of the lab: guests at the same time.  [default: one a CPU]"),
    click.option("--folder", type=NamedPath(file_okay=False, path_type=Path), metavar="FOLDER",
                 help="For studies of the lab: store parts there, in a folder for each study; complete parts do not run"
                      " again.  [default: beside the database, in FILE.studies]"),
    click.option("--fail-on-absent", is_flag=True, help="Exit with 1 if a claim of the paper's does not hold here."),
    click.option("--html", type=NamedPath(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write a page too: claims or numbers, plots, tables, in one file that loads nothing."),
    format_option(),
    click.option("-o", "--output-file", default="-", type=NamedPath(),
                 help="Write here; - is stdout; claims with -f csv: a folder that exists gets a file a table."),
    click.option("--archive", is_flag=True,
                 help="For pantheon and pantheonchanges: store every packet of each run, about 4 bytes a packet."),
    click.option("--only", default="", metavar="RUN",
                 help="For pantheon and pantheonchanges: run only PART/SCHEME; may have a *."),
    click.option("--site", type=NamedPath(file_okay=False, path_type=Path), metavar="DIR",
                 help="For pantheon and pantheonchanges: write static pages of all complete runs there."),
    click.option("--cluster", default="", metavar="ADDRESS", callback=not_empty,
                 help="For studies of the lab: run parts on the workers of this Dask scheduler (tls://HOST:8786)."),
    click.option("--resume", default=None, is_flag=False, flag_value="last", metavar="[N]",
                 help="Resume interrupted studies of simulated sessions: a replay's number, or the latest."),
)
# fmt: on
