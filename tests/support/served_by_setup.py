# SPDX-License-Identifier: MIT
"""Run `learn serve` as docs/learn.md says: a web server of Debian, `--setup`, the command of its unit, a browser.

    python -m tests.support.served_by_setup FOLDER [nginx|apache|haproxy]

as root in namespaces of its own (`support/isolation.py`): /etc is a copy, /run and what programs write to is empty.
Nothing here sets a configuration of the web server, an owner or a mode. Prints the results as JSON.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.tune.fleet_units import SERVE
from configtron.tune.journal import LEASED
from tests.support import ROOT
from tests.support.headless import HeadlessPage
from tests.support.waiting import PATIENCE_S, until

AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"
PAGE = '<!doctype html><title>hello</title><script src="/configtron/beacon.js" async></script><p>hello</p>'
UNIT, DATABASE = Path("/etc/systemd/system", SERVE), Path("/var/lib/configtron/configtron.db")
HAPROXY = ["haproxy", "-D", "-f", "/etc/haproxy/haproxy.cfg", "-p", "/run/haproxy.pid"]
START = {"nginx": ["nginx"], "apache": ["apachectl", "start"], "haproxy": HAPROXY}
RELOAD = {"nginx": ["nginx", "-s", "reload"], "apache": ["apachectl", "graceful"],
          "haproxy": ["sh", "-c", f"{shlex.join(HAPROXY)} -sf $(cat /run/haproxy.pid)"]}  # fmt: skip
PROGRAMS = {"nginx": "nginx", "apache": "apache2", "haproxy": "haproxy"}
# Debian's haproxy.cfg has no site, and HAProxy has no files.
SITE = "\nfrontend web\n    bind :80\n    default_backend pages\n\nbackend pages\n    server own 127.0.0.1:81\n"
CONFIGTRON = [sys.executable, "-m", "configtron"]


def own_host(folder: Path) -> None:
    """Give this mount namespace a copy of /etc, empty folders as of Debian's packages, and systemd's mounts."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"], check=True)
    shutil.copytree("/etc", folder / "etc", symlinks=True, ignore_dangling_symlinks=True)
    subprocess.run(["mount", "--bind", folder / "etc", "/etc"], check=True)
    for place in ("/run", "/var/lib", "/var/log", "/var/www"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", place], check=True)
    for made in ("/run/lock", "/run/haproxy", "/var/lib/haproxy", "/var/lib/nginx", "/var/log/nginx",
                 "/var/log/apache2", "/var/lib/configtron", "/var/www/html"):  # fmt: skip
        Path(made).mkdir()
    Path("/var/www/html/index.html").write_text(PAGE)


def ran(command: list[str]) -> str:
    """Run a command that must succeed; return what it wrote to stderr."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stderr


def has_script() -> bool:
    """Return whether the web server answers by its new configuration: the one before has no script."""
    try:
        return bool(urlopen("http://127.0.0.1/configtron/beacon.js").read())
    except HTTPError:
        return False


def start_unit(folder: Path) -> subprocess.Popen[bytes]:
    """Start the command of the unit, with its rights if systemd is installed; wait until it is ready."""
    command = shlex.split(next(line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart="))[10:])
    if shutil.which("systemd-analyze"):
        ran(["systemd-tmpfiles", "--create", "configtron-serve.conf"])
        command = [sys.executable, str(ROOT / "tests" / "support" / "confined.py"), str(UNIT), "/var/lib"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(folder / "served", "w") as output:
        manager.bind(str(folder / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(folder / "notify")}
        serving = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            assert manager.recv(100) == b"READY=1"
        except TimeoutError:
            raise AssertionError((folder / "served").read_text()) from None
    return serving


def systemctl(folder: Path, pid: int) -> Path:
    """Return a folder with a `systemctl` that stops the service and its watchdogs, if it has its unit."""
    with AgentJournal(DATABASE) as journal:
        watchdogs = " ".join(each.watchdog.split()[0] for each in journal.acts(LEASED))
    made = folder / "bin" / "systemctl"
    made.parent.mkdir()
    made.write_text(f"""#!/bin/sh
case $1 in
is-active) exit 0 ;;
disable)
    test -f {UNIT} && kill {pid} && kill {watchdogs} || exit 1
    while ! grep -q ') Z' /proc/{pid}/stat; do sleep 0.1; done ;;
*) exit 1 ;;
esac
""")
    made.chmod(0o755)
    return made.parent


def rows() -> list[Any]:
    with FleetStore(DATABASE) as store:
        return [row for _, row in store.rows_after(0)]


def configuration() -> dict[str, bytes]:
    """Return the files of the servers and of systemd by path."""
    places = [Path("/etc", name) for name in ("nginx", "apache2", "haproxy", "systemd", "tmpfiles.d")]
    every = (path for place in places for path in place.rglob("*"))
    return {str(path): path.read_bytes() for path in every if path.is_file()}


def main(folder: Path, server: str) -> None:
    own_host(folder)
    if server == "haproxy":
        with open("/etc/haproxy/haproxy.cfg", "a") as site:
            site.write(SITE)
        files = [sys.executable, "-m", "http.server", "81", "--directory", "/var/www/html"]
        subprocess.Popen(files, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    before = configuration()
    ran(START[server])
    setup = [*CONFIGTRON, "learn", "serve", "--setup", server, "--sites", "*.a.org,b.org", "--no-stages"]
    seen: dict[str, Any] = {"first": ran(setup), "again": ran(setup)}
    by_hand = UNIT.read_text() + "# by hand"
    UNIT.write_text(by_hand)
    refused = subprocess.run(setup, capture_output=True, text=True, check=False)
    seen |= {"unit": by_hand, "refused": [refused.returncode, refused.stderr],
             "kept": UNIT.read_text() == by_hand}  # fmt: skip
    UNIT.write_text(by_hand.removesuffix("# by hand"))
    serving = start_unit(folder)
    ran(RELOAD[server])
    # Workers of both configurations answer for a moment.
    until(lambda: all(has_script() for _ in range(10)), (folder / "served").read_text)
    with (
        HeadlessPage("http://127.0.0.1/", 800, folder / "one", AGENT),
        HeadlessPage("http://127.0.0.1/", 800, folder / "two", AGENT),
    ):
        until(lambda: len(rows()) == 2, (folder / "served").read_text)
        found = rows()
    shown = subprocess.run(["ps", "-C", PROGRAMS[server], "-o", "user="], capture_output=True, text=True, check=True)
    seen["undone"] = ran(["env", f"PATH={systemctl(folder, serving.pid)}:{os.environ['PATH']}", *setup, "--undo"])
    seen["stopped"] = serving.wait(PATIENCE_S)
    seen["undone again"] = ran([*setup, "--undo"])
    seen["same"] = configuration() == before
    print(json.dumps({**seen, "rows": [(row.plt_ms, row.why_not) for row in found],
                      "users": sorted(set(shown.stdout.split())), "log": (folder / "served").read_text()}))  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
