# SPDX-License-Identifier: MIT
"""The checks of `configtron doctor`. They change nothing, and what they send does not count."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from configtron.db.connection import Database
from configtron.intake.pageloads.proxy_evidence import DIRECT, PROXIED
from configtron.linux.adjtimex import ClockState, clock_state
from configtron.linux.netns import holds
from configtron.model.checks import GREEN, NOT_HERE, RED, Check, check_of, red_first
from configtron.model.errors import BadInput, ConfigtronError
from configtron.model.packages import missing
from configtron.model.tuning import Place
from configtron.model.wording import count_of
from configtron.service.campaign.probe_checks import lab_checks, probe_checks
from configtron.service.lease.doctor import Examined, examine
from configtron.service.lease.options import LeaseOptions
from configtron.service.lease.status_report import verify
from configtron.service.outcomes.readiness import ReadinessCheck, readiness

# linux/capability.h: what drivers, probes and the lab need.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}
# SQLite's log grows to 4 MB between two checkpoints; 100 000 page loads, those of a busy hour, take some 50 MB.
LEAST_FREE_BYTES = 64 << 20
# 1 January 2026, when this program did not exist: a host without a battery starts with a date of the past.
EARLIEST_NS = 1_767_225_600_000_000_000
# NTP slews by at most 0.5 ms in a second; it steps from 128 ms on.
STEP_NS = 100_000_000
# State of `readiness` -> that of the check; any other proves nothing.
READY = {DIRECT: GREEN, "long enough": GREEN, PROXIED: RED, "short": RED}
SYNCHRONISE = "timedatectl set-ntp true (not supported: apt install systemd-timesyncd or chrony; container: its host)"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """beacons: HOST:PORT; log_path: socket of log lines, None for `LOG_PATH`; all as in `learn serve`."""

    database: Path
    log_path: Path | None
    beacons: str
    ports: tuple[int, ...]


def host_checks(options: DoctorOptions, clock: Callable[[], ClockState] = clock_state) -> list[Check]:
    """Return all checks, red ones first. Errors: `BadInput` for beacons that are no address."""
    first = clock()
    checks = [rights_check(os.geteuid(), [name for name, number in CAPABILITIES.items() if not holds(number)])]
    checks += [reader_check(), *driver_checks(examine(Place())), *clients_check(options.database)]
    checks += _learn_checks(options)
    checks += [*probe_checks(), *lab_checks(), database_check(options.database), room_check(options.database)]
    return red_first([*checks, clock_check(first, clock())])


def rights_check(user: int, lacking: Sequence[str]) -> Check:
    """Judge the rights of this process. user: UID; lacking: names of capabilities."""
    if user:
        return Check("host", "rights", RED, "not root", "sudo configtron doctor")
    if lacking:
        options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in lacking)
        then = f"in a container: docker run {options}; in a unit: CapabilityBoundingSet={' '.join(lacking)}"
        return Check("host", "rights", RED, f"root without {', '.join(lacking)}", then)
    return Check("host", "rights", GREEN, "root, with the capabilities that are needed")


def reader_check() -> Check:
    """Say which reader of captures runs."""
    from configtron.fingerprint.capture.native import library

    if library() is None:
        return Check("host", "captures", NOT_HERE, "Python reads them, for want of the native reader", "make native")
    return Check("host", "captures", GREEN, "the native reader reads them")


def driver_checks(drivers: Sequence[Examined]) -> list[Check]:
    """Judge drivers. If one reaches single connections, no other is needed; kmod is optional."""
    enough = any(reach.per == "connection" for one in drivers for reach in one.reach.values())
    return [
        check_of("tune", f"driver {one.name}", one.lack, NOT_HERE if enough or one.name == "kmod" else RED)
        if one.lack
        else Check("tune", f"driver {one.name}", GREEN, f"can set {len(one.reach)} knobs")
        for one in drivers
    ]


def clients_check(database: Path) -> list[Check]:
    """Judge whether clients get the rules that are in force; nothing where none are, or no database tells."""
    try:
        report = verify(LeaseOptions(database))
    except BadInput:
        return []
    except (ConfigtronError, OSError) as error:
        return [check_of("tune", "clients", str(error))]
    differing = len(report.differences) + sum(len(answers.differences) for _, answers in report.answers)
    if differing:
        found = f"{count_of(differing, 'difference')} between the rules in force and what clients get"
        return [Check("tune", "clients", RED, found, "configtron tune verify")]
    seen = sum(answers.asked + answers.connections for _, answers in report.answers)
    text = f"{count_of(seen, 'client')} looked at have what the rules in force give"
    return [Check("tune", "clients", GREEN, text)] if seen else []


def _learn_checks(options: DoctorOptions) -> list[Check]:
    """Return the checks of page loads: a test line, a test beacon, then proxies and the queue of log lines."""
    try:
        from configtron.service.outcomes.delivery import delivery_checks
        from configtron.service.outcomes.local_outcomes import LOG_PATH

        sent = delivery_checks((options.log_path or LOG_PATH).absolute(), options.beacons, options.ports)
    except ModuleNotFoundError as error:
        sent = [check_of("learn", "packages", str(missing(error)).replace(": ", "; ", 1), NOT_HERE)]
    serving = any(one.state == GREEN for one in sent)
    return [*sent, *(_ready_check(one, serving) for one in readiness(ports=options.ports))]


def _ready_check(ready: ReadinessCheck, serving: bool) -> Check:
    """Judge one requirement of docs/learn.md. serving: a reader runs; without one, a short queue loses nothing."""
    state = READY.get(ready.state, NOT_HERE)
    if state == RED and ready.state != PROXIED and not serving:
        state = NOT_HERE
    then = "run configtron on the host of the proxy" if ready.state == PROXIED else ""
    return check_of("learn", ready.check, ready.note or ready.state, state, then)


def database_check(path: Path) -> Check:
    """Judge whether a database opens, has a schema of this program, and can be written."""
    is_there = os.path.exists(path)
    try:
        if is_there:
            Database(path, traceless=True).close()
    except ConfigtronError as error:
        return check_of("learn", "database", str(error))
    written, found = path, "opens and can be written"
    if not is_there:
        written, found = _nearest(path), "is made by the first command that stores something"
    if not os.access(written, os.W_OK):
        then = "run this as its owner; or name another: configtron --db FILE"
        return Check("learn", "database", RED, f"{written} cannot be written", then)
    return Check("learn", "database", GREEN, f"{path} {found}")


def room_check(path: Path) -> Check:
    """Judge the room on a database's disk."""
    free = shutil.disk_usage(_nearest(path)).free
    if free < LEAST_FREE_BYTES:
        found = f"the disk of {path} has {free >> 20} MB left; a busy hour may need {LEAST_FREE_BYTES >> 20} MB"
        return Check("learn", "room on the disk", RED, found, f"du -xsh {_nearest(path)}/*; or: configtron --db FILE")
    return Check("learn", "room on the disk", GREEN, f"{free >> 20} MB are free")


def _nearest(path: Path) -> Path:
    """Return the nearest folder above a path that exists and that this process can see."""
    return next(folder for folder in path.resolve().parents if os.path.exists(folder))


def clock_check(first: ClockState, last: ClockState) -> Check:
    """Judge the clock from two readings, at the doctor's beginning and end."""
    stepped_ns = (last.wall_ns - last.boot_ns) - (first.wall_ns - first.boot_ns)
    shown = datetime.fromtimestamp(last.wall_ns / 1e9, UTC).isoformat(" ", "seconds")
    if last.wall_ns < EARLIEST_NS:
        return Check("host", "clock", RED, f"the clock shows {shown}, which is in the past", SYNCHRONISE)
    if abs(stepped_ns) > STEP_NS:
        then = "let one program alone set it: systemctl list-units '*chron*' '*ntp*' '*timesync*'"
        return Check("host", "clock", RED, f"the clock was stepped by {stepped_ns / 1e9:+.1f} s just now", then)
    if last.synchronised is None:
        return Check("host", "clock", NOT_HERE, "the kernel does not show whether the clock is synchronised")
    if not last.synchronised:
        return Check("host", "clock", RED, f"no program keeps the clock synchronised; it shows {shown}", SYNCHRONISE)
    return Check("host", "clock", GREEN, f"synchronised; it shows {shown}")
