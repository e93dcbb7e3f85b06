# SPDX-License-Identifier: MIT
"""`configtron doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configtron.cli.options import form_options
from configtron.cli.output import DOCTOR, rows_to
from configtron.cli.settings import hint, settings
from configtron.linux.xdg import services_database
from configtron.model.errors import CONDITION, DONE

if TYPE_CHECKING:
    from configtron.model.checks import Check


@click.command(short_help="Find out what is wrong on this host, and what to type next.")
@click.option("--port", "ports", type=click.IntRange(1, 65_535), multiple=True, default=(80, 443), metavar="PORT",
              show_default=True, help="Port of the web server; repeat for more.")  # fmt: skip
@click.option("--beacons", default="127.0.0.1:9315", show_default=True, metavar="HOST:PORT",
              help="Where the web server passes beacons on to.")  # fmt: skip
@click.option("--log-socket", "log_path", type=click.Path(dir_okay=False, path_type=Path), metavar="PATH",
              help="Socket of the web server's access log.  [default: /run/configtron/outcomes.log]")  # fmt: skip
@form_options
def doctor(ports: tuple[int, ...], beacons: str, log_path: Path | None, form: str, output_file: str) -> int:
    """Check this host from end to end: rights, drivers, probing, the lab, whether log lines and beacons reach the
    reader, database, clock. One row a check, red ones first, each with what to type next.

    It changes nothing. It sends a log line as the web server's user, requests a page and posts a beacon; none of these
    counts. `configtron tune doctor` and `configtron probe doctor` are parts of it. Exit code 1: a check is red.
    """
    from configtron.service.doctor import DoctorOptions, host_checks

    checks = host_checks(DoctorOptions(services_database(settings().db) or settings().db, log_path, beacons, ports))
    return show_checks(checks, form, output_file)


def show_checks(checks: Sequence[Check], form: str, output_file: str) -> int:
    """Write a row a check; return the exit code."""
    from configtron.model.checks import DOCTOR_COLUMNS, RED

    with rows_to(form, output_file, DOCTOR) as write:
        if form == "table":
            write(("state", "check", "found"), ({**one.row(), "found": hint(one.line())} for one in checks))
        else:
            write(DOCTOR_COLUMNS, ({**one.row(), "next": hint(one.next)} for one in checks))
    return CONDITION if any(one.state == RED for one in checks) else DONE
