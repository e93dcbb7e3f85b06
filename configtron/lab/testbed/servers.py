# SPDX-License-Identifier: MIT
"""Real web servers for the testbed's pages: nginx and Apache over TLS, HTTP/1.1 and HTTP/2 by ALPN, on port 443.

Question   What does a server that people run make of a page's requests?
Method     Bodies lie as files in a memory file system; the programs are Debian's, in the foreground, with what
           distributions set, but for logs and for session tickets, which would give a repeat a head start. Which origin
           is meant is in the name (SNI, Host), so that any address leads there.
Fails as   Missing, with the program's own words, when it is not installed or does not listen.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from configtron.lab.internet import links
from configtron.lab.internet.nginx import nginx_temporary
from configtron.lab.testbed.bodies import body
from configtron.lab.testbed.pages import PageModel
from configtron.lab.testbed.think_time import thinking
from configtron.linux.netns import enter
from configtron.model.errors import BadInput, Missing

FOLDER = Path("/run/bed")
# A program that has not opened its port by then has failed; it takes milliseconds.
PATIENCE_S = 30.0
# A server waits so long for a client that takes nothing: longer than any load lasts (shard.LIMIT_S).
PATIENT_S = 3600
# All connections of one load at once, and more.
BACKLOG = 4096
# Certificates are the same in every run; they protect nothing.
CERTIFICATE_SEED = 1
# Nothing in an answer may depend on when the guest began.
MODIFIED = 1_700_000_000
DEBIAN = {"nginx": ("nginx", "nginx-light"), "apache": ("apache2", "apache2")}
PROGRAMS = tuple(DEBIAN)
APACHE_MODULES = ("mpm_event", "authz_core", "mime", "socache_shmcb", "ssl", "http2", "headers")
# Where nginx asks before it answers, and how: a subrequest whose answer is awaited.
THINK_SOCKET = "think.sock"
THINK_LOCATION = (
    f"location = /think {{ internal; proxy_pass http://unix:{FOLDER}/{THINK_SOCKET}:/; "
    'proxy_pass_request_body off; proxy_set_header Content-Length ""; } '
)
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def start(
    pages: Iterable[PageModel],
    *,
    program: str = "nginx",
    netns: str = "servers",
    tls: Path | None = None,
    think_ms: float = 0.0,
    resumes: bool = False,
) -> Iterator[None]:
    """Serve all these pages, on every address of that namespace, until the block ends.

    tls        a folder that `certify` has filled for these pages; without one, certificates are made here
    think_ms   time before each answer begins (nginx alone); resumes: TLS sessions can be resumed
    Errors: `BadInput`, `Missing`.
    """
    if program not in DEBIAN:
        raise BadInput(f"no web server {program!r}; choose from {', '.join(PROGRAMS)}")
    executable, package = DEBIAN[program]
    if not shutil.which(executable):
        raise Missing(f"{executable} is not installed; run: apt-get install {package}")
    if think_ms and program != "nginx":
        raise BadInput(f"{program} has no think time; serve with nginx")
    held = list(pages)
    hosts = hosts_of(held)
    lay_out(held)
    if tls is None:
        certify(held, FOLDER / "tls")
    else:
        (FOLDER / "tls").symlink_to(tls)
    path, log = FOLDER / f"{program}.conf", FOLDER / f"{program}.log"
    text = nginx(hosts, resumes=resumes, thinks=think_ms > 0) if program == "nginx" else apache(hosts, resumes=resumes)
    path.write_text(text)
    command = {
        "nginx": [executable, "-c", str(path), "-e", str(log)],
        "apache": [executable, "-f", str(path), "-DFOREGROUND"],
    }[program]
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            preexec_fn=(lambda: enter(netns)) if netns else None,
        )
    try:
        with thinking(FOLDER / THINK_SOCKET, think_ms):
            _wait(process, netns, log)
            yield
    finally:
        # its whole session: a killed master leaves workers behind
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], netns: str, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not links.listens(netns, 443):
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"{process.args!r} does not listen:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.01)


def lay_out(pages: Sequence[PageModel]) -> None:
    """Bodies, in a memory file system of their own."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not os.path.ismount(FOLDER) and _libc.mount(b"bed", str(FOLDER).encode(), b"tmpfs", 0, None):
        raise Missing(f"cannot mount a file system on {FOLDER}: {os.strerror(ctypes.get_errno())}; run as root")
    for page in pages:
        for i, thing in enumerate(page.objects):
            path = Path(f"{FOLDER}/www/{page.origins[thing.origin]}{thing.path}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body(page, i))
            os.utime(path, (MODIFIED, MODIFIED))


def hosts_of(pages: Iterable[PageModel]) -> list[str]:
    """Return the names of all their origins."""
    return sorted({origin for page in pages for origin in page.origins})


def certify(pages: Iterable[PageModel], folder: Path) -> None:
    """A certificate for each origin, as HOST.pem and HOST.key; the same for the same name.

    Cheap on a host: a guest that makes them starts the cryptography library for it, a sixth of its boot.
    """
    from configtron.lab.internet.certificates import issue

    folder.mkdir(exist_ok=True)
    for host in hosts_of(pages):
        made = issue(CERTIFICATE_SEED, "configtron testbed", [host])
        (folder / f"{host}.pem").write_text(made.chain)
        (folder / f"{host}.key").write_text(made.key)


def nginx(hosts: Sequence[str], *, resumes: bool = False, thinks: bool = False) -> str:
    """Return its configuration; h1 and h2 on one port. With a think time each answer waits (`think_time.py`)."""
    think = "auth_request /think; " + THINK_LOCATION if thinks else ""
    rows = "\n".join(
        f"server {{ listen 443 ssl http2; server_name {host}; root {FOLDER}/www/{host}; {think}"
        f"ssl_certificate {FOLDER}/tls/{host}.pem; ssl_certificate_key {FOLDER}/tls/{host}.key; }}"
        for host in hosts
    )
    return f"""daemon off;
user root;
pid {FOLDER}/nginx.pid;
worker_processes 1;
events {{ worker_connections 8192; accept_mutex off; }}
http {{
access_log off;
include /etc/nginx/mime.types;
sendfile on;
tcp_nopush on;
keepalive_timeout 75;
# a stream that waits behind others for a minute is as patient as a connection of HTTP/1.1
send_timeout {PATIENT_S}s;
ssl_protocols TLSv1.2 TLSv1.3;
ssl_session_tickets {"on" if resumes else "off"};
ssl_session_cache off;
open_file_cache max=10000 inactive=1d;
add_header Access-Control-Allow-Origin *;
{nginx_temporary(f"{FOLDER}/")}
server {{
listen 443 ssl http2 default_server backlog={BACKLOG};
ssl_certificate {FOLDER}/tls/{hosts[0]}.pem;
ssl_certificate_key {FOLDER}/tls/{hosts[0]}.key;
return 404;
}}
{rows}
}}
"""


def apache(hosts: Sequence[str], *, resumes: bool = False) -> str:
    """Return its configuration, one process of many threads."""
    modules = "\n".join(f"LoadModule {name}_module modules/mod_{name}.so" for name in APACHE_MODULES)
    rows = "\n".join(
        f"<VirtualHost *:443>\nServerName {host}\nDocumentRoot {FOLDER}/www/{host}\nSSLEngine on\n"
        f"SSLCertificateFile {FOLDER}/tls/{host}.pem\nSSLCertificateKeyFile {FOLDER}/tls/{host}.key\n</VirtualHost>"
        for host in hosts
    )
    return f"""ServerRoot /usr/lib/apache2
PidFile {FOLDER}/apache.pid
DefaultRuntimeDir {FOLDER}
Mutex fcntl:{FOLDER}
ErrorLog {FOLDER}/apache.log
LogLevel error
User www-data
Group www-data
ServerName {hosts[0]}
{modules}
TypesConfig /etc/mime.types
SSLSessionTickets {"on" if resumes else "off"}
Protocols h2 http/1.1
StartServers 1
ServerLimit 1
ThreadLimit 64
ThreadsPerChild 64
MaxRequestWorkers 64
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 75
Timeout {PATIENT_S}
ListenBacklog {BACKLOG}
Listen 0.0.0.0:443
Header set Access-Control-Allow-Origin *
<Directory {FOLDER}/www>
Require all granted
</Directory>
{rows}
"""
