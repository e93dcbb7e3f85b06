# SPDX-License-Identifier: MIT
"""`configtron learn import`."""

from __future__ import annotations

from typing import Any, BinaryIO

import click

from configtron.cli.options import SPAN, places_option
from configtron.cli.output import event_lines, say
from configtron.cli.param_types import Finite
from configtron.cli.settings import settings
from configtron.model.choices import IMPORT_FORMS, OUTCOME_SOURCES
from configtron.model.errors import DONE, NOTHING, PARTIAL, BadInput


@click.command(name="import")
@click.argument("file", type=click.File("rb"))
@click.option(
    "--source", type=click.Choice(OUTCOME_SOURCES), default="live", show_default=True, help="Origin of the outcomes."
)
@click.option("--from", "kind", type=click.Choice(IMPORT_FORMS), metavar="FORMAT",
              help=f"Format of FILE: {', '.join(IMPORT_FORMS)}.  [default: by its content]")  # fmt: skip
@click.option("--metric", default="", metavar="METRIC",
              help="Metric to read: page or request (access logs), lcp, fcp, ttfb, inp (web-vitals).")  # fmt: skip
@click.option("--contexts", default="all", show_default=True, metavar="WHICH",
              help="Networks from contexts before the load: all that are stored, last or a watch's number, a file of"
              " `fingerprint contexts -f jsonl`, none.")  # fmt: skip
@click.option("--window", "window_s", type=SPAN, default=3600.0, show_default=True, metavar="SECONDS",
              help="Largest age of a context.")  # fmt: skip
@click.option("--profile", "setting", default="", metavar="KNOB=VALUE,...",
              help="The configuration of all of FILE.  [default: FILE's, or that of `configtron tune`]")  # fmt: skip
@click.option("--propensity", type=Finite(min=0, max=1, min_open=True), metavar="P",
              help="Probability of each client's configuration, if it was chosen at random.")  # fmt: skip
@click.option("--site", default="", metavar="NAME", help="The site of all of FILE.  [default: host and path]")
@click.option("--client-prefix", default="", metavar="PREFIX", help="The clients' prefix where FILE names no address.")
@places_option(", for ASN or country of addresses; may be repeated.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Of dates without one (HAProxy's).")
@click.option("--quiet", "gap_s", type=SPAN, default=10.0, show_default=True, metavar="SECONDS",
              help="A pause without a request that ends a page view of an access log.")  # fmt: skip
@click.option("--strict", is_flag=True, help="Stop at the first bad line.")
def import_(file: BinaryIO, kind: str | None, **how: Any) -> int:
    """Read outcomes from FILE (- is standard input; packed ones are unpacked) into a new log of the database.

    FILE is JSON Lines or CSV of outcomes (docs/learn.md shows both), an access log (text or JSON), beacons
    of boomerang or web-vitals, an HTTP archive, or contexts (docs/learn.md). Of addresses only the prefix is stored.
    Outcomes without their client's network get it from contexts of the same prefix that were seen before the load.

    Exit codes: 2, the first bad line with --strict; 3, bad lines were left out; 4, there was no outcome.
    """
    from configtron.service.learning.importing import ImportOptions, import_file

    name = file.name.encode(errors="backslashreplace").decode()  # a file's name may be no text
    found = import_file(file, name, ImportOptions(settings().db, kind=kind or "", **how), event_lines())
    say(*found.lines())
    if found.refused:
        raise BadInput(found.refused)
    return NOTHING if not found.stored else PARTIAL if found.reading.bad else DONE
