# SPDX-License-Identifier: MIT
"""A manager in a thread over ZeroMQ on loopback, and folders of agents that have joined it."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq

from configtron.db.fleet import FleetStore
from configtron.fleet.transport.curve_keys import (
    CurvePair,
    ManagerAddress,
    curve_pair,
    signing_key,
    write_curve_pair,
    write_manager_address,
)
from configtron.model.fleet import FleetMap
from configtron.model.nouns import Profile
from configtron.service.fleet.agent import AgentOptions, run_agent
from configtron.service.fleet.manager import ManagerOptions, run_manager
from configtron.service.fleet.manager_core import ManagerCore
from configtron.service.fleet.map_maker import FixedMapMaker
from configtron.service.lease.options import LeaseOptions
from tests.support.loopback import free_endpoint
from tests.support.waiting import PATIENCE_S, until

MAP = FleetMap(0, 0, {"fast": Profile("fast", (("initcwnd", 20),))}, {"near": (("fast", 65_536),)},
               {f"198.51.{at}.0/24": "near" for at in range(100)}, b"k" * 16, 1)  # fmt: skip


class Fleet:
    """A manager in a thread of this process, and a folder for an agent that has joined it."""

    def __init__(self, folder: Path, maker: FixedMapMaker) -> None:
        self.options = ManagerOptions(folder / "m.db", folder / "keys", free_endpoint())
        self.folder, self.maker = folder / "agent", maker
        self.errors: list[BaseException] = []
        pair, key = curve_pair(self.options.keys), signing_key(self.options.keys)
        self.address = ManagerAddress(self.options.endpoint, pair.public.decode(), bytes(key.verify_key).hex())
        self.agent = self.joined("web1", self.folder)

    def joined(self, name: str, folder: Path) -> CurvePair:
        pair = CurvePair(*zmq.curve_keypair())
        with FleetStore(self.options.database) as store:
            store.enroll(name, pair.public.decode())
        write_curve_pair(folder, pair)
        write_manager_address(folder, self.address)
        return pair

    @contextmanager
    def manager(self) -> Iterator[ManagerCore]:
        cores: list[ManagerCore] = []
        done = threading.Event()

        def run() -> None:
            try:
                run_manager(self.options, self.maker, stop=done.is_set, started=cores.append)
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            until(lambda: bool(cores or self.errors))
            yield cores[0]
        finally:
            done.set()
            thread.join(PATIENCE_S)

    @contextmanager
    def running_agent(self, folder: Path, metrics: str = "", retune_open: bool = False) -> Iterator[None]:
        tried = subprocess.run(["setpriv", "--clear-groups", "true"], capture_output=True, text=True)
        if os.geteuid() == 0 and tried.returncode:
            pytest.skip(f"needs the right to become a user: {tried.stderr.strip()}")
        done = threading.Event()
        lease = LeaseOptions(folder / "tune.db", driver="memory")
        options = AgentOptions(lease, self.folder, "root", metrics=metrics, retune_open=retune_open)
        thread = threading.Thread(target=lambda: run_agent(options, stop=done.is_set))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
