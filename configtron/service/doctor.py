# SPDX-License-Identifier: MIT
"""The checks of `configtron doctor`, one a row. They change nothing, and what they send does not count."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from configtron.db.connection import Database
from configtron.learner.pageloads.proxy_evidence import DIRECT, PROXIED
from configtron.linux.adjtimex import ClockState, clock_state
from configtron.linux.netns import holds
from configtron.model.checks import GREEN, NOT_HERE, RED, Check, in_order, of_error
from configtron.model.errors import ConfigtronError
from configtron.model.packages import missing
from configtron.model.tuning import Place
from configtron.service.campaign.probe_checks import lab_checks, probe_checks
from configtron.service.lease.doctor import Examined, examine
from configtron.service.outcomes.readiness import ReadinessCheck, readiness

# linux/capability.h, and what needs it.
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}
# SQLite's log grows to 4 MB between two checkpoints; 100 000 page loads, a busy hour, have some 50 MB.
LEAST_FREE_BYTES = 64 << 20
# Older than the program itself: a host without a battery whose clock began anew.
EARLIEST_NS = 1_767_225_600_000_000_000
# NTP slews by at most 0.5 ms in a second; it steps from 128 ms on.
STEP_NS = 100_000_000
# States of `readiness`; the others prove nothing.
READY = {DIRECT: GREEN, "long enough": GREEN, PROXIED: RED, "short": RED}
SYNCHRONISE = "timedatectl set-ntp true (not supported: apt install systemd-timesyncd; without systemd: chrony)"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """Database, socket of log lines (None: `LOG_PATH`), HOST:PORT of beacons, ports: as of `learn serve`."""

    database: Path
    log_path: Path | None
    beacons: str
    ports: tuple[int, ...] = (80, 443)


def host_checks(options: DoctorOptions, clock: Callable[[], ClockState] = clock_state) -> list[Check]:
    """Return every check, those first that one must act on. Errors: `BadInput` for beacons that are no address."""
    first = clock()
    checks = [rights_check(os.geteuid(), [name for name, number in CAPABILITIES.items() if not holds(number)])]
    checks += driver_checks(examine(Place()))
    checks += _learn_checks(options)
    checks += [*probe_checks(), *lab_checks(), database_check(options.database), room_check(options.database)]
    return in_order([*checks, clock_check(first, clock())])


def rights_check(user: int, lacking: Sequence[str]) -> Check:
    """Judge the rights of this process. user: UID."""
    if user:
        return Check("host", "rights", RED, "not root", "sudo configtron doctor")
    if lacking:
        options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in lacking)
        then = f"in a container: docker run {options}; in a unit: CapabilityBoundingSet={' '.join(lacking)}"
        return Check("host", "rights", RED, f"root without {', '.join(lacking)}", then)
    return Check("host", "rights", GREEN, "root, with the capabilities that are needed")


def driver_checks(drivers: Sequence[Examined]) -> list[Check]:
    """Judge drivers. One that reaches single connections is enough; kmod is built by hand, so it is never missed."""
    enough = any(reach.per == "connection" for one in drivers for reach in one.reach.values())
    return [
        of_error("tune", f"driver {one.name}", one.lack, NOT_HERE if enough or one.name == "kmod" else RED)
        if one.lack
        else Check("tune", f"driver {one.name}", GREEN, f"can set {len(one.reach)} knobs")
        for one in drivers
    ]


def _learn_checks(options: DoctorOptions) -> list[Check]:
    """Return the checks of page loads: what the host is like, then what a test line and a test beacon show."""
    try:
        from configtron.service.outcomes.delivery import delivery_checks
        from configtron.service.outcomes.local_outcomes import LOG_PATH

        sent = delivery_checks((options.log_path or LOG_PATH).absolute(), options.beacons, options.ports)
    except ModuleNotFoundError as error:
        sent = [of_error("learn", "packages", str(missing(error)).replace(": ", "; ", 1), NOT_HERE)]
    serving = any(one.state == GREEN for one in sent)
    return [*sent, *(_ready_check(one, serving) for one in readiness(ports=options.ports))]


def _ready_check(ready: ReadinessCheck, serving: bool) -> Check:
    """Judge what the host is like. serving: a reader runs; before one does, a short queue loses nothing."""
    state = READY.get(ready.state, NOT_HERE)
    if state == RED and ready.state != PROXIED and not serving:
        state = NOT_HERE
    then = "run configtron on the host of the proxy" if ready.state == PROXIED else ""
    return of_error("learn", ready.check, ready.note or ready.state, state, then)


def database_check(path: Path) -> Check:
    """Judge whether a database opens, has a schema of this program's, and can be written."""
    try:
        if path.exists():
            Database(path, traceless=True).close()
    except ConfigtronError as error:
        return of_error("learn", "database", str(error))
    place = path if path.exists() else _nearest(path)
    if not os.access(place, os.W_OK):
        then = f"chown {os.geteuid()} {place}; or name another: configtron --db FILE"
        return Check("learn", "database", RED, f"{place} cannot be written", then)
    found = "opens and can be written" if path.exists() else "is made by the first command that stores something"
    return Check("learn", "database", GREEN, f"{path} {found}")


def room_check(path: Path) -> Check:
    """Judge the room on a database's disk."""
    free = shutil.disk_usage(_nearest(path)).free
    if free < LEAST_FREE_BYTES:
        found = f"the disk of {path} has {free >> 20} MB left, of the {LEAST_FREE_BYTES >> 20} MB that an hour may need"
        return Check("learn", "room on the disk", RED, found, f"du -xsh {_nearest(path)}/*; or: configtron --db FILE")
    return Check("learn", "room on the disk", GREEN, f"{free >> 20} MB are free")


def _nearest(path: Path) -> Path:
    """Return the first folder above a path that exists."""
    return next(folder for folder in path.resolve().parents if folder.exists())


def clock_check(first: ClockState, last: ClockState) -> Check:
    """Judge the clock from two readings, at the doctor's beginning and end."""
    stepped_ns = (last.wall_ns - last.boot_ns) - (first.wall_ns - first.boot_ns)
    shown = datetime.fromtimestamp(last.wall_ns / 1e9, UTC).isoformat(" ", "seconds")
    if last.wall_ns < EARLIEST_NS:
        return Check("host", "clock", RED, f"the clock shows {shown}, which is past", SYNCHRONISE)
    if abs(stepped_ns) > STEP_NS:
        then = "let one program alone set it: systemctl list-units '*chron*' '*ntp*' '*timesync*'"
        return Check("host", "clock", RED, f"the clock was stepped by {stepped_ns / 1e9:+.1f} s just now", then)
    if last.synchronised is None:
        return Check("host", "clock", NOT_HERE, "the kernel does not show whether the clock is synchronised")
    if not last.synchronised:
        return Check("host", "clock", RED, f"no program keeps the clock synchronised; it shows {shown}", SYNCHRONISE)
    return Check("host", "clock", GREEN, f"synchronised; it shows {shown}")
