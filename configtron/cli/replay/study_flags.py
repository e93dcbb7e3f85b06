# SPDX-License-Identifier: MIT
"""The options of `configtron replay study`, and of its earlier spelling `tune evaluate`."""

from __future__ import annotations

from pathlib import Path

import click

from configtron.cli.options import format_option, not_empty, with_options

# As `studies/registry/kinds.py`, written down here so that --help imports nothing.
NEEDS = ("tensor", "lab", "sessions")
SESSIONS = "sessions"
# The options that a study of claims takes, one of simulated sessions, --resume, and --list.
EVERYWHERE = ("names", "every", "smoke", "seed", "html", "form", "output_file")
OF_CLAIMS = (*EVERYWHERE, *"tensor measurement jobs folder fail_on_absent archive only site cluster".split())
OF_SESSIONS = (*EVERYWHERE, "tensor", "count", "seeds")
OF_RESUME = ("resume", "html", "form", "output_file")
OF_LIST = ("listed", "form", "output_file")
# netem's generator takes as many bits.
MOST_SEED = 2**48 - 1


def _completed(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    from configtron.studies.registry.catalogue import names

    return [name for name in names() if name.startswith(begun)]


# fmt: off
CLAIMS_OPTIONS = with_options(
    click.option("--measurement", type=int, default=None, metavar="NUMBER",
                 help="Of a study of a tensor: a measurement of the database; -1 is the last.  [default: -1]"),
    click.option("--smoke", is_flag=True, help="The smallest run that shows something."),
    click.option("--seed", type=click.IntRange(0, MOST_SEED), default=1, show_default=True,
                 help="The same seed gives the same parts, bit for bit."),
    click.option("-j", "--jobs", type=click.IntRange(1), default=None,
                 help="Of a study of the lab: guests at once.  [default: one a CPU]"),
    click.option("--folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
                 help="Of a study of the lab: where its parts are stored, a folder a study; complete parts are not run"
                      " again.  [default: beside the database, in FILE.studies]"),
    click.option("--fail-on-absent", is_flag=True, help="Exit with 1 if a claim of the paper's does not hold here."),
    click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Write a page too: claims or numbers, plots, tables, in one file that loads nothing."),
    format_option(),
    click.option("-o", "--output-file", default="-", type=click.Path(),
                 help="Write here; - is stdout; claims with -f csv: a folder that exists gets a file a table."),
)
study_options = with_options(
    click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_completed),
    click.option("--list", "listed", is_flag=True, help="List all studies: paper, what each reproduces, how long."),
    click.option("--all", "every", multiple=True, type=click.Choice(NEEDS), help="Every study that needs this."),
    click.option("--tensor", metavar="FILE|NAME",
                 help="A tensor's file, or hotcloud, configtron, realism, which ship; analytic, idiosyncratic."
                      "  [default: the last measurement, else a shipped one; of sessions analytic and all shipped]"),
    click.option("--sessions", "count", type=click.IntRange(1), metavar="N",
                 help="Of simulated sessions: sessions of a world.  [default: as each study has]"),
    click.option("--seeds", type=click.IntRange(2), default=None, metavar="N",
                 help="Of simulated sessions: worlds that intervals are taken over, from --seed on.  [default: 3]"),
    CLAIMS_OPTIONS,
    click.option("--archive", is_flag=True,
                 help="Of pantheon and pantheonchanges: keep every packet of each run, about 4 bytes a packet."),
    click.option("--only", default="", metavar="RUN", help="Of these: only these runs, PART/SCHEME; may have a *."),
    click.option("--site", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Of these: write static pages of all complete runs there, with the command that repeats each."),
    click.option("--cluster", default="", metavar="ADDRESS", callback=not_empty,
                 help="Of a study of the lab: run its parts on the workers of this Dask scheduler (tls://HOST:8786)."),
    click.option("--resume", default=None, is_flag=False, flag_value="last", metavar="[N]",
                 help="Resume interrupted studies of simulated sessions: a replay's number, or the latest."),
)
evaluate_options = with_options(
    click.option("--study", "names", multiple=True, help="Which; repeat for more."),
    click.option("--tensor", type=click.Path(dir_okay=False), metavar="FILE",
                 help="For hotcloud and realism: a tensor's file, in place of a measurement of the database."),
    CLAIMS_OPTIONS,
)
# fmt: on
