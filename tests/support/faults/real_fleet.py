# SPDX-License-Identifier: MIT
"""A manager and an agent as the command line starts them, in folders of their own, to plant faults in.

    manager/   database and keys        may be a file system of its own, as may the other two
    agent/     keys, manager's address, spool
    tune/      journal of the root process

Their logs are `manager.log` and `agent.log` beside these folders.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configtron.db.agent_journal import AgentJournal
from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import manager_address
from configtron.model.fleet import OutcomeRow
from configtron.service.fleet import enrolment
from configtron.service.fleet.spool import Spool
from configtron.tune.drivers.route.table import TABLE
from tests.support.children import child
from tests.support.loopback import free_endpoint

ROW = OutcomeRow("", "", 0, 5, "a.example", "198.51.7.0/24", "0" * 16, 812.5)
LEASE_S = 6.0
# s after which an agent has done what it would do wrongly: three of its turns.
SETTLED_S = 3.0
# What a map of these tests has besides its prefixes.
FORM: Mapping[str, Any] = {"profiles": {"fast": {"initcwnd": 20}}, "mixes": {"near": {"fast": 1.0}}, "holdback": 0,
                           "lease_s": LEASE_S, "ports": [80]}  # fmt: skip


def prefixes(count: int) -> dict[str, str]:
    """Return so many /24 of 20.0.0.0 and above, all of one class."""
    return {f"{20 + (at >> 16)}.{at >> 8 & 255}.{at & 255}.0/24": "near" for at in range(count)}


def epoch_length(now_s: float) -> int:
    """Return a length of the epoch by which now is a quarter of an hour from a turn at least."""
    return next(one for one in (86_400, 80_000, 70_000) if 900 < now_s % one < one - 900)


class RealFleet:
    """One manager and the agent `web1`. `tune`: options of the verb, e.g. the driver; `form`: the map in JSON.

    enrolled  the folder is of an earlier run, whose files are used as they are
    """

    def __init__(self, folder: Path, tune: Sequence[str], form: Mapping[str, Any], *, enrolled: bool = False) -> None:
        self.folder, self._tune, self.endpoint = folder, list(tune), free_endpoint()
        self.database, self.keys = folder / "manager/m.db", folder / "manager/keys"
        self.agent_folder, self.journal = folder / "agent", folder / "tune/tune.db"
        self.epoch_s = int(form.get("epoch_s", epoch_length(time.time())))
        if enrolled:
            self.endpoint = manager_address(self.agent_folder).endpoint
            return
        folder.mkdir(exist_ok=True)
        self.publish(form)
        line = enrolment.enroll(self.database, self.keys, "web1", self.endpoint)
        enrolment.join(self.agent_folder, line, "root")

    def publish(self, form: Mapping[str, Any]) -> None:
        """Write the file of the map, which the manager reads again."""
        path = self.folder / "map.new"
        path.write_text(json.dumps({**FORM, "epoch_s": self.epoch_s, **form}))
        path.rename(self.folder / "map.json")

    def manager(self, *words: str) -> Any:
        """Run the manager for the length of a block."""
        return self._child("manager", self.database, "learn", "manager", "run", "--endpoint", self.endpoint, "--keys",
                           str(self.keys), "--map", str(self.folder / "map.json"), *words)  # fmt: skip

    def agent(self, *words: str) -> Any:
        """Run the agent for the length of a block."""
        return self._child("agent", self.journal, "tune", *self._tune, "agent", "--folder", str(self.agent_folder),
                           "--user", "root", *words)  # fmt: skip

    @contextmanager
    def _child(self, name: str, database: Path, *words: str) -> Iterator[subprocess.Popen[Any]]:
        command = [sys.executable, "-m", "configtron", "--db", str(database), *words]
        with (
            open(self.folder / f"{name}.log", "a") as output,
            child(command, signal.SIGTERM, stdout=output, stderr=output) as process,
        ):
            yield process

    def tuned(self, *words: str) -> str:
        """Run a command of `tune` on the agent's journal; return what it prints."""
        command = [sys.executable, "-m", "configtron", "--db", str(self.journal), "tune", *self._tune, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    def spool(self, boot: str, count: int) -> None:
        """Let rows of a start of the agent wait in its spool."""
        spool = Spool(self.agent_folder / "spool.db", "web1", boot=boot)
        spool.add([ROW] * count)
        spool.close()

    def stored(self) -> int:
        """Return how many rows the manager's database has, each of which has its own name."""
        with FleetStore(self.database) as store:
            names = [(row.agent, row.boot, row.sequence) for row in store.every_row()]
        assert len(names) == len(set(names))
        return len(names)

    def routes(self) -> int:
        """Return how many routes of ours there are in the agent's network namespace, as `ip` counts them."""
        words = ["ip", "-netns", self._tune[-1], "-o", "route", "show", "table", str(TABLE)]
        return subprocess.run(words, capture_output=True, text=True).stdout.count(" initcwnd 20")

    def lines(self, words: str, name: str = "agent") -> list[str]:
        """Return the lines of a log that have these words."""
        return [line for line in self.log(name).splitlines() if words in line]

    def log(self, name: str = "agent") -> str:
        """Return a log."""
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def logs(self) -> str:
        """Return the end of both logs."""
        return f"manager:\n{self.log('manager')[-3000:]}\nagent:\n{self.log()[-6000:]}"

    def held(self) -> str:
        """Return the map that the manager knows the agent to hold, "TERM.VERSION"; "": none."""
        with FleetStore(self.database) as store:
            found: str = json.loads(store.facts().get("agent web1", "{}")).get("held", "")
        return found

    def key(self) -> bytes:
        """Return the key by which the manager's maps draw."""
        with FleetStore(self.database) as store:
            return bytes.fromhex(store.facts()["maker"])

    def rows(self) -> list[OutcomeRow]:
        """Return the rows that the manager has."""
        with FleetStore(self.database) as store:
            return list(store.every_row())

    def frozen(self) -> list[tuple[str, str]]:
        """Return (scope, driver) of what is frozen on the agent's host."""
        with AgentJournal(self.journal) as journal:
            return [(each.scope, each.driver) for each in journal.frozen()]

    def statuses(self) -> list[str]:
        """Return the status of each transaction on the agent's host, latest last."""
        with AgentJournal(self.journal) as journal:
            return [each.status for each in journal.acts()]

    def watchdog(self) -> int:
        """Return the process number of the watchdog of the transaction in force; 0: none is."""
        with AgentJournal(self.journal) as journal:
            found = [each.watchdog for each in journal.acts("leased")]
        return int(found[-1].split()[0]) if found and found[-1] else 0
