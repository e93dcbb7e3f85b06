# SPDX-License-Identifier: MIT
"""`learn serve --local` on this kernel: nginx, clients of eight prefixes, beacons; then `kill -9`, and what is left.

    python -m tests.support.served_locally FOLDER DRIVER SECONDS

as root in namespaces of its own (`tests/support/isolation.py`); prints what was seen as JSON. SECONDS is the longest
wait for rows of some epochs.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from configtron.db.fleet import FleetStore
from tests.support import real_servers
from tests.support.real_servers import running

PORT, ENDPOINT, PREFIXES, CLIENTS = 8080, 9315, 8, 8
EPOCH_S, AGENT = 10, "Mozilla/5.0 (X11; Linux x86_64) Chrome/140"
# s after a kill by which the lease of three seconds, and its watchdog's, has ended.
AFTER_S = 8.0


def address(prefix: int, client: int) -> str:
    return f"127.1.{prefix}.{client + 1}"


def load(source: str, identity: str, value_ms: float) -> None:
    """Load the page as a client, and send its beacon."""
    to = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5, source_address=(source, 0))
    to.request("GET", "/index.html", headers={"Host": "localhost", "User-Agent": AGENT})
    answer = to.getresponse()
    answer.read()
    token = re.search(r'"([^"]+)"', answer.headers.get("Server-Timing", ""))
    time.sleep(value_ms / 1000.0 + 0.02)
    if token:
        body = json.dumps({"v": 1, "id": identity, "t": token[1], "w": "load", "qs": 1.0, "ps": 2.0, "le": value_ms})
        headers = {"User-Agent": AGENT, "Origin": "http://localhost", "Host": "localhost"}
        to.request("POST", "/configtron/beacon", body, headers)
        to.getresponse().read()
    to.close()


def visit(stop: threading.Event, prefix: int) -> None:
    """Load pages as the clients of a prefix, in turn."""
    rng, turn = np.random.default_rng(prefix), 0
    while not stop.is_set():
        try:
            load(address(prefix, turn % CLIENTS), f"{prefix}-{turn}", 60.0 + 60.0 * float(rng.exponential()))
        except OSError:
            time.sleep(0.2)
        turn += 1
        stop.wait(0.1)


def settings_now() -> Counter[str]:
    """Return congestion control and window of an idle connection of each client, as the server has them."""
    clients = [http.client.HTTPConnection("127.0.0.1", PORT, source_address=(address(prefix, client), 0))
               for prefix in range(PREFIXES) for client in range(CLIENTS)]  # fmt: skip
    for one in clients:
        one.connect()
    time.sleep(0.3)
    shown = subprocess.run(["ss", "-tinH", "sport", "=", f":{PORT}"], capture_output=True, text=True, check=True).stdout
    for one in clients:
        one.close()
    found: Counter[str] = Counter()
    for line in shown.splitlines():
        control, window = re.match(r"\s+(\w+) ", line), re.search(r"\bcwnd:(\d+)", line)
        if control and window:
            found[f"{control[1]}/{window[1]}"] += 1
    return found


def main(folder: Path, driver: str, seconds: float) -> None:
    """Serve, visit, kill, look."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["sysctl", "-qw", "net.unix.max_dgram_qlen=512"], check=False)
    log, database = folder / "log", folder / "loop.db"
    options = {"driver": driver, "policy": "mab_nc", "epoch": EPOCH_S, "begin-with": 60, "least-clients": 4,
               "port": PORT, "beacons": f"127.0.0.1:{ENDPOINT}", "log-socket": log, "holdback": 0.2}  # fmt: skip
    command = [sys.executable, "-m", "configtron", "--db", str(database), "learn", "serve", "--local", "--no-stages"]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    real_servers.free_port = lambda: PORT  # type: ignore[assignment]
    with open(folder / "served", "w") as output:
        serving = subprocess.Popen(command, stdout=output, stderr=output)
        while not log.exists():
            if serving.poll() is not None:
                raise SystemExit((folder / "served").read_text())
            time.sleep(0.1)
        stop = threading.Event()
        with running("nginx", folder, log, ENDPOINT):
            before = settings_now()
            threads = [threading.Thread(target=visit, args=(stop, prefix)) for prefix in range(PREFIXES)]
            for thread in threads:
                thread.start()
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s and not _enough(stored(database)):
                time.sleep(1.0)
            during = settings_now()
            serving.send_signal(signal.SIGKILL)
            serving.wait()
            time.sleep(AFTER_S)
            after = settings_now()
            stop.set()
            for thread in threads:
                thread.join()
            seen = {"before": before, "during": during, "after": after, "log": (folder / "served").read_text()}
            print(json.dumps({**stored(database), **seen}))


def _enough(seen: dict[str, Any]) -> bool:
    """Whether several maps have drawn several profiles, and enough rows teach."""
    return seen["teach"] > 300 and len(seen["drawn"]) > 3 and seen["held"] > 0 and seen["epochs"] > 2


def stored(database: Path) -> dict[str, Any]:
    """Return what the database has: rows, those that teach, profiles and epochs drawn."""
    rows, after = [], 0
    with FleetStore(database) as store:
        while more := store.rows_after(after):
            rows, after = [*rows, *(row for _, row in more)], more[-1][0]
    return {
        "rows": len(rows), "teach": sum(row.teaches for row in rows),
        "why": Counter(row.why_not for row in rows if not row.teaches),
        "drawn": Counter(row.profile or "-" for row in rows if row.class_name),
        "epochs": len({row.epoch for row in rows if row.class_name}),
        "held": sum(row.held for row in rows), "without rtt": sum(row.rtt_ms is None for row in rows),
    }  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
