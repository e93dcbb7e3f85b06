# SPDX-License-Identifier: MIT
"""Check that log lines and beacons reach the reader. What this sends does not count.

Question   Do a page's log line and its beacon reach `learn serve` or an agent, and can it read them?
Method     Send `TEST_LINE` from a child process with the user, groups and root folder of the web server; the reader
           answers with its counts. Request a page from the web server; the counts show what became of its line. Post a
           beacon with `TEST_QUERY`.
Reads as   three `Check`s
Fails as   "not possible here" where no process reads, none serves pages, or this one is not root
"""

from __future__ import annotations

import grp
import http.client
import json
import os
import pwd
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from configtron.intake.pageloads.intake import BEACON_PATH, TEST_QUERY
from configtron.intake.pageloads.log_lines import TEST_LINE
from configtron.intake.receiving.http_endpoint import beacons_at
from configtron.linux.privileges import become, in_child
from configtron.linux.proc import LISTENING, PortHolder, port_holders, tcp_lines
from configtron.model.checks import GREEN, NOT_HERE, RED, Check
from configtron.service.outcomes.web_setup import UNIT

# The user of Debian's web servers, for a host where none runs.
DEFAULT_USER = "www-data"
# Apache's lines go through a logger that its first process starts, before it gives up root.
APACHE = ("apache2", "httpd")
# s to wait for an answer, of the reader (it is busy for a second while it learns) and of the web server.
ANSWER_S, PAGE_S = 5.0, 5.0
# s between two looks for the log line, and how many: a web server logs milliseconds after its answer.
LOG_S, TRIES = 0.05, 20
START_READER = "configtron learn serve --setup nginx (or apache, haproxy), or for an agent docs/fleet.md"
# After a restart of its reader, nginx loses the first line of each of its processes: request five pages.
TRIES_OF_A_PAGE = 4
NAME_SOCKET = "name its socket: configtron doctor --log-socket PATH"
# The counts of the reader are some hundred bytes.
LONGEST_ANSWER = 65_536
# Reason that a line cannot be used -> what was found, what to do.
FORMAT = "copy its lines from docs/learn.md (Set up nginx, HAProxy, Apache by hand), then: systemctl reload {program}"
USELESS = {
    "line-unreadable": ("are not in the log format that the reader understands", FORMAT),
    "line-without-token": ("have no token", FORMAT),
    "line-proxied": ("have no port of the client: a proxy is in front", "run configtron on the host of the proxy"),
    "line-clock": ("have a time that is not near their arrival", "synchronise the clock: timedatectl set-ntp true"),
}


def delivery_checks(log_path: Path, beacons: str, ports: Collection[int]) -> list[Check]:
    """Check a log line, its format and a beacon. beacons: HOST:PORT. Errors: `BadInput`."""
    sender = sender_of(port_holders(ports))
    answer = _send_as(log_path, sender) if sender else ""
    checks = [line_check(log_path, sender, answer, ports)]
    if sender and answer.startswith("{"):
        checks.append(_format_check(log_path, sender, Counter(json.loads(answer)), ports))
    return [*checks, beacon_check(beacons, answer.startswith("{"))]


def sender_of(holders: Sequence[PortHolder]) -> PortHolder | None:
    """Return the process that logs, whose rights a test line needs; if none serves, a process of `DEFAULT_USER`."""
    if holders:
        apache = any(one.program in APACHE for one in holders)
        return min(holders, key=lambda one: one.uid if apache else -one.uid)
    try:
        user = pwd.getpwnam(DEFAULT_USER)
    except KeyError:
        return None
    groups = tuple(os.getgrouplist(user.pw_name, user.pw_gid))
    return PortHolder(os.getpid(), DEFAULT_USER, user.pw_uid, user.pw_gid, groups)


def send_test_line(path: Path) -> str:
    """Send a test line; return the reader's counts as JSON, or why none came: "closed PATH", "unread", "silent"."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
        end.bind("")  # an abstract address, chosen by the kernel
        end.settimeout(ANSWER_S)
        try:
            end.connect(str(path))
            end.send(TEST_LINE)
            return end.recv(LONGEST_ANSWER).decode()
        except PermissionError:
            closed = (folder for folder in reversed(path.parents) if not os.access(folder, os.X_OK))
            return f"closed {next(closed, path)}"
        except (FileNotFoundError, ConnectionRefusedError):
            return "unread"
        except TimeoutError:
            return "silent"


def _send_as(path: Path, sender: PortHolder) -> str:
    """Send a test line with the sender's rights; return "" where this process may not take them, else as above."""

    def as_sender() -> str:
        try:
            become(f"/proc/{sender.pid}/root", sender.uid, sender.gid, sender.groups)
        except OSError:
            return ""
        return send_test_line(path)

    return in_child(as_sender)


def line_check(path: Path, sender: PortHolder | None, answer: str, ports: Collection[int], unit: Path = UNIT) -> Check:
    """Judge the answer to a test line ("": none was sent). unit: of the reader; a file where it is set up."""
    row = partial(Check, "learn", "log line as the web server's user")
    if sender is None:
        found = f"no process serves port {', '.join(map(str, ports))}, and no user is {DEFAULT_USER}"
        return row(NOT_HERE, found, "name the web server's port: configtron doctor --port PORT")
    user, group = _name(pwd.getpwuid, sender.uid), _name(grp.getgrgid, sender.gid)
    if not answer:
        return row(NOT_HERE, f"only root can send as {user}", "sudo configtron doctor")
    word, _, closed = answer.partition(" ")
    if answer.startswith("{"):
        return row(GREEN, f"{path}: the reader received a test line from {user}")
    if word == "closed" and closed == str(path):
        then = f"chgrp {group} {path}; for good: start its reader (learn serve, tune agent) with --log-group {group}"
        return row(RED, f"{user} may not write to the socket {path}", then)
    if word == "closed":
        return row(RED, f"{user} may not enter the folder {closed}", f"chgrp {group} {closed} && chmod g+x {closed}")
    if word == "unread":
        state, then = (NOT_HERE, START_READER) if not unit.exists() else (RED, f"see why: journalctl -u {unit.stem}")
        return row(state, f"no process reads {path}", f"{then}; or {NAME_SOCKET}")
    found = f"does not answer {user} within {ANSWER_S:g} s" if word == "silent" else f"cannot be reached: {answer}"
    return row(RED, f"the reader of {path} {found}", "start it again: systemctl restart configtron-serve")


def _name(look_up: Callable[[int], pwd.struct_passwd | grp.struct_group], number: int) -> str:
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)


def _format_check(path: Path, sender: PortHolder, before: Counter[str], ports: Collection[int]) -> Check:
    """Request a page from the web server until its line comes, and judge what became of the line."""
    after, served = before, ""
    for at in range(TRIES):
        if at % TRIES_OF_A_PAGE == 0 and not (served := _request_page(ports)):
            break
        time.sleep(LOG_S)
        answer = _send_as(path, sender)
        after = Counter(json.loads(answer)) if answer.startswith("{") else after
        if after["heard"] > before["heard"]:
            break
    return format_check(before, after, served, sender.program)


def format_check(before: Counter[str], after: Counter[str], served: str, program: str) -> Check:
    """Judge the reader's counts before and after the request of a page; if no line came meanwhile, judge all lines
    since the reader began. served: the address that served the page, "" for none."""
    row, new = partial(Check, "learn", "log format"), after["heard"] - before["heard"]
    counts, lines = (after - before, new) if new else (after, after["heard"])
    if not lines and not served:
        then = "name the web server's port: configtron doctor --port PORT"
        return row(NOT_HERE, "no web server answers, and no line came yet", then)
    if not lines:
        return row(RED, f"{served} served a page, and {program} sent no line", FORMAT.format(program=program))
    for reason, (found, then) in USELESS.items():
        if 2 * counts[reason] > lines:
            text = f"the lines of {program} {found}: {counts[reason]} of {lines} ({reason})"
            return row(RED, text, then.format(program=program))
    return row(GREEN, f"the lines of {program} are understood ({lines} came)")


def _request_page(ports: Collection[int]) -> str:
    """Request a page's head, by loopback where the server listens there; return the address that answered, or ""."""
    for one in sorted(tcp_lines(), key=lambda line: line.port):
        if one.state != LISTENING or one.port not in ports:
            continue
        address = ip_address(one.local)
        host = str(address) if not address.is_unspecified else "127.0.0.1" if address.version == 4 else "::1"
        page = http.client.HTTPConnection(host, one.port, timeout=PAGE_S)
        with suppress(OSError, http.client.HTTPException), closing(page):
            page.request("HEAD", "/", headers={"Connection": "close"})
            # A TLS port answers 400 to plain HTTP, and may log no page.
            if page.getresponse().status != http.client.BAD_REQUEST:
                return f"{host} port {one.port}"
    return ""


def beacon_check(beacons: str, is_read: bool) -> Check:
    """Post a test beacon. is_read: a process reads log lines, so it must receive beacons too. Errors: `BadInput`."""
    row, (host, port) = partial(Check, "learn", "beacon by loopback"), beacons_at(beacons)
    then = f"{START_READER}; or name its address: configtron doctor --beacons HOST:PORT"
    try:
        with closing(http.client.HTTPConnection(host, port, timeout=ANSWER_S)) as endpoint:
            endpoint.request("POST", f"{BEACON_PATH}?{TEST_QUERY}", b"{}")
            status = endpoint.getresponse().status
    except (OSError, http.client.HTTPException):
        return row(RED if is_read else NOT_HERE, f"no process receives beacons at {beacons}", then)
    if status != http.client.NO_CONTENT:
        return row(RED, f"{beacons} answers {status}: another program, or a flood", then)
    return row(GREEN, f"{beacons} received a test beacon")
