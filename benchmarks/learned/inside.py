# SPDX-License-Identifier: MIT
"""The tour's steps, run in the guest: explore, capture, import, learn, apply the rules, roll back.

    python -m benchmarks.learned.inside CLIENTS ROUNDS LOADS      writes found.json and captures into the output

Each round draws a profile for each prefix, evenly, so that its propensity is known; `tune` puts them in force, and
every client loads the page. `__main__.py`, outside the guest, checks the results.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.learned import place
from benchmarks.tuned.hands import Step, run
from benchmarks.tuned.inside import _capturing
from benchmarks.tuned.place import PORT, SETTLE_S, Client, fetched
from configtron.lab.uml.user_mode_linux import GUEST_OUTPUT
from tests.support.children import child

OUTPUT = Path(GUEST_OUTPUT)
DB = place.FOLDER / "configtron.db"
SEED = 1
# Profiles that are explored beside the untouched stack: fewer and more segments than its 10.
EXPLORED = {"small": "initcwnd=4", "large": "initcwnd=30"}
# Lines of a step's output that are printed.
SHOWN_LINES = 14


def main(count: int, rounds: int, loads: int) -> int:
    """Play, write down."""
    clients, steps = place.clients(count, SEED), []
    with place.raised(clients):
        fetched(clients)
        with _watching():
            steps += _explored(clients, rounds, loads)
        steps += _learned(share=1 / (len(EXPLORED) + 1))
        place.lossless(clients)
        _watched("untouched", clients)
        steps += _in_force(clients)
    lists = {name: _rows("tune", name, "list") for name in ("prefix", "profile")}
    found: dict[str, Any] = {"steps": steps, "clients": clients, **lists}
    (OUTPUT / "found.json").write_text(json.dumps(found))
    return 0


def _explored(clients: Sequence[Client], rounds: int, loads: int) -> list[Step]:
    chance = random.Random(SEED)
    steps = [_step("tune", "profile", "set", name, setting) for name, setting in EXPLORED.items()]
    for number in range(rounds):
        drawn = {client.prefix: chance.choice(("", *EXPLORED)) for client in clients}
        lines = "".join(f"{prefix} {name}\n" for prefix, name in drawn.items() if name)
        shown = number == 0
        steps.append(_step("tune", "prefix", "import", "--whole", "-", stdin=lines, shown=shown))
        steps.append(_step("tune", "apply", "--keep", shown=shown))
        place.visited(clients, loads, number)
        print(f"round {number + 1} of {rounds}: {len(clients) * loads} page loads", flush=True)
    return [*steps, _step("tune", "rollback"), _step("tune", "prefix", "drop", "--all")]


def _learned(share: float) -> list[Step]:
    """What was captured and logged, made into rules."""
    imported = ("--propensity", f"{share:.6f}", "--contexts", "last", str(place.LOG))
    steps = [_step("fingerprint", "contexts"), _step("learn", "import", *imported)]
    steps.append(_step("learn", "run", "--update-every", "100"))
    steps.append(_step("learn", "export", "--to-tune"))
    return [*steps, _step("tune", "plan")]


def _in_force(clients: Sequence[Client]) -> list[Step]:
    steps = [_step("tune", "apply", "--keep")]
    _watched("in force", clients)
    steps += [_step("tune", "verify"), _step("tune", "rollback")]
    _watched("rolled back", clients)
    return steps


def _watched(name: str, clients: Sequence[Client]) -> None:
    words = ["tcpdump", "-i", "eth0", "-w", str(OUTPUT / f"{name}.pcap"), "--immediate-mode", f"tcp port {PORT}"]
    with _capturing(words):
        fetched(clients)
        time.sleep(SETTLE_S)


@contextmanager
def _watching() -> Iterator[None]:
    """`fingerprint live` at the server's interface while the block lasts."""
    words = _words("fingerprint", "live", "-i", "eth0", "--filter", f"port {PORT}", "-o", "/dev/null")
    print(f"+ {_shown(words)} &", flush=True)
    with child(words, stderr=subprocess.PIPE, text=True) as live:
        time.sleep(SETTLE_S)
        try:
            yield
        finally:
            live.send_signal(signal.SIGINT)
            _, output = live.communicate()
            print(output.strip(), flush=True)


def _step(*words: str, stdin: str = "", shown: bool = True) -> Step:
    """A command of the product, printed with what it printed."""
    step = run(_words(*words), stdin)
    step = step._replace(command=_shown(_words(*words)))
    if shown or step.code:
        lines = step.output.rstrip().splitlines()
        more = [f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []
        print("\n".join([f"+ {step.command}", *lines[:SHOWN_LINES], *more, f"(exit code {step.code})"]), flush=True)
    return step


def _rows(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run([*_words(*words), "-f", "jsonl"]).output.splitlines()]


def _words(*words: str) -> list[str]:
    return [sys.executable, "-m", "configtron", "--db", str(DB), *words]


def _shown(words: Sequence[str]) -> str:
    return " ".join(("configtron", *words[5:]))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
