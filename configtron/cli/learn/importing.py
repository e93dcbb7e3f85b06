# SPDX-License-Identifier: MIT
"""`configtron learn import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from configtron.cli.output import say
from configtron.cli.settings import settings
from configtron.model.errors import DONE, NOTHING, PARTIAL, BadInput

if TYPE_CHECKING:
    from configtron.learner.imports.reading import Reading
    from configtron.service.learning.importing import Imported

SOURCES = ("live", "lab", "sim")
FORMS = ("outcomes", "nginx", "apache-us", "apache-s", "haproxy", "boomerang", "web-vitals", "har", "contexts")


@click.command(name="import", short_help="Read outcomes from a file into the database.")
@click.argument("file", type=click.File("rb"))
@click.option("--source", type=click.Choice(SOURCES), default="live", show_default=True, help="Where they are from.")
@click.option("--from", "kind", type=click.Choice(FORMS), help="What FILE is.  [default: by its content]")
@click.option(
    "--metric",
    default="",
    metavar="METRIC",
    help="What of it: page or request (access logs), lcp, fcp, ttfb, inp (web-vitals).",
)
@click.option(
    "--contexts",
    default="all",
    show_default=True,
    metavar="WHICH",
    help=(
        "Networks from contexts before the load: all that are kept, last or a watch's number, a file of "
        "`fingerprint contexts -f jsonl`, none."
    ),
)
@click.option(
    "--window",
    "window_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="How old a context may be.",
)
@click.option(
    "--profile",
    "setting",
    default="",
    metavar="KNOB=VALUE,...",
    help="The configuration of all of FILE.  [default: as FILE says, or what `configtron tune` had in force]",
)
@click.option(
    "--propensity",
    type=click.FloatRange(min=0, max=1, min_open=True),
    metavar="P",
    help="How likely each client's configuration was, where it was drawn.",
)
@click.option("--site", default="", metavar="NAME", help="The site of all of FILE.  [default: host and path]")
@click.option("--client-prefix", default="", metavar="PREFIX", help="The clients' prefix where FILE names no address.")
@click.option(
    "--mmdb",
    "places",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    help="MaxMind-format file, for ASN or country of addresses; may be given several times.",
)
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Of dates without one (HAProxy's).")
@click.option(
    "--quiet",
    "gap_s",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="So long without a request ends a page view of an access log.",
)
@click.option("--strict", is_flag=True, help="Stop at the first bad line.")
def import_(file: BinaryIO, kind: str | None, **how: Any) -> int:
    """Read outcomes from FILE (- is standard input; gzip is unpacked) into a new log of the database.

    \b
    JSON Lines, an object each:
      {"context": {"bandwidth_kbps": 5000, "rtt_ms": 80, "loss": 0.01, "site": "news", "prefix": "192.0.2.0/24"},
       "profile": {"initcwnd": 30}, "plt_ms": 1234.5, "arm": "epsilon", "class": "nc3", "propensity": 0.1,
       "measured_at": 1700000000000000000}
    or CSV with a header: plt_ms, any of the context's names, a column for each knob, propensity, arm, class,
    measured_at. Only plt_ms is required; `evaluate` needs propensities, classes need bandwidth, round trip and loss.

    Also access logs of nginx, Apache and HAProxy, beacons of boomerang and web-vitals, HTTP archives (docs/import.md
    says what each measures), and contexts (`fingerprint contexts -f jsonl`), which are kept for later imports.
    Of addresses only the prefix is kept. A log has one metric.

    Outcomes that do not say what network their client is in get it from contexts of the same prefix that were seen
    before the load began; how many did, how old those were, and why others did not, is printed.

    Bad lines are counted and the first few named, the others kept: exit code 3. With --strict the first one ends the
    import, exit code 2; the outcomes before it are kept, and it says how many. 4: there was no outcome.
    """
    from configtron.cli.display import EventLines
    from configtron.service.learning.importing import import_file
    from configtron.service.learning.sources import ImportOptions

    name = file.name.encode(errors="backslashreplace").decode()  # a file's name may be no text
    found = import_file(file, name, ImportOptions(settings().db, kind=kind or "", **how), EventLines())
    if found.kind == "contexts":
        return _contexts(found)
    if found.kept:
        of_metric = f" of metric {found.metric}" if found.metric != "plt" else ""
        say(f"log {found.log}: {found.kept} outcomes{of_metric}")
        if found.joined is not None:
            say(str(found.joined))
    return _ended(found.reading, found.kept)


def _contexts(found: Imported) -> int:
    """Report contexts that were kept; return the exit code. Errors: `BadInput` where all lines are bad."""
    reading = found.reading
    if not found.kept + found.there:
        if reading.bad:
            raise BadInput(reading.first[0])
        say(f"{reading.name}: no context in it")
        return NOTHING
    again = f"; {found.there} were kept already" if found.there else ""
    say(f"{found.kept} contexts are kept{again}; `configtron learn import` joins outcomes to them by prefix and time")
    for where in reading.first:
        say(where)
    return PARTIAL if reading.bad else DONE


def _ended(reading: Reading, kept: int) -> int:
    """Report what was left out; return the exit code. Errors: `BadInput` where all lines are bad."""
    for why, count in reading.left.most_common():
        if count:
            say(f"{count} not taken: {why}")
    if not kept and reading.bad:
        more = f"; {reading.bad} such {reading.unit}s, and no outcome" if reading.bad > 1 else ""
        raise BadInput(f"{reading.first[0]}{more}")
    if not kept:
        say(f"{reading.name}: no outcome in it")
        return NOTHING
    for where in reading.first:
        say(where)
    if reading.bad:
        say(f"{reading.bad} of {reading.lines} {reading.unit}s are bad and left out; --strict stops at the first")
    return PARTIAL if reading.bad else DONE
