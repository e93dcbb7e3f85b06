# SPDX-License-Identifier: MIT
"""`learn serve --setup`: what page loads need of nginx, Apache or HAProxy, and of systemd, written and taken back.

Question   How does this host's web server send log lines and beacons, without a file edited by hand?
Method     Whole files of our own (`marked_lines.signed`), and marked lines in the files of sites. The server's own test
           judges the result; what it refuses is taken back at once.
Stop when  every file is as it should be: the same command again changes nothing.
Fails as   `BadInput` where the server refuses the result or has no site, `Refused` for a file that a human changed,
           `Missing` without the server or the right to write.
"""

from __future__ import annotations

import grp
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.learner.receiving.http_endpoint import beacons_at
from configtron.learner.receiving.log_socket import FOLDER_MODE, WANTED_QUEUE, queue_length
from configtron.model.errors import BadInput, Missing, Refused, cannot_write, no_permission
from configtron.service.lease.systemd_units import place_warning, program
from configtron.service.outcomes import web_server_texts as texts
from configtron.service.outcomes.marked_lines import (
    in_haproxy_frontends,
    in_nginx_servers,
    is_as_written,
    signed,
    without_added,
)
from configtron.service.outcomes.web_group import PORTS, web_group
from configtron.tune.fleet_units import AGENT_STATE, SERVE, serve_unit

NGINX_HTTP, NGINX_LOCATION = Path("/etc/nginx/conf.d/configtron.conf"), Path("/etc/nginx/configtron-location.conf")
APACHE, HAPROXY = Path("/etc/apache2/conf-enabled/configtron.conf"), Path("/etc/haproxy/haproxy.cfg")
UNIT, TMPFILES = Path("/etc/systemd/system", SERVE), Path("/etc/tmpfiles.d/configtron-serve.conf")
# Of an agent that has joined a manager: it takes the page loads, and needs no unit of ours.
JOINED = Path(AGENT_STATE, "manager.json")
TESTS = {"nginx": ["nginx", "-t"], "apache": ["apachectl", "configtest"],
         "haproxy": ["haproxy", "-c", "-f", str(HAPROXY)]}  # fmt: skip
# Groups of each server's workers, where it does not run.
GROUPS = {"nginx": ("www-data", "nginx"), "apache": ("www-data", "apache"), "haproxy": ("haproxy",)}
SERVICES = {"nginx": "nginx", "apache": "apache2", "haproxy": "haproxy"}


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """server: a key of `TESTS`; beacons, log_path, log_group, ports: as of `learn serve`, None or "" for its own."""

    server: str
    beacons: str = texts.BEACONS
    log_path: Path | None = None
    log_group: str = ""
    ports: tuple[int, ...] = PORTS


def set_up(options: SetupOptions) -> list[str]:
    """Write what is needed; return what was done and what to do next, line by line. Errors: see above."""
    beacons_at(options.beacons)
    tested(options.server)
    own = own_files(options)
    for path in own:
        if (now := read(path)) is not None and not is_as_written(now):
            raise Refused(f"{path} was changed by hand: move it away, then run this again")
    sites = with_lines(options)
    if options.server != "apache" and sites == {path: without_added(text) for path, text in sites.items()}:
        ports = " or ".join(map(str, options.ports))
        raise BadInput(f"no site of {options.server} is on port {ports}: write one first, or name its port by --port")
    done = change({**own, **sites}, options.server)
    reload = f"systemctl reload {SERVICES[options.server]}"
    start = f"systemctl daemon-reload && systemctl enable --now {SERVE} && " if UNIT in own else ""
    return [
        *done,
        *filter(None, [place_warning(program()[0])]),
        f"next: systemd-tmpfiles --create {TMPFILES.name} && {start}{reload}",
    ]


def take_back(server: str) -> list[str]:
    """Take back what `set_up` wrote; return what was done, line by line. Errors: see above."""
    paths = {"nginx": [NGINX_HTTP, NGINX_LOCATION], "apache": [APACHE], "haproxy": []}[server]
    own = {path: read(path) for path in (*paths, UNIT, TMPFILES)}
    kept = [f"kept {path}: it was changed by hand" for path, text in own.items() if text and not is_as_written(text)]
    sites = {path: without_added(text) for path, text in site_files(server).items()}
    gone = {path: None for path, text in own.items() if text and is_as_written(text)}
    done = change({**sites, **gone}, server)
    following = f"next: systemctl disable --now {SERVE}; systemctl daemon-reload; systemctl reload {SERVICES[server]}"
    return [*done, *kept, following]


def own_files(options: SetupOptions) -> dict[Path, str]:
    """Return the files of our own. Errors: `BadInput` and `Missing` for the group."""
    group = web_group(options.log_group, options.ports, GROUPS[options.server])
    if group is None:
        raise Missing(f"the group of {options.server} is unknown here; run this as root, and name it by --log-group")
    name, path = grp.getgrgid(group).gr_name, seen_from_here(options)
    words = ["--beacons", options.beacons, "--log-socket", str(path), "--log-group", name]
    words += [word for port in options.ports for word in ("--port", str(port))]
    queue = f"w /proc/sys/net/unix/max_dgram_qlen - - - - {WANTED_QUEUE}\n" if queue_length() <= WANTED_QUEUE else ""
    folder = f"# The folder of the web server's log socket, and how many log lines the kernel queues.\nd {path.parent}"
    found = {TMPFILES: f"{folder} {FOLDER_MODE:o} root {name}\n{queue}"}
    if not JOINED.exists():
        found |= {UNIT: serve_unit(program(), words, str(path.parent))}
    if options.server == "nginx":
        found |= {NGINX_HTTP: texts.NGINX + texts.NGINX_LOG + texts.NGINX_HEADER, NGINX_LOCATION: texts.NGINX_LOCATION}
    if options.server == "apache":
        found |= {APACHE: texts.APACHE_MODULES + texts.APACHE}
    return {path: signed(placed(text, options)) for path, text in found.items()}


def with_lines(options: SetupOptions) -> dict[Path, str]:
    """Return the files of the server's sites with the lines that they need."""
    found = site_files(options.server)
    if options.server == "nginx":
        log, header = placed(texts.NGINX_LOG, options).strip(), texts.NGINX_HEADER.strip()
        return {path: in_nginx_servers(text, options.ports, str(NGINX_LOCATION), log, header)
                for path, text in found.items()}  # fmt: skip
    first, last, backend = (placed(text, options).splitlines()
                            for text in (texts.HAPROXY_FIRST, texts.HAPROXY_LAST, texts.HAPROXY_BACKEND))  # fmt: skip
    return {path: in_haproxy_frontends(text, options.ports, first, last, backend) for path, text in found.items()}


def site_files(server: str) -> dict[Path, str]:
    """Return the files that lines are added to: nginx lists those that it reads. Errors: `BadInput`, `Missing`."""
    listed: list[Path] = {"haproxy": [HAPROXY]}.get(server, [])
    if server == "nginx":
        dumped = ran(["nginx", "-T"]).stdout
        listed = [Path(name) for name in re.findall(r"^# configuration file (.+):$", dumped, re.M)]
    own = (NGINX_HTTP, NGINX_LOCATION)
    return {path: text for path in listed if path not in own and (text := read(path)) is not None}


def seen_from_here(options: SetupOptions) -> Path:
    """Return the log socket's path; HAProxy's is within the folder that it changes its root to."""
    path = options.log_path or Path(texts.LOG_PATH)
    root = re.search(r"^\s*chroot\s+(\S+)", read(HAPROXY) or "", re.M) if options.server == "haproxy" else None
    return Path(f"{root[1]}{path}") if root and options.log_path is None else path


def placed(text: str, options: SetupOptions) -> str:
    """Return a text of `web_server_texts` for other places of the socket and of the beacons."""
    path = str(options.log_path or texts.LOG_PATH)
    return text.replace(texts.LOG_PATH, path).replace(texts.BEACONS, options.beacons)


def change(wanted: Mapping[Path, str | None], server: str) -> list[str]:
    """Write files, None: remove them; test the server's configuration, and put everything back where it is refused."""
    before = {path: read(path) for path in wanted}
    changed = [path for path in wanted if wanted[path] != before[path]]
    try:
        for path in changed:
            write(path, wanted[path])
        tested(server)
    except BaseException:
        for path in changed:
            write(path, before[path])
        raise
    done = [f"{'removed' if wanted[path] is None else 'wrote'} {path}" for path in changed]
    return [*(done or ["nothing to change"]), f"tested: {' '.join(TESTS[server])}"]


def tested(server: str) -> None:
    """Let the server test its configuration. Errors: `BadInput` with its last words; `Missing` without the server."""
    ran(TESTS[server])


def ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Return a program's result. Errors: `BadInput` where it fails, `Missing` without it."""
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not here; install it, or run this where the web server is, as root")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        shown = (done.stderr or done.stdout).strip().splitlines()
        # The reason is the first line of an error; the last ones state that there was one.
        why = next((line for line in shown if re.search("emerg|ALERT|[Ee]rror", line)), (shown or [""])[-1])
        raise BadInput(f"{' '.join(command)} refuses the configuration, and nothing was changed: {why}")
    return done


def read(path: Path) -> str | None:
    """Return a file's text, byte for byte; None without the file. Errors: `Missing`, `BadInput`."""
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise no_permission(path, error) from error
    except OSError as error:
        raise cannot_write(path, error) from error


def write(path: Path, text: str | None) -> None:
    """Write a file's text, or remove the file; owner and mode stay. Errors: `Missing`, `BadInput`, `Unwritten`."""
    try:
        if text is None:
            path.unlink(missing_ok=True)
        elif path.parent.is_dir():
            path.write_bytes(text.encode(errors="surrogateescape"))
        else:
            raise Missing(f"no folder {path.parent} here: this setup is for Debian's layout; see docs/outcomes.md")
    except PermissionError as error:
        raise no_permission(path, error) from error
    except OSError as error:
        raise cannot_write(path, error) from error
