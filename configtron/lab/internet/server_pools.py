# SPDX-License-Identifier: MIT
"""Configuration of the real server programs: nginx, Apache, a frame-level Python server, Node, and a misbehaving one.

Each program runs once, in its own namespace, on wildcard sockets; the address that a connection came to decides what it
finds. Servers are not tuned to make probing easy: buffers, `tcp_nopush`, header and body writes are the programs' own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.internet import misbehaving
from configtron.lab.internet.addresses import bracketed
from configtron.lab.internet.nginx import nginx_temporary
from configtron.lab.internet.shares import INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, MAX_FRAME_SIZE
from configtron.lab.internet.sites import SiteServer

# A memory file system of the guest; hidden from the command that the guest runs.
FOLDER = Path("/run/world")
SERVERS = Path(__file__).parent.with_name("servers")
# Larger than all connections that five vantages open at once, so that no SYN is lost to a full queue.
BACKLOG = 16384
# RFC 9113 section 6.5.2.
RFC_WINDOW = 65535
# What nginx, Apache add to the connection's window at once: 2**31 - 1 in all.
FULL_WINDOW_UPDATE = 2**31 - 1 - RFC_WINDOW
# Node adds nothing; the Python server adds what Go's servers do, to be seen apart.
H2LIB_WINDOW_UPDATE = 983041


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """One server on its program: the certificate's file name without suffix, the settings, its addresses."""

    certificate: str
    server: SiteServer
    addresses: tuple[str, ...]


def settings(program: str, server: SiteServer) -> tuple[tuple[int, int], ...]:
    """Return the SETTINGS that this program announces for that server, in its order."""
    streams = (MAX_CONCURRENT_STREAMS, server.max_concurrent_streams)
    window = (INITIAL_WINDOW_SIZE, server.initial_window_size)
    if program == "nginx":
        return streams, window, (MAX_FRAME_SIZE, dict(server.extra_settings)[MAX_FRAME_SIZE])
    if program == "apache":
        # mod_http2 leaves out a window that is RFC 9113's own
        return (streams,) if server.initial_window_size == RFC_WINDOW else (streams, window)
    if program == "node":
        return tuple(sorted((*server.extra_settings, streams, window)))
    if program == "odd":
        return misbehaving.settings(server.impairment, _plain(server))
    return _plain(server)


def _plain(server: SiteServer) -> tuple[tuple[int, int], ...]:
    """In the order of the Python servers."""
    streams, window = server.max_concurrent_streams, server.initial_window_size
    return ((MAX_CONCURRENT_STREAMS, streams), *server.extra_settings, (INITIAL_WINDOW_SIZE, window))


def window_update(program: str) -> int:
    """Return the increment on stream 0 that follows the SETTINGS; 0 is none."""
    return {
        "nginx": FULL_WINDOW_UPDATE, "apache": FULL_WINDOW_UPDATE, "h2lib": H2LIB_WINDOW_UPDATE, "node": 0,
        "odd": H2LIB_WINDOW_UPDATE,
    }[program]  # fmt: skip


def page(page_bytes: int) -> Path:
    """Return the folder that holds the page of that size as index.html."""
    return FOLDER / "www" / str(page_bytes)


def command(name: str, program: str, python: str) -> tuple[str, ...]:
    """Return the command that runs a pool's program in the foreground."""
    return {
        "nginx": ("nginx", "-c", str(FOLDER / f"{name}.conf"), "-e", str(FOLDER / f"{name}.log")),
        "apache": ("apache2", "-f", str(FOLDER / "apache.conf"), "-DFOREGROUND"),
        "h2lib": (python, str(SERVERS / "h2lib.py"), str(FOLDER / "h2lib.json")),
        "node": ("node", str(SERVERS / "node.js"), str(FOLDER / "node.json")),
        "odd": (python, "-m", "configtron.lab.servers.odd", str(FOLDER / "odd.json")),
    }[program]


def configuration(name: str, program: str, hosts: Sequence[VirtualHost]) -> tuple[str, str]:
    """Return (file name, text) of the configuration of a pool's program."""
    if program == "nginx":
        return f"{name}.conf", _nginx(name, hosts)
    if program == "apache":
        return f"{name}.conf", _apache(hosts)
    return f"{name}.json", _rows(program, hosts)


# What distinguishes two servers to their program: certificate, version, streams, window, page, nopush, h2c.
_Kind = tuple[str, bool, int, int, int, bool, bool]


def _kinds(hosts: Sequence[VirtualHost]) -> dict[_Kind, list[str]]:
    """Addresses by what the program must do differently for them, in the order of first use."""
    kinds: dict[_Kind, list[str]] = {}
    for host in hosts:
        server, h2 = host.server, host.server.http_version == "h2"
        streams, window = (server.max_concurrent_streams, server.initial_window_size) if h2 else (0, 0)
        kind = (host.certificate, h2, streams, window, server.page_bytes, server.nopush, server.h2c)
        kinds.setdefault(kind, []).extend(bracketed(address) for address in host.addresses)
    return kinds


def _has_six(hosts: Sequence[VirtualHost]) -> bool:
    return any(":" in address for host in hosts for address in host.addresses)


def _pair(certificate: str) -> tuple[Path, Path]:
    return FOLDER / "tls" / f"{certificate}.pem", FOLDER / "tls" / f"{certificate}.key"


def _nginx(name: str, hosts: Sequence[VirtualHost]) -> str:
    """One server block for each kind; only the wildcard sockets are bound, nginx finds the block by address."""
    blocks = []
    for (certificate, h2, streams, window, page_bytes, nopush, _), addresses in _kinds(hosts).items():
        chain, key = _pair(certificate)
        lines = [f"listen {address}:80;\nlisten {address}:443 ssl{' http2' if h2 else ''};" for address in addresses]
        lines += [f"root {page(page_bytes)};\nssl_certificate {chain};\nssl_certificate_key {key};"]
        lines += ["tcp_nopush on;"] if nopush else []
        lines += [f"http2_max_concurrent_streams {streams};\nhttp2_body_preread_size {window};"] if h2 else []
        blocks.append("server {\n" + "\n".join(lines) + "\n}")
    chain, key = _pair(hosts[0].certificate)
    temporary = nginx_temporary(f"{FOLDER}/{name}_")
    six = f"listen [::]:80 backlog={BACKLOG};\nlisten [::]:443 ssl backlog={BACKLOG};" * _has_six(hosts)
    return f"""daemon off;
user root;
pid {FOLDER}/{name}.pid;
worker_processes 1;
events {{ worker_connections 30000; accept_mutex off; }}
http {{
access_log off;
default_type text/html;
sendfile on;
tcp_nodelay on;
keepalive_timeout 75;
ssl_session_tickets off;
ssl_session_cache off;
{temporary}
server {{
listen 80 backlog={BACKLOG};
listen 443 ssl backlog={BACKLOG};
{six}
ssl_certificate {chain};
ssl_certificate_key {key};
return 404;
}}
{chr(10).join(blocks)}
}}
"""


APACHE_MODULES = ("mpm_event", "authz_core", "mime", "dir", "socache_shmcb", "ssl", "http2")


def _apache(hosts: Sequence[VirtualHost]) -> str:
    """One pair of virtual hosts for each kind, found by address."""
    sections = []
    for (certificate, h2, streams, window, page_bytes, _, h2c), addresses in _kinds(hosts).items():
        chain, key = _pair(certificate)
        plain, secure = (" ".join(f"{address}:{port}" for address in addresses) for port in (80, 443))
        same = f"ServerName lab.example\nDocumentRoot {page(page_bytes)}\n"
        limits = f"H2MaxSessionStreams {streams}\nH2WindowSize {window}\n" if h2 else ""
        tls = f"SSLEngine on\nSSLCertificateFile {chain}\nSSLCertificateKeyFile {key}\n"
        sections += [
            f"<VirtualHost {plain}>\n{same}Protocols {'h2c ' * h2c}http/1.1\n</VirtualHost>",
            f"<VirtualHost {secure}>\n{same}Protocols {'h2 ' * h2}http/1.1\n{limits}{tls}</VirtualHost>",
        ]
    modules = "\n".join(f"LoadModule {name}_module modules/mod_{name}.so" for name in APACHE_MODULES)
    # Debian's takes both families by one socket
    everywhere = "[::]" if _has_six(hosts) else "0.0.0.0"
    return f"""ServerRoot /usr/lib/apache2
PidFile {FOLDER}/apache.pid
DefaultRuntimeDir {FOLDER}
Mutex fcntl:{FOLDER}
ErrorLog {FOLDER}/apache.log
LogLevel error
User www-data
Group www-data
ServerName lab.example
{modules}
TypesConfig /etc/mime.types
DirectoryIndex index.html
SSLSessionTickets off
# one process; threads enough that no vantage waits for another
StartServers 1
ServerLimit 1
ThreadLimit 256
ThreadsPerChild 256
MaxRequestWorkers 256
AsyncRequestWorkerFactor 64
KeepAlive On
KeepAliveTimeout 75
ListenBacklog {BACKLOG}
Listen {everywhere}:80
Listen {everywhere}:443
<Directory {FOLDER}/www>
Require all granted
</Directory>
{chr(10).join(sections)}
"""


def _rows(program: str, hosts: Sequence[VirtualHost]) -> str:
    """Return the JSON that h2lib.py, node.js and odd.py read: distinct sites, and which address is which."""
    rows: list[dict[str, object]] = []
    seen: dict[str, int] = {}
    by_address: dict[str, int] = {}
    for host in hosts:
        chain, key = _pair(host.certificate)
        row: dict[str, object] = {
            "page": str(page(host.server.page_bytes) / "index.html"),
            "chain": str(chain),
            "key": str(key),
        }
        if program == "odd":
            pairs, increment = _plain(host.server), window_update(program)
            row |= misbehaving.row(host.server.impairment, host.server.http_version, pairs, increment)
        else:
            row |= {
                "http_version": host.server.http_version,
                "settings": settings(program, host.server),
                "window_update": window_update(program),
            }
        text = json.dumps(row, sort_keys=True)
        if text not in seen:
            seen[text] = len(rows)
            rows.append(row)
        by_address |= dict.fromkeys(host.addresses, seen[text])
    return json.dumps({"sites": rows, "by_address": by_address}, indent=1, sort_keys=True) + "\n"
