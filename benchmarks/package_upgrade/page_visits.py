# SPDX-License-Identifier: MIT
"""Visitors: page loads with beacons from many addresses, and a look at the initial windows of some; JSON Lines.

    python -m benchmarks.package_upgrade.page_visits SERVER NAMESPACE FOLDER     in the visitors' network namespace

until FOLDER/enough exists. NAMESPACE is the server's, whose sockets are looked at.
Writes FOLDER/visits (a page load a line: when, and how page and beacon were answered) and FOLDER/windows (a new
connection a line: when, whose, and its congestion window as the server's kernel has it, before any data).
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
PREFIXES, CLIENTS = 20, 5
# s from one page load of a prefix to the next, and between two looks at windows.
EVERY_S, LOOK_S = 1.0, 0.5
ENOUGH = "enough"
Note = Callable[[dict[str, Any]], None]


def addresses() -> list[str]:
    return [f"10.98.{prefix + 1}.{client + 10}" for prefix in range(PREFIXES) for client in range(CLIENTS)]


def watched() -> list[str]:
    """Return the clients whose windows are looked at: one of each prefix."""
    return addresses()[::CLIENTS]


def load(server: str, source: str, identity: str) -> dict[str, Any]:
    """Load the page as a client, send its beacon, and return how both were answered."""
    began, at_s = time.monotonic(), time.time()
    to = http.client.HTTPConnection(server, 80, timeout=20, source_address=(source, 0))
    to.connect()
    connected_ms = (time.monotonic() - began) * 1e3
    to.request("GET", "/", headers={"Host": "web.example", "User-Agent": AGENT})
    page = to.getresponse()
    page.read()
    loaded_ms = (time.monotonic() - began) * 1e3 + 60.0 + random.expovariate(1 / 60.0)
    time.sleep(loaded_ms / 1e3)
    token = re.search(r'"([^"]+)"', page.headers.get("Server-Timing", ""))
    form = {"v": 1, "id": identity, "t": token[1] if token else "", "w": "load", "nt": "navigate", "cs": 0.0,
            "ce": connected_ms, "qs": connected_ms + 0.1, "ps": connected_ms + 1.0, "le": loaded_ms}  # fmt: skip
    headers = {"Host": "web.example", "User-Agent": AGENT, "Origin": "http://web.example"}
    to.request("POST", "/configtron/beacon", json.dumps(form), headers)
    beacon = to.getresponse()
    beacon.read()
    to.close()
    return {"at_s": at_s, "page": page.status, "beacon": beacon.status}


def visit(server: str, prefix: int, enough: Path, note: Note) -> None:
    """Load a page a second as the clients of a prefix, in turn."""
    turn = 0
    while not enough.exists():
        began = time.monotonic()
        source = addresses()[prefix * CLIENTS + turn % CLIENTS]
        try:
            note(load(server, source, f"{prefix:04x}{turn:012x}"))
        except (OSError, http.client.HTTPException) as error:
            note({"at_s": time.time(), "page": 0, "beacon": 0, "error": repr(error)})
        turn += 1
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))


def look(server: str, namespace: str, enough: Path, note: Note) -> None:
    """Look at the windows of a new connection of each watched client, again and again."""
    while not enough.exists():
        opened: dict[str, socket.socket] = {}
        at_s = time.time()
        for client in watched():
            one = socket.create_connection((server, 80), 5.0, (client, 0))
            opened[f"{client}:{one.getsockname()[1]}"] = one
        words = ["ip", "netns", "exec", namespace, "ss", "-tinH", "sport", "=", ":80"]
        lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        for first, second in zip(lines[::2], lines[1::2], strict=False):
            client = first.split()[-1].replace("[::ffff:", "").replace("]", "")
            window = re.search(r"\bcwnd:(\d+)", second)
            if client in opened and window:
                note({"at_s": at_s, "client": client.partition(":")[0], "window": int(window[1])})
        for one in opened.values():
            one.close()
        time.sleep(LOOK_S)


def main(server: str, namespace: str, folder: Path) -> None:
    """Visit and look until it is enough."""
    for each in addresses():
        subprocess.run(["ip", "addr", "replace", f"{each}/32", "dev", "host0"], check=True)
    enough, lock = folder / ENOUGH, threading.Lock()

    def noted(name: str) -> Note:
        file = (folder / name).open("w", buffering=1)

        def note(what: dict[str, Any]) -> None:
            with lock:
                file.write(json.dumps(what) + "\n")

        return note

    visits = noted("visits")
    threads = [threading.Thread(target=visit, args=(server, each, enough, visits)) for each in range(PREFIXES)]
    threads.append(threading.Thread(target=look, args=(server, namespace, enough, noted("windows"))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
