# SPDX-License-Identifier: MIT
"""A newer Debian package over an older one while agent and manager run and visitors load pages: what is lost?

    python -m benchmarks.package_upgrade ROOT OLD.deb NEW.deb [--seconds 30]     as root; needs systemd-nspawn

ROOT is a folder with a bare Debian 12 that has what the package and its users' web server need, for example:

    debootstrap --include=dbus,init-system-helpers,iproute2,libbpf1,nginx,python3,sudo bookworm ROOT

Two containers are booted from it: a manager, and a server with agent and nginx, deployed as docs/fleet.md says, with
OLD. A map draws one of two initial windows for each client. Twenty pages a second are loaded from a hundred addresses,
each with a beacon. The server is upgraded to NEW, then the manager; `--seconds` pass before, between and after.

Reads as   what was served, accepted and stored; windows of new connections; restarts. Exit code 1 unless each beacon
           that the agent received is one row or a rejection that it counted by name, every page was answered, each
           service was restarted once, and each client had its own window but while the agent was restarted, then
           Default's.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.package_upgrade import page_visits
from tests.support import ROOT
from tests.support.children import child
from tests.support.containers import NETWORK, Container, container, network, ran

NAMES = ("upgraded-manager", "upgraded-server", "upgraded-visitors")
MANAGER, SERVER, VISITORS = (f"{NETWORK}.{at}" for at in range(2, 5))
STATE, UNTOUCHED, WIDE = "/var/lib/configtron-manager", 10, 20
MANAGE = f"sudo -u configtron-manager configtron -q --db {STATE}/configtron.db learn manager"
MAP = {
    "profiles": {"wide": {"initcwnd": WIDE}, "default": {}},
    "mixes": {"near": {"wide": 0.5, "default": 0.5}},
    "prefixes": {"10.98.1.0/24": "near"},
    "bands": [[1000, "near"]],
    "holdback": 0.05,
    "epoch_s": 86400,
    "ports": [80],
    "lease_s": 3,
    "valid_s": 21600,
}
# s until an agent has its first map, and rows of the last page loads are at the manager.
FIRST_S, LAST_S = 60.0, 30.0
COUNT = "SELECT count(*), count(DISTINCT stream || '/' || sequence) FROM fleet_outcome"
UNITS = {"server": "configtron-agent", "manager": "configtron-manager"}


class Upgrade(NamedTuple):
    """One host's: wall clock before and after, s, and how often its service was started since."""

    host: str
    begun_s: float
    ended_s: float
    starts: int


def deploy(manager: Container, server: Container, package: str) -> None:
    """Install, enrol and start as docs/fleet.md says; return once the agent holds a map."""
    for each in (manager, server):
        each.run(f"dpkg -i /bound/{package} >/dev/null")
    unit = f"[Service]\nExecStart=\nExecStart=/usr/bin/configtron --db {STATE}/configtron.db"
    manager.run(
        f"echo '{json.dumps(MAP)}' > {STATE}/map.json; chmod 644 {STATE}/map.json\n"
        "folder=/etc/systemd/system/configtron-manager.service.d; mkdir $folder\n"
        f"echo '{unit} learn manager run --map {STATE}/map.json' > $folder/map.conf\n"
        "systemctl daemon-reload; systemctl -q enable --now configtron-manager; sleep 5"
    )
    join = manager.run(f"{MANAGE} enroll web1 --address tcp://{MANAGER}:5560").strip()
    server.run(
        f"{join}\nip route replace 10.98.0.0/16 via {VISITORS}\n"
        "echo CONFIGTRON_TUNE_AGENT_BEACONS=127.0.0.1:9315 >> /etc/default/configtron-agent\n"
        "sysctl -qw net.unix.max_dgram_qlen=512\n"
        "systemctl -q enable --now configtron-agent\n"
        "sed -n '/^```nginx/,/^```$/{/^```/!p}' /usr/share/doc/configtron/outcomes.md > /etc/nginx/conf.d/c.conf\n"
        "rm -f /etc/nginx/sites-enabled/default; mkdir -p /var/www/html\n"
        "echo '<!doctype html>' > /var/www/html/index.html"
    )
    _held(manager)
    server.run("systemctl restart nginx")


def _held(manager: Container) -> None:
    by = time.monotonic() + FIRST_S
    while '"held":"1.' not in (shown := manager.run(f"{MANAGE} agents -f jsonl").replace(" ", "")):
        if time.monotonic() > by:
            raise SystemExit(f"the agent has no map:\n{shown}")
        time.sleep(2.0)


def upgrade(host: Container, name: str, package: str) -> Upgrade:
    """Install the newer package on a host."""
    unit = UNITS[name]
    begun_s, before = time.time(), host.shown(unit, "MainPID")
    host.run(f"dpkg -i /bound/{package} >/dev/null")
    ended_s = time.time()
    if host.shown(unit, "ActiveState") != "active" or host.shown(unit, "MainPID") == before:
        raise SystemExit(f"{unit} does not run anew")
    return Upgrade(name, begun_s, ended_s, 0)


def starts(host: Container, done: Upgrade) -> Upgrade:
    """Return an upgrade with the number of starts since it began."""
    lines = host.run(f"journalctl -q -o cat -u {UNITS[done.host]} --since @{int(done.begun_s)}").splitlines()
    return done._replace(starts=sum(line.startswith("Started ") for line in lines))


def rows(manager: Container) -> tuple[int, int]:
    """Return the number of rows at the manager, and of different ones."""
    lines = (
        "import sqlite3",
        f"store = sqlite3.connect('file:{STATE}/configtron.db?mode=ro', uri=True)",
        f"print(*store.execute({COUNT!r}).fetchone())",
    )
    every, different = manager.run("python3 - <<'END'\n" + "\n".join(lines) + "\nEND\n").split()
    return int(every), int(different)


def rejected(server: Container) -> Counter[str]:
    """Return the beacons that the agent counted under another name than accepted, by that name."""
    lines = server.run("journalctl -q -o cat -u configtron-agent | grep -o 'page loads: .*' || true").splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        for number, reason in re.findall(r"(\d+) ([a-z-]+)", line):
            found[reason] += int(number)
    return Counter({reason: count for reason, count in found.items() if reason not in ("beacons", "accepted")})


def notes(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def findings(
    visits: list[dict[str, Any]], stored: tuple[int, int], named: Counter[str], upgrades: list[Upgrade]
) -> Iterator[str]:
    """Yield what was lost, doubled or restarted too often; prints the counts."""
    answers = Counter((each["page"], each["beacon"]) for each in visits)
    accepted = sum(1 for each in visits if each["beacon"] == 204)
    lost = sorted(each["at_s"] for each in visits if each["beacon"] != 204)
    served = sum(count for (page, _), count in answers.items() if page == 200)
    print(f"{len(visits)} pages, {served} answered 200; {accepted} beacons received; {stored[0]} rows, "
          f"{stored[1]} of them different; rejected {dict(named)}")  # fmt: skip
    if lost:
        print(f"{len(lost)} beacons not received, within {lost[-1] - lost[0]:.1f} s: "
              f"{dict(Counter(each['beacon'] for each in visits if each['beacon'] != 204))}")  # fmt: skip
    for each in upgrades:
        print(f"{each.host}: upgraded in {each.ended_s - each.begun_s:.1f} s, its service started {each.starts} times")
    if stored[0] != stored[1] or stored[0] + named.total() != accepted:
        yield "rows and rejections differ from the beacons received"
    if any(each["page"] != 200 for each in visits):
        yield "a page was not answered"
    if any(each.starts != 1 for each in upgrades):
        yield "a service was not restarted exactly once"


def spells(moments: list[float], apart_s: float = 3.0) -> list[tuple[float, float]]:
    """Return (first, last) of each run of moments that are no further apart than `apart_s`; they are in order."""
    found: list[tuple[float, float]] = []
    for at_s in moments:
        if found and at_s - found[-1][1] <= apart_s:
            found[-1] = (found[-1][0], at_s)
        else:
            found.append((at_s, at_s))
    return found


def strange_windows(windows: list[dict[str, Any]], server: Upgrade) -> Iterator[str]:
    """Yield what new connections had that was neither drawn nor Default; prints how long Default applied."""
    by_client = defaultdict(list)
    for each in windows:
        by_client[each["client"]].append((each["at_s"], each["window"]))
    drawn = {client: Counter(window for _, window in seen).most_common(1)[0][0] for client, seen in by_client.items()}
    away = sorted(at_s for client, seen in by_client.items() for at_s, window in seen if window != drawn[client])
    print(f"windows of {len(windows)} new connections of {len(drawn)} clients: {dict(Counter(drawn.values()))} drawn; "
          f"{len(away)} had another one")  # fmt: skip
    for first_s, last_s in spells(away):
        print(
            f"  from {first_s - server.begun_s:.1f} to {last_s - server.begun_s:.1f} s after the server's upgrade began"
        )
    if set(drawn.values()) != {UNTOUCHED, WIDE}:
        yield "the map was not in force: clients do not have both windows"
    if any(each["window"] not in (UNTOUCHED, WIDE) for each in windows):
        yield "a window that is neither of the two"
    if any(window == WIDE for client, seen in by_client.items() if drawn[client] != WIDE for _, window in seen):
        yield "a client of Default had the other window"
    if away and not server.begun_s <= away[0] <= away[-1] <= server.ended_s + FIRST_S:
        yield "a drawn window was missing apart from the server's upgrade"


def main() -> int:
    parser = argparse.ArgumentParser(description="Upgrade a running fleet's package while pages are loaded.")
    for name in ("root", "old", "new"):
        parser.add_argument(name, type=lambda word: Path(word).resolve())
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(network(NAMES))
        bound = [f"{path}:/bound/{path.name}" for path in (given.old, given.new)]
        manager, server = (stack.enter_context(container(given.root, name, bound)) for name in NAMES[:2])
        deploy(manager, server, given.old.name)
        visitors = [sys.executable, "-m", page_visits.__name__, SERVER, NAMES[1], str(folder)]
        with child(["ip", "netns", "exec", NAMES[2], *visitors], cwd=ROOT) as visiting:
            time.sleep(given.seconds)
            first = upgrade(server, "server", given.new.name)
            time.sleep(given.seconds)
            second = upgrade(manager, "manager", given.new.name)
            time.sleep(given.seconds)
            (folder / page_visits.ENOUGH).touch()
            visiting.wait()
        time.sleep(LAST_S)
        # Its last counts come when it ends.
        server.run("systemctl stop configtron-agent")
        upgrades = [starts(server, first), starts(manager, second)]
        print(f"{given.old.name} -> {given.new.name}; load {ran('cut', '-d ', '-f1', '/proc/loadavg').strip()}")
        bad = [*findings(notes(folder / "visits"), rows(manager), rejected(server), upgrades),
               *strange_windows(notes(folder / "windows"), first)]  # fmt: skip
        print(server.run("journalctl -q -o short-precise -u configtron-agent | cut -d ' ' -f 3,5-"))
        print(*(bad or ["nothing lost, nothing doubled, no strange window"]), sep="\n")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
