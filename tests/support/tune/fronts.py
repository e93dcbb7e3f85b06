# SPDX-License-Identifier: MIT
"""Three real servers in front of two real pools, in the server's namespace: configuration, starting, asking."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

from configtron.lab.internet.links import listens
from configtron.lab.internet.nginx import nginx_temporary
from configtron.linux.netns import inside
from tests.support.children import child
from tests.support.tune.two_hosts import SERVER, SERVER6, Hosts
from tests.support.waiting import PATIENCE_S, until

FRONT_PORT, POOL_PORTS = 443, (8441, 8442, 8443, 8444)
# Of the pool `new` alone: neither nginx's default nor another server's.
STREAMS = 37
MAX_CONCURRENT_STREAMS = 3  # RFC 9113 section 6.5.2
PROGRAMS = {"nginx": "nginx", "haproxy": "haproxy", "apache": "apache2"}

NGINX = """
include /etc/nginx/modules-enabled/*stream*.conf;
pid {folder}/{name}.pid; error_log {folder}/{name}.log; daemon off; worker_processes 1;
events {{ worker_connections 64; }}
"""

# Two instances' worth of servers in one program: each pool is a socket of its own, with its own HTTP.
POOLS = """
http {{
    access_log off; {temporary}
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    server {{ listen 127.0.0.1:8441 ssl; location / {{ return 200 "old $server_protocol\\n"; }} }}
    server {{ listen 127.0.0.1:8443; location / {{ return 200 "old $server_protocol\\n"; }} }}
    server {{ listen 127.0.0.1:8442 ssl http2; http2_max_concurrent_streams 37;
              location / {{ return 200 "new $server_protocol\\n"; }} }}
    server {{ listen 127.0.0.1:8444 http2; location / {{ return 200 "new $server_protocol\\n"; }} }}
}}
"""

FRONTS = {
    "nginx": NGINX
    + """
stream {{
    geo $configtron_pool {{ include {map}; }}
    upstream old {{ server 127.0.0.1:8441; }}
    upstream new {{ server 127.0.0.1:8442; }}
    server {{ listen 443; listen [::]:443; proxy_pass $configtron_pool; }}
}}
""",
    "haproxy": """
defaults
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend clients
    mode tcp
    bind :::443 v4v6
    use_backend %[src,map_ip({map})]
backend old
    mode tcp
    server first 127.0.0.1:8441
backend new
    mode tcp
    server first 127.0.0.1:8442
""",
    "apache": """
ServerRoot /etc/apache2
ServerName front
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/apache.log
Listen 443 http
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule rewrite_module /usr/lib/apache2/modules/mod_rewrite.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
LoadModule proxy_http2_module /usr/lib/apache2/modules/mod_proxy_http2.so
LoadModule proxy_balancer_module /usr/lib/apache2/modules/mod_proxy_balancer.so
LoadModule lbmethod_byrequests_module /usr/lib/apache2/modules/mod_lbmethod_byrequests.so
LoadModule slotmem_shm_module /usr/lib/apache2/modules/mod_slotmem_shm.so
RewriteEngine on
RewriteMap pools "prg:{python} -P -m configtron.tune.router.lookup {map}"
RewriteRule ^/(.*)$ balancer://${{pools:%{{REMOTE_ADDR}}|old}}/$1 [P]
<Proxy balancer://old>
    BalancerMember http://127.0.0.1:8443
</Proxy>
<Proxy balancer://new>
    BalancerMember h2c://127.0.0.1:8444
</Proxy>
""",
}


@contextmanager
def running(hosts: Hosts, name: str, folder: Path, **words: str) -> Iterator[Path]:
    """The pools and a front, serving until the block ends; the front's configuration file."""
    request = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=front -days 2"
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([*request.split(), *files], check=True, capture_output=True)
    pools, front = folder / "pools.conf", folder / f"{name}.conf"
    pools.write_text((NGINX + POOLS).format(folder=folder, name="pools", temporary=nginx_temporary(f"{folder}/")))
    front.write_text(FRONTS[name].format(folder=folder, name=name, **words))
    commands = {
        "nginx": ["nginx", "-c", str(front), "-e", str(folder / "nginx.log")],
        "haproxy": ["haproxy", "-W", "-f", str(front), "-p", str(folder / "haproxy.pid")],
        "apache": ["apache2", "-f", str(front), "-DFOREGROUND"],
    }
    begin = ["nginx", "-c", str(pools), "-e", str(folder / "pools.log")]
    with serving(hosts, begin, POOL_PORTS), serving(hosts, commands[name], [FRONT_PORT]):
        yield front


@contextmanager
def serving(hosts: Hosts, command: Sequence[str], ports: Sequence[int]) -> Iterator[None]:
    """A program in the server's namespace that listens."""
    whole = ["ip", "netns", "exec", hosts.server, *command]
    with child(whole, SIGTERM, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        until(lambda: process.poll() is not None or all(listens(hosts.server, port) for port in ports))
        assert process.poll() is None, process.communicate()[0]
        yield


def missing(name: str) -> str:
    absent = [program for program in {PROGRAMS[name], "nginx", "curl"} if not shutil.which(program)]
    return f"needs {', '.join(absent)}" if absent else ""


def curl(hosts: Hosts, client: str, scheme: str = "https") -> str:
    """What curl is given: pool and protocol, then the protocol that curl itself spoke."""
    host = f"[{SERVER6}]" if ":" in client else SERVER
    words = ["curl", "-sk", "--max-time", f"{PATIENCE_S:g}", "--interface", client, "-w", "%{http_version}"]
    whole = ["ip", "netns", "exec", hosts.client, *words, f"{scheme}://{host}:{FRONT_PORT}/"]
    return " ".join(subprocess.run(whole, capture_output=True, text=True).stdout.split())


@contextmanager
def tls(hosts: Hosts, client: str) -> Iterator[ssl.SSLSocket]:
    """A TLS connection that offers both versions of HTTP."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2", "http/1.1"])
    with inside(hosts.client):
        raw = socket.socket(socket.AF_INET6 if ":" in client else socket.AF_INET)
    raw.settimeout(PATIENCE_S)
    raw.bind((client, 0))
    raw.connect((SERVER6 if ":" in client else SERVER, FRONT_PORT))
    with context.wrap_socket(raw) as wrapped:
        yield wrapped


def settings(hosts: Hosts, client: str) -> dict[int, int]:
    """The first SETTINGS frame that the client is sent; nothing where HTTP/2 is not agreed to."""
    with tls(hosts, client) as wrapped:
        if wrapped.selected_alpn_protocol() != "h2":
            return {}
        wrapped.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        head = _exactly(wrapped, 9)
        body = _exactly(wrapped, int.from_bytes(head[:3], "big"))
        return dict(struct.iter_unpack(">HI", body)) if head[3] == 4 else {}


def _exactly(wrapped: ssl.SSLSocket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += wrapped.recv(size - len(found))
    return found
