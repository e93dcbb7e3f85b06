# SPDX-License-Identifier: MIT
"""Real web servers with the configuration of docs/learn.md, on loopback, and a page of some objects."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from configtron.lab.internet.nginx import nginx_temporary
from tests.support import ROOT
from tests.support.waiting import PATIENCE_S

PROGRAMS = {"nginx": "nginx", "haproxy": "haproxy", "apache": "apache2"}
PAGE = '<!doctype html><title>page</title><script src="/configtron/beacon.js"></script><p>text</p>'
MODULES = "mpm_event unique_id headers authz_core mime dir proxy proxy_http"
AROUND = {
    "nginx": """
daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/errors; events {{ worker_connections 256; }}
http {{ types {{ text/html html; text/javascript js; }} {temporary}
{snippet} }}
""",
    "haproxy": """
global
    log stdout format raw local0
defaults
    timeout connect 5s
    timeout client 30s
    timeout server 30s
{snippet}
backend pages
    mode http
    server files 127.0.0.1:{files}
""",
    "apache": """
ServerRoot {folder}
{modules}
ServerName localhost
Listen 127.0.0.1:{port}
{user}
PidFile {folder}/pid
ErrorLog {folder}/errors
TypesConfig /etc/mime.types
DocumentRoot {folder}/www
{snippet}
""",
}
# Where the test is root: the users that the packages' own configurations name.
USERS = {"nginx": "user www-data;", "apache": "User www-data\nGroup www-data", "haproxy": ""}
COMMANDS = {
    "nginx": ["nginx", "-c", "{folder}/conf"],
    "haproxy": ["haproxy", "-f", "{folder}/conf"],
    "apache": ["apache2", "-X", "-f", "{folder}/conf"],
}


def absent(name: str) -> str:
    """Return why a server cannot run here; "" if it can."""
    program = PROGRAMS[name]
    if not shutil.which(program):
        return f"needs {program}: apt-get install {program}"
    return "" if name != "apache" or shutil.which("logger") else "needs logger: apt-get install bsdutils"


def snippet(name: str) -> str:
    """Return a server's configuration as the document has it."""
    found = re.search(rf"```{name}\n(.*?)```", (ROOT / "docs" / "learn.md").read_text(), re.S)
    assert found
    return found[1]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(
    name: str, folder: Path, log: Path, endpoint: int, page: str = PAGE, port: int = 0, listen: str = ""
) -> Iterator[int]:
    """Run a server; yield its port, a free one unless it is named. `listen`: nginx's lines in the place of one on
    loopback."""
    www, port = folder / "www", port or free_port()
    www.mkdir()
    (www / "index.html").write_text(page)
    (www / "object.txt").write_text("x" * 1000)
    for place in (folder, www):
        place.chmod(0o755)
    with files_of(www) as files:
        text = snippet(name).replace("/run/configtron/outcomes.log", str(log)).replace("/var/www/html", str(www))
        text = text.replace(":9315", f":{endpoint}").replace("listen 80;", listen or f"listen 127.0.0.1:{port};")
        text = text.replace("bind :80\n", f"bind 127.0.0.1:{port}\n")
        modules = "\n".join(f"LoadModule {one}_module /usr/lib/apache2/modules/mod_{one}.so" for one in MODULES.split())
        conf = AROUND[name].format(
            folder=folder, snippet=text, temporary=nginx_temporary(f"{folder}/t-"), port=port, files=files,
            modules=modules, user=USERS[name] if os.geteuid() == 0 else "",
        )  # fmt: skip
        (folder / "conf").write_text(conf)
        command = [word.format(folder=folder) for word in COMMANDS[name]]
        with open(folder / "output", "w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            _wait(port, process, folder)
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@contextmanager
def files_of(www: Path) -> Iterator[int]:
    """Serve the folder by a server of its own, for HAProxy, which has no files."""

    class Quiet(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Calm(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of clients that went away."""

    server = Calm(("127.0.0.1", 0), partial(Quiet, directory=str(www)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _wait(port: int, process: subprocess.Popen[bytes], folder: Path) -> None:
    for _ in range(200):
        assert process.poll() is None, (folder / "output").read_text() + (folder / "conf").read_text()
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError((folder / "output").read_text())
