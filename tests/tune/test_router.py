# SPDX-License-Identifier: MIT
"""A real nginx, HAProxy and Apache lead two prefixes to two real pools; maps are checked, taken in, and taken back."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from signal import SIGTERM

import pytest

from configtron.cli.outermost import run
from configtron.db.tuning import Tuning
from configtron.lab.internet.links import listens
from configtron.lab.internet.nginx import nginx_temporary
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Refused
from configtron.model.nouns import Profile
from configtron.model.tuning import Rules
from configtron.tune import router
from configtron.tune.pools import map_text, pool_of, routing
from tests.support.children import child
from tests.support.tune.routed import hosts_of_module
from tests.support.tune.two_hosts import CLIENTS, CLIENTS6, SERVER, SERVER6, Hosts
from tests.support.waiting import PATIENCE_S, until

__all__ = ["hosts_of_module"]

# Three real servers in front of two real pools, in the server's namespace: configuration, starting, asking.

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
UPSTREAMS = """
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
    pools.write_text((NGINX + UPSTREAMS).format(folder=folder, name="pools", temporary=nginx_temporary(f"{folder}/")))
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


POOLS = [pool_of("old:http_version=http/1.1"), pool_of(f"new:http_version=h2,h2_max_concurrent_streams={STREAMS}")]
PROFILES = {"modern": Profile("modern", (("http_version", "h2"),))}
NO_CLIENTS = routing(Rules(PROFILES), POOLS)
SECOND = routing(Rules(PROFILES, {"10.2.0.0/16": "modern", "fd02::/32": "modern"}), POOLS)


def eventually(read: Callable[[], object], expected: object) -> None:
    """A reload is asked for, and done a moment later."""
    until(lambda: read() == expected, read)


@pytest.mark.root
@pytest.mark.parametrize("name", ["nginx", "haproxy"])
def test_connections_are_led_by_prefix(hosts: Hosts, tmp_path: Path, name: str) -> None:
    if why := missing(name):
        pytest.skip(why)
    file = tmp_path / "pools.map"
    file.write_text(map_text(name, NO_CLIENTS))
    with running(hosts, name, tmp_path, map=str(file)) as front, inside(hosts.server):
        server = router.server(name, config=str(front), pid_file=str(front.parent / "haproxy.pid"))
        assert {curl(hosts, client) for client in (*CLIENTS, *CLIENTS6)} == {"old HTTP/1.1 1.1"}
        with tls(hosts, CLIENTS[1]) as kept:
            assert router.publish(server, file, map_text(name, SECOND))
            eventually(lambda: curl(hosts, CLIENTS[1]), "new HTTP/2.0 2")
            kept.sendall(b"GET / HTTP/1.1\r\nHost: front\r\nConnection: close\r\n\r\n")
            assert b"old HTTP/1.1" in b"".join(iter(lambda: kept.recv(4096), b"")), "a reload drops no connection"
        # a worker of before the reload may still take a connection that was queued
        led = ["old HTTP/1.1 1.1", "new HTTP/2.0 2", "old HTTP/1.1 1.1"] * 2
        eventually(lambda: [curl(hosts, client) for client in (*CLIENTS, *CLIENTS6)], led)
        assert settings(hosts, CLIENTS[1])[MAX_CONCURRENT_STREAMS] == STREAMS and settings(hosts, CLIENTS[0]) == {}
        assert not router.publish(server, file, map_text(name, SECOND)), "the same again is nothing to do"
        with pytest.raises(Refused, match="finds fault.*old map is back"):
            router.publish(server, file, "10.2.0.0/99 new;\n10.2.0.0/99\n")
        assert file.read_text() == map_text(name, SECOND)
        router.rollback(server, file)
        eventually(lambda: curl(hosts, CLIENTS[1]), "old HTTP/1.1 1.1")
        assert file.read_text() == map_text(name, NO_CLIENTS)


@pytest.mark.root
def test_requests_are_led_by_prefix_behind_apache(hosts: Hosts, tmp_path: Path) -> None:
    if why := missing("apache"):
        pytest.skip(why)
    file = tmp_path / "pools.map"
    file.write_text(map_text("apache", NO_CLIENTS))
    with running(hosts, "apache", tmp_path, map=str(file), python=sys.executable) as front, inside(hosts.server):
        # apache2ctl would read the environment of the host's own Apache
        server = router.server("apache", check=f"apache2 -t -f {front}", reload=f"apache2 -k graceful -f {front}")
        assert curl(hosts, CLIENTS[1], "http") == "old HTTP/1.1 1.1"
        router.publish(server, file, map_text("apache", SECOND))
        for clients in (CLIENTS, CLIENTS6):
            # the client speaks Apache's HTTP, the pool is asked in its own
            eventually(lambda clients=clients: curl(hosts, clients[1], "http"), "new HTTP/2.0 1.1")  # type: ignore[misc]
            assert curl(hosts, clients[0], "http") == "old HTTP/1.1 1.1"
        with pytest.raises(Refused, match="line 1: .* is not PREFIX POOL.*old map is back"):
            router.publish(server, file, "10.2.0.0/99 new\n")
        router.rollback(server, file)
        eventually(lambda: curl(hosts, CLIENTS[1], "http"), "old HTTP/1.1 1.1")


def test_the_old_map_is_back_where_the_server_says_no(tmp_path: Path) -> None:
    file = tmp_path / "pools.map"
    with pytest.raises(BadInput, match="no server is called 'cat'"):
        router.server("cat")
    assert router.server("haproxy").pid_file == router.SERVERS["haproxy"].pid_file
    says_yes, says_no = (router.server("nginx", check=check, reload="true") for check in ("true", "false"))
    for check, reload, stated in (
        ("sh -c 'echo no >&2; exit 1'", "true", "finds fault.*: no;"),
        ("true", "false", "does not reload: exit code 1"),
    ):
        with pytest.raises(Refused, match=stated):
            router.publish(router.server("nginx", check=check, reload=reload), file, "new\n")
        assert not file.exists(), "there was none before"
    file.write_text("old\n")
    file.chmod(0o640)
    with pytest.raises(Refused):
        router.publish(says_no, file, "new\n")
    assert file.read_text() == "old\n"
    assert router.publish(says_yes, file, "new\n")
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("new\n", 0o640)
    for content in ("old\n", "new\n"):
        router.rollback(says_yes, file)
        assert file.read_text() == content
    assert {path.name for path in tmp_path.iterdir()} == {"pools.map", "pools.map.old"}


@pytest.fixture
def db(tmp_path: Path) -> str:
    path = tmp_path / "x.db"
    with Tuning(path) as book:
        book.set_profiles(PROFILES.values())
        book.set_prefixes({"10.2.0.0/16": "modern"})
    return str(path)


def test_the_command(db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--db", db, "tune", "router", "nginx", "--pool", "old:http_version=http/1.1"]
    new = ["--pool", "new:http_version=h2", "--map", str(tmp_path / "m"), "--check", "true", "--reload", "true"]
    assert run([*words, *new, "-n"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["default old;", "10.2.0.0/16 new;"]
    assert not (tmp_path / "m").exists()
    assert run([*words, *new, "-f", "csv"]) == 0
    assert capsys.readouterr() == (
        "pool,prefixes,default\nnew,1,false\nold,0,true\n", f"{tmp_path / 'm'}: in force\n",
    )  # fmt: skip
    assert (tmp_path / "m").read_text().splitlines()[1:] == ["default old;", "10.2.0.0/16 new;"]
    assert run([*words, *new]) == 0 and "nothing done" in capsys.readouterr().err
    assert run(words) == 2 and "which map?" in capsys.readouterr().err
    assert run([*words, *new, "--rollback"]) == 2 and "no map before" in capsys.readouterr().err


NEW = ["--pool", "new:http_version=h2"]


@pytest.mark.parametrize(
    ("name", "how", "code", "words"),
    [
        ("nginx", [*NEW, "--check", "absent-program"], 5, "absent-program is not here; run: apt-get install nginx"),
        ("haproxy", [*NEW, "--check", "true", "--pid-file", "/nowhere/haproxy.pid"], 5, "/nowhere/haproxy.pid"),
        ("nginx", [*NEW, "--check", "false"], 6, "the old map is back"),
        ("nginx", [*NEW, "--check", "true", "--reload", "false"], 6, "does not reload"),
        ("nginx", [*NEW, "--check", '"'], 2, "is no command"),
        ("nginx", [*NEW, "--map", "/nowhere/m", "--check", "true", "--reload", "true"], 2, "/nowhere"),
        ("nginx", [*NEW, "--check", "true", "--rollback"], 2, "there is no map before this one"),
        ("nginx", [], 2, "no pool serves http_version=h2"),
        ("cat", NEW, 2, "'cat'"),
    ],
)
def test_exit_codes_are_those_of_the_help(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, how: list[str], code: int, words: str
) -> None:
    pools = ["--pool", "old:http_version=http/1.1", "--map", str(tmp_path / "m")]
    assert run(["--db", db, "tune", "router", name, *pools, *how]) == code
    assert words in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_a_driver_is_not_asked_for_what_a_pool_decides(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Tuning(Path(db)) as book:
        book.set_profiles([Profile("modern", (("http_version", "h2"), ("initcwnd", 20)))])
    assert run(["--db", db, "-q", "tune", "--driver", "memory", "plan", "-f", "csv"]) == 0
    printed = capsys.readouterr().out
    assert "initcwnd" in printed and "http_version" not in printed


@pytest.mark.parametrize("name", router.SERVERS)
def test_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "router", name, "--example", "--map", "/etc/x.map", "--pool", "fast"]) == 0
    shown = capsys.readouterr().out
    assert "/etc/x.map" in shown and "fast" in shown and "{" + "map" not in shown
