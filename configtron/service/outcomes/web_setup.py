# SPDX-License-Identifier: MIT
"""`learn serve --setup`: set nginx, Apache or HAProxy and systemd up for page loads, and undo that.

Question   How does this host's web server send log lines and beacons, without a file edited by hand?
Method     Write whole files (`marked_lines.signed`), and add marked lines to the files of sites. Let the server test
           its configuration. If it refuses it, restore every file.
Stop when  every file has its lines: the same command again changes nothing.
Fails as   `BadInput` where the server refuses the result or has no site, `Refused` for a file that a human changed,
           `Missing` without the server or the right to write.
"""

from __future__ import annotations

import grp
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from configtron.intake.receiving.http_endpoint import beacons_at
from configtron.intake.receiving.log_socket import FOLDER_MODE, WANTED_QUEUE, queue_length
from configtron.linux.xdg import JOINED
from configtron.model.errors import BadInput, ConfigtronError, Missing, Refused, path_errors
from configtron.service.lease.systemd_units import place_warning, program
from configtron.service.outcomes import web_server_texts as texts
from configtron.service.outcomes.marked_lines import (
    MARK,
    add_to_haproxy,
    add_to_nginx,
    is_silent,
    is_unchanged,
    signed,
    without_marked,
)
from configtron.service.outcomes.readiness import WEB_PORTS
from configtron.service.outcomes.web_group import web_group
from configtron.tune.fleet_units import SERVE, serve_unit

NGINX_HTTP, NGINX_LOCATION = Path("/etc/nginx/conf.d/configtron.conf"), Path("/etc/nginx/configtron-location.conf")
APACHE, HAPROXY = Path("/etc/apache2/conf-enabled/configtron.conf"), Path("/etc/haproxy/haproxy.cfg")
UNIT, TMPFILES = Path("/etc/systemd/system", SERVE), Path("/etc/tmpfiles.d/configtron-serve.conf")
TESTS = {"nginx": ["nginx", "-t"], "apache": ["apachectl", "configtest"],
         "haproxy": ["haproxy", "-c", "-f", str(HAPROXY)]}  # fmt: skip
SERVICES = {"nginx": "nginx", "apache": "apache2", "haproxy": "haproxy"}


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """server: a key of `TESTS`; beacons, log_path, log_group, ports: as of `learn serve`; None or "": its defaults;
    more: further words for its unit."""

    server: str
    beacons: str = texts.BEACONS
    log_path: Path | None = None
    log_group: str = ""
    ports: tuple[int, ...] = WEB_PORTS
    more: tuple[str, ...] = ()


def set_up(options: SetupOptions) -> list[str]:
    """Write files and lines; return what was done and what to do next, line by line. Errors: see above."""
    check_root()
    beacons_at(options.beacons)
    run(TESTS[options.server])
    own = own_files(options)
    for path in own:
        if (now := read(path)) is not None and not is_unchanged(now):
            raise Refused(f"{path} was changed by hand: run this with --undo, move it away, then run this again")
    sites = marked_sites(options)
    if options.server != "apache" and sites == {path: without_marked(text) for path, text in sites.items()}:
        ports = " or ".join(map(str, options.ports))
        raise BadInput(f"no site of {options.server} is on port {ports}: write one first, or name its port by --port")
    done = replace_files({**own, **sites}, options.server)
    by_path = {str(path): text for path, text in sites.items()}
    silent = [f"no line will come from {path}: remove `access_log off;` there" for path, text in by_path.items()
              if options.server == "nginx" and is_silent(text, options.ports, by_path)]  # fmt: skip
    reload = f"systemctl reload {SERVICES[options.server]}"
    lost = "" if UNIT in own or not options.more else f"not used: {' '.join(options.more)}: this host's agent has them"
    start = f"systemctl daemon-reload && systemctl enable --now {SERVE} && " if UNIT in own else ""
    return [
        *done,
        *silent,
        *filter(None, [place_warning(program()[0]), lost]),
        f"next: systemd-tmpfiles --create {TMPFILES.name} && {start}{reload}",
    ]


def take_back(server: str) -> list[str]:
    """Take back what `set_up` wrote; return what was done, line by line. Errors: see above."""
    check_root()
    paths = {"nginx": [NGINX_HTTP, NGINX_LOCATION], "apache": [APACHE], "haproxy": []}[server]
    own = {path: read(path) for path in (*paths, UNIT, TMPFILES)}
    kept = [f"kept {path}: it was changed by hand" for path, text in own.items() if text and not is_unchanged(text)]
    sites = {path: without_marked(text) for path, text in marked_files(server).items()}
    gone = {path: None for path, text in own.items() if text and is_unchanged(text) and path != UNIT}
    done, reload = [*replace_files({**sites, **gone}, server), *kept], f"systemctl reload {SERVICES[server]}"
    if unit := own[UNIT]:
        # Before its file goes: after that, systemd stops the unit by other rules than its own.
        done += stop_service()
        if is_unchanged(unit):
            write(UNIT, None)
            return [*done, f"removed {UNIT}", f"next: systemctl daemon-reload; {reload}"]
    return [*done, f"next: {reload}"]


def stop_service() -> list[str]:
    """Stop and disable the unit if it runs or is enabled; return what was done. Errors: `ConfigtronError`."""
    if shutil.which("systemctl") is None or None not in map(asked_systemd, ("is-active", "is-enabled")):
        return []
    if (why := asked_systemd("disable", "--now")) is not None:
        raise ConfigtronError(f"systemctl disable --now {SERVE}: {why}; its file is kept: stop it, then run this again")
    return [f"stopped and disabled {SERVE}"]


def asked_systemd(*words: str) -> str | None:
    """Return why systemd did not do this with the unit; None: it did."""
    done = subprocess.run(["systemctl", *words, SERVE], capture_output=True, text=True, errors="replace", check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def own_files(options: SetupOptions) -> dict[Path, str]:
    """Return the texts of the files that are wholly ours, by path. Errors: `BadInput` and `Missing` for the group."""
    group = web_group(options.log_group, options.ports, ())
    if group is None:
        raise Missing(f"the group of {options.server} shows when it runs: start it first, or name it by --log-group")
    name, path = grp.getgrgid(group).gr_name, socket_path(options)
    words = ["--beacons", options.beacons, "--log-socket", str(path), "--log-group", name]
    words += [*(word for port in options.ports for word in ("--port", str(port))), *options.more]
    queue = f"w /proc/sys/net/unix/max_dgram_qlen - - - - {WANTED_QUEUE}\n" if queue_length() <= WANTED_QUEUE else ""
    folder = f"# The folder of the web server's log socket, and how many log lines the kernel queues.\nd {path.parent}"
    found = {TMPFILES: f"{folder} {FOLDER_MODE:o} root {name}\n{queue}"}
    # The agent of a host that has joined a manager takes the page loads itself.
    if not JOINED.exists():
        found |= {UNIT: serve_unit(program(), words, str(path.parent))}
    if options.server == "nginx":
        found |= {NGINX_HTTP: texts.NGINX + texts.NGINX_LOG + texts.NGINX_HEADER, NGINX_LOCATION: texts.NGINX_LOCATION}
    if options.server == "apache":
        found |= {APACHE: texts.APACHE_MODULES + texts.APACHE}
    return {path: signed(with_addresses(text, options)) for path, text in found.items()}


def marked_sites(options: SetupOptions) -> dict[Path, str]:
    """Return the files of the server's sites, with the marked lines."""
    found = site_files(options.server)
    if options.server == "nginx":
        log, header = with_addresses(texts.NGINX_LOG, options).strip(), texts.NGINX_HEADER.strip()
        by_path = {str(path): text for path, text in found.items()}
        return {path: add_to_nginx(text, options.ports, str(NGINX_LOCATION), log, header, by_path)
                for path, text in found.items()}  # fmt: skip
    first, last, backend = (with_addresses(text, options).splitlines()
                            for text in (texts.HAPROXY_FIRST, texts.HAPROXY_LAST, texts.HAPROXY_BACKEND))  # fmt: skip
    return {path: add_to_haproxy(text, options.ports, first, last, backend) for path, text in found.items()}


def site_files(server: str) -> dict[Path, str]:
    """Return the files that get marked lines; nginx lists those that it reads. Errors: `BadInput`, `Missing`."""
    listed = nginx_files() if server == "nginx" else [HAPROXY] * (server == "haproxy")
    own = (NGINX_HTTP, NGINX_LOCATION)
    return {path: text for path in listed if path not in own and (text := read(path)) is not None}


def nginx_files() -> list[Path]:
    """Return the files that nginx reads. Errors: `BadInput`, `Missing`."""
    dumped = run(["nginx", "-T"]).stdout
    return [Path(name) for name in re.findall(r"^# configuration file (.+):$", dumped, re.M)]


def marked_files(server: str) -> dict[Path, str]:
    """Return the files with marked lines, also if nginx does not list its files: its test fails if a file of ours is
    missing."""
    try:
        return site_files(server)
    except BadInput:
        there = (path for path in NGINX_LOCATION.parent.rglob("*") if path.is_file())
        found = {path: read(path) or "" for path in there if path not in (NGINX_HTTP, NGINX_LOCATION)}
        return {path: text for path, text in found.items() if MARK in text}


def socket_path(options: SetupOptions) -> Path:
    """Return the log socket's path for the reader: HAProxy changes its root, so its socket is below that folder."""
    path = options.log_path or Path(texts.LOG_PATH)
    root = re.search(r"^\s*chroot\s+(\S+)", read(HAPROXY) or "", re.M) if options.server == "haproxy" else None
    return Path(f"{root[1]}{path}") if root and options.log_path is None else path


def with_addresses(text: str, options: SetupOptions) -> str:
    """Return a text of `web_server_texts` with these options' socket and address of beacons."""
    path = str(options.log_path or texts.LOG_PATH)
    return text.replace(texts.LOG_PATH, path).replace(texts.BEACONS, options.beacons)


def replace_files(wanted: Mapping[Path, str | None], server: str) -> list[str]:
    """Write files (None: remove), and let the server test them; restore all if it refuses. Return what was done."""
    before = {path: read(path) for path in wanted}
    changed = [path for path in wanted if wanted[path] != before[path]]
    try:
        for path in changed:
            write(path, wanted[path])
        run(TESTS[server])
        if wanted.get(NGINX_HTTP) and NGINX_HTTP not in nginx_files():
            raise BadInput(f"nginx does not read {NGINX_HTTP}, and nothing was changed: add this to the block http of"
                           f" nginx.conf: include {NGINX_HTTP.parent}/*.conf;")  # fmt: skip
    except BaseException:
        for path in changed:
            with suppress(ConfigtronError):
                write(path, before[path])
        raise
    done = [f"{'removed' if wanted[path] is None else 'wrote'} {path}" for path in changed]
    return [*(done or ["nothing to change"]), f"tested: {' '.join(TESTS[server])}"]


def check_root() -> None:
    """Raise `Missing` unless this process is root, which owns a web server's configuration and log."""
    if os.geteuid() != 0:
        raise Missing("only root may change a web server's configuration; run this as root")


def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a program. Errors: `BadInput` with its error line; `Missing` without the program."""
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not here; install it, or run this where the web server is, as root")
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", check=False)
    if done.returncode != 0:
        shown = (done.stderr or done.stdout).strip()
        # The first error line has the reason (Apache's the place, and the next line the reason); the last one only
        # states that the test failed.
        why = [*re.findall(r".*(?:emerg|ALERT|[Ee]rror)(?:.*:\n.*|.*)", shown), shown.rpartition("\n")[2]][0]
        why = " ".join(why.split())
        raise BadInput(f"{' '.join(command)} refuses the configuration, and nothing was changed: {why}")
    return done


def read(path: Path) -> str | None:
    """Return a file's text, byte for byte; None without the file. Errors: `Missing`, `BadInput`."""
    with path_errors(path), suppress(FileNotFoundError):
        return path.read_bytes().decode(errors="surrogateescape")
    return None


def write(path: Path, text: str | None) -> None:
    """Write a file's text, or remove the file; owner and mode stay. Errors: `Missing`, `BadInput`, `Unwritten`."""
    with path_errors(path):
        if text is None:
            path.unlink(missing_ok=True)
        elif path.parent.is_dir():
            _replace(path.resolve(), text.encode(errors="surrogateescape"))
        else:
            raise Missing(f"no folder {path.parent} here: this setup is for Debian's layout; see docs/learn.md")


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, also on a full disk or where the power fails. Errors: `OSError`."""
    # No pattern of an `include` has a name that begins with a dot.
    new = path.with_name(f".{path.name}.configtron")
    try:
        new.touch()
        if path.exists():
            shutil.copystat(path, new)
            os.chown(new, path.stat().st_uid, path.stat().st_gid)
        with new.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
