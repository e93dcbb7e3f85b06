# SPDX-License-Identifier: MIT
"""Break a host with nginx and a reader of its log in one way, and print what the doctor finds there, as JSON.

    python -m tests.support.broken_host KIND FOLDER

as root, in namespaces of its own (`tests/support/isolation.py`). KIND is a key of `HOSTS`.
"""

from __future__ import annotations

import grp
import json
import os
import subprocess
import sys
from pathlib import Path

from configtron.db.connection import Database
from configtron.intake.receiving.ended_sockets import EndedSockets
from configtron.linux.adjtimex import ClockState, clock_state
from configtron.service.doctor import DoctorOptions, host_checks
from tests.support import real_servers
from tests.support.running_outcomes import running_outcomes

# Kind -> what is broken.
HOSTS = {
    "none": "nothing", "socket": "the socket is root's, as the reader makes it where nothing else is asked for",
    "folder": "the socket's folder is closed", "format": "nginx logs in its own format",
    "bpf": "root has neither CAP_BPF nor CAP_SYS_ADMIN", "clock": "no program synchronises the clock",
    "disk": "the database's disk is full",
}  # fmt: skip
WITHOUT_BPF = ("setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-all")


def doctor(kind: str, log: Path, database: Path, beacons: int, port: int) -> None:
    """Print the checks. The clock is this host's; whether it is synchronised depends on the kind."""

    def clock() -> ClockState:
        return clock_state()._replace(synchronised=kind != "clock")

    options = DoctorOptions(database, log, f"127.0.0.1:{beacons}", (port,))
    print(json.dumps([one._asdict() for one in host_checks(options, clock)]))


def make_database(folder: Path, *, full: bool) -> Path:
    """Make a database in a folder of its own; full: on a disk that is full. Return its path."""
    place = folder / "disk"
    place.mkdir()
    if full:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", place], check=True)
    Database(place / "db").close()
    if full:
        subprocess.run(["dd", "if=/dev/zero", f"of={place}/rest", "bs=64k"], capture_output=True, check=False)
    return place / "db"


def main(kind: str, folder: Path) -> None:
    """Break, start, examine; print rows, counts and how many page loads became rows."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["sysctl", "-qw", "net.unix.max_dgram_qlen=512"], check=True)
    # As Debian's nginx.conf has it.
    if "user" not in real_servers.AROUND["nginx"]:
        real_servers.AROUND["nginx"] = "user www-data;" + real_servers.AROUND["nginx"]
    documented = real_servers.snippet("nginx")
    if kind == "format":
        documented = documented.replace("nohostname configtron", "nohostname combined")
    real_servers.snippet = lambda name: documented
    log, port = folder / "run" / "log", real_servers.free_port()
    log.parent.mkdir()
    source, database = EndedSockets((port,)), make_database(folder, full=kind == "disk")
    with running_outcomes(log, source) as outcomes:
        # The socket is of nginx's group, unless this kind withholds it.
        os.chown(log, 0, 0 if kind == "socket" else grp.getgrnam("www-data").gr_gid)
        log.chmod(0o660)
        log.parent.chmod(0o700 if kind == "folder" else 0o755)
        with real_servers.running("nginx", folder, log, outcomes.port, port=port):
            words = ("doctor", kind, log, database, outcomes.port, port)
            command = [sys.executable, "-m", "tests.support.broken_host", *map(str, words)]
            before = WITHOUT_BPF if kind == "bpf" else ()
            done = subprocess.run([*before, *command], capture_output=True, text=True, check=True)
    print(json.dumps({"checks": json.loads(done.stdout), "counts": outcomes.counts(), "rows": len(outcomes.rows)}))


if __name__ == "__main__":
    if sys.argv[1] == "doctor":
        doctor(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]), int(sys.argv[6]))
    else:
        main(sys.argv[1], Path(sys.argv[2]))
