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
from configtron.cli.tune.options import beacons_option, log_socket_option, ports_option
from configtron.linux.xdg import services_database
from configtron.model.errors import CONDITION, DONE

if TYPE_CHECKING:
    from configtron.model.checks import Check


@click.command()
@ports_option()
@beacons_option
@log_socket_option
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
