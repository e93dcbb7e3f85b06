# SPDX-License-Identifier: MIT
"""The tour's network: nginx in the guest, clients in prefixes of their own behind netem, and their page loads.

The gateway, its links and clients are those of `benchmarks/tuned/place.py`; here nginx logs in the documented format
(docs/learn.md), and links lose a packet now and then, so that no load is quite like the one before.
"""

from __future__ import annotations

import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

from benchmarks.tuned import place
from benchmarks.tuned.place import PATIENCE_S, PORT, RECEIVE_BYTES, SERVER4, Client
from configtron.lab.internet import links
from configtron.lab.internet.nginx import nginx_temporary
from configtron.linux.netns import inside

FOLDER = Path("/run/learned")
LOG = FOLDER / "access.log"
# A page that takes three flights from 10 segments and two from 30, an object that it names, and one that the page asks
# for when all has arrived: the server's log then knows when that was.
PAGE_BYTES, OBJECT_BYTES = place.PAGE_BYTES, 20_000
OBJECTS = ("/style.css", "/loaded.png")
LOSS_PERCENT = 0.2
# Mean time in which a browser parses a page before it requests an object, exponential: so loads differ.
THINK_S = 0.02
# Between a client's loads.
PAUSE_S = 3.0
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Linux; Android 14; Pixel 8) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Mobile"
    " Safari/537.36",
)
NGINX = """daemon off;
worker_processes 1;
user root;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
    log_format configtron '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent '
                          '"$http_referer" "$http_user_agent" request_time=$request_time msec=$msec host=$host '
                          'dest=$http_sec_fetch_dest tcpinfo_rtt=$tcpinfo_rtt tcpinfo_rttvar=$tcpinfo_rttvar';
    access_log {log} configtron;
    sendfile on;
    tcp_nopush on;
    {temporary}
    server {{ listen {port} sndbuf=200k; listen [::]:{port} sndbuf=200k; root {folder}/page; }}
}}
"""


def clients(count: int, seed: int) -> tuple[Client, ...]:
    """So many clients, each in a prefix of its own, with round trips from 20 to 400 ms."""
    chance = random.Random(seed)
    return tuple(
        Client(f"c{n:02}", f"10.{50 + n}.{chance.randrange(256)}.0/24", 2 * round(10 * 20 ** chance.random()))
        for n in range(count)
    )


@contextmanager
def raised(every: Sequence[Client]) -> Iterator[None]:
    """Gateway, clients and nginx, until the block ends."""
    place._gateway()
    for number, client in enumerate(every):
        place._client(client)
        links.netem("gateway", client.name, delay_ms=client.rtt_ms / 2, loss_percent=LOSS_PERCENT, seed=number + 1)
    server = _nginx()
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def _nginx() -> subprocess.Popen[bytes]:
    (FOLDER / "page").mkdir(parents=True)
    (FOLDER / "page" / "index.html").write_bytes(b"<p>configtron</p>\n" * (PAGE_BYTES // 18))
    for name in OBJECTS:
        (FOLDER / "page" / name[1:]).write_bytes(b"x" * (OBJECT_BYTES if name == OBJECTS[0] else 60))
    file = FOLDER / "nginx.conf"
    file.write_text(NGINX.format(folder=FOLDER, log=LOG, port=PORT, temporary=nginx_temporary(f"{FOLDER}/")))
    return place.started_nginx(file)


def lossless(every: Sequence[Client]) -> None:
    """From now on links lose nothing: a first flight of which a packet is lost shows no window."""
    for client in every:
        links.netem("gateway", client.name, delay_ms=client.rtt_ms / 2, seed=1)


def visited(every: Sequence[Client], loads: int, seed: int) -> None:
    """Every client loads the page so often, one connection a load, all clients at once. seed: of how long they think.
    Errors: `SystemExit`."""
    failed: list[str] = []

    def visits(number: int, client: Client) -> None:
        chance = random.Random(f"{seed} {client.name}")
        try:
            with inside(client.name):
                for _ in range(loads):
                    _load(AGENTS[number % len(AGENTS)], chance)
                    time.sleep(PAUSE_S)
        except (OSError, HTTPException) as error:
            failed.append(f"{client.name}: {error}")

    threads = [threading.Thread(target=visits, args=one) for one in enumerate(every)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"page loads failed: {failed[0]}")


def _load(agent: str, chance: random.Random) -> None:
    with socket.socket(socket.AF_INET) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        connection.settimeout(PATIENCE_S)
        connection.connect((SERVER4, PORT))
        place.got(connection, User_Agent=agent, Sec_Fetch_Dest="document")
        for name, dest in zip(OBJECTS, ("style", "image"), strict=True):
            time.sleep(chance.expovariate(1 / THINK_S))
            place.got(connection, name, User_Agent=agent, Referer="http://server/", Sec_Fetch_Dest=dest)
