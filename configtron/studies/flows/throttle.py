# SPDX-License-Identifier: MIT
"""Trials of bulk flows, one after another, in a guest: the testbed's side of `flows.py`.

Question   How can thirty seconds of a hundred megabits be driven and logged for little more than the kernel's own work?
Method     One thread and one selector for all flows: a server writes when a third of its buffer is free, the client
           reads when much has come (SO_RCVLOWAT), so no thread wakes for a packet. Competing flows are of a host of
           their own behind the servers' (competing_host.py), so the servers' configuration does not reach them.
           Schemes of user space send datagrams, packet by packet, in a loop that waits for the selector too
           (datagrams.py).
Stop when  the trial's time is over: servers reset their connections. The logs go on until nothing arrives.
Reads as   `flows.TrialOutcome` for each trial: the same seed in the same order gives the same text.
Fails as   flows' reasons; one reason for a trial whose stack is not as asked; a link that is not as asked ends all.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from configtron.lab.internet.links import splitmix64
from configtron.lab.schemes.table import OF_USER_SPACE, made
from configtron.lab.testbed.competing_host import raise_host
from configtron.lab.testbed.datagrams import DatagramFlow, DatagramLoop, open_ends
from configtron.lab.testbed.echo import attach
from configtron.lab.testbed.network import CLIENT, SERVERS, Testbed, raise_testbed
from configtron.lab.testbed.player import datagrams, echo
from configtron.lab.testbed.stack import DEVICE, ServerStack
from configtron.lab.testbed.tap import Seen, Tap
from configtron.lab.testbed.transits import SILENT, Transits, flow_metrics, transits
from configtron.lab.testbed.wires import CLIENT_DEVICE, FAR, ORIGINS_NET
from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Mismatch
from configtron.studies.flows import flows
from configtron.studies.flows.flows import NOT_CONNECTED, REFUSED, Flow, FlowOutcome, Trial, TrialOutcome
from configtron.studies.guests.parts import Means

ORIGIN = "a.test"
# The competing flows' host: the last of the origins' net but the router; numbered after the router's devices.
COMPETING, COMPETING_ADDRESS, COMPETING_BEHIND = "competing", f"{ORIGINS_NET}.253", 4
# One port a flow, which distinguishes its packets.
FIRST_PORT = 7000
CHUNK, BIN = memoryview(bytes(1 << 20)), bytearray(1 << 20)
# The client wakes up for so many bytes, forty times a second at 10 Mbit/s; Linux's least advertised window holds them.
LOW_WATER_BYTES = 1 << 15
# The protocol of a flow: by a scheme of the kernel, by one of user space.
PROTOCOLS = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)
# SO_LINGER: on, 0 s; closing is a reset.
RESET = struct.pack("ii", 1, 0)
# A tap's ring holds two seconds of the fastest link, and a tenth of a second of nine senders at their lines' rate.
LOOK_EVERY_S, FLOOD_LOOK_S = 0.5, 0.1
SECOND_NS = 1_000_000_000
# The path is empty when nothing arrives for so long: longer than the longest gap of the slowest link.
QUIET_S, PATIENCE_S = 1.5, 600.0
# Flows begin anywhere within one tick of the kernel's clock (HZ is 100), as users do.
TICK_NS = 10_000_000


# (number of the trial, its flows' packets, its beginning on their clock)
Log = Callable[[int, Sequence[Transits], int], None]


def perform(orders: str, folder: Path, means: Means) -> str:
    """A part of a study (`guests/parts.py`): `flows.orders_of` in, `flows.outcomes_text` out."""
    return performed(orders, means, lambda number, packets, began_ns: None)


def performed(orders: str, means: Means, log: Log) -> str:
    """Run the trials; call `log` after each."""
    trials = flows.trials_of(orders)
    testbed = raise_testbed(trials[0].condition, [ORIGIN], player=Path(means.programs.player))
    try:
        ground = _Ground(testbed, means)
        return flows.outcomes_text([ground.run(trial, partial(log, number)) for number, trial in enumerate(trials)])
    finally:
        testbed.close()


class _Ground:
    """A testbed, its servers' stack as the last trial asked for it, and a competing host once there was any."""

    def __init__(self, testbed: Testbed, means: Means) -> None:
        self.testbed, self._means = testbed, means
        self._stack: ServerStack | None = None
        self._competing = ""

    def run(self, trial: Trial, log: Callable[[Sequence[Transits], int], None]) -> TrialOutcome:
        self.testbed.change(trial.condition, seed=trial.seed)
        if any(flow.rival for flow in trial.flows) and not self._competing:
            raise_host(COMPETING, [COMPETING_ADDRESS], COMPETING_BEHIND)
            self._competing = COMPETING_ADDRESS
        try:
            self._configure(trial)
        except (Mismatch, BadInput) as error:
            return TrialOutcome((), str(error))
        with self.testbed.changing():
            race = _Race(self.testbed, Path(self._means.programs.player), self._competing, trial)
            outcome = TrialOutcome(tuple(race.run()))
        log(race.packets, race.began_ns)
        return outcome

    def _configure(self, trial: Trial) -> None:
        if trial.configuration is not None:
            self._stack = self._stack or ServerStack(self.testbed, self._means.load)
            self._stack.apply(trial.configuration)
        elif self._stack:
            self._stack.revert()
            self._stack = None


class Ends(NamedTuple):
    """Where flows begin and end: the servers' address, and the devices that are tapped, theirs and the client's."""

    address: str
    sending: str
    receiving: str


class Raced(NamedTuple):
    """A trial that has run: what it found, its flows' packets, its beginning on their clock."""

    outcomes: Sequence[FlowOutcome]
    packets: Sequence[Transits]
    began_ns: int


def into(testbed: Testbed) -> str:
    """Return the device that packets reach the client by."""
    return FAR if testbed.condition and testbed.condition.is_played else CLIENT_DEVICE


def race(testbed: Testbed, player: Path, trial: Trial, ends: Ends | None = None) -> Raced:
    """Run a trial without competing flows and without a configuration. Errors: `Mismatch`."""
    testbed.change(trial.condition, seed=trial.seed)
    with testbed.changing():
        running = _Race(testbed, player, "", trial, ends)
        return Raced(running.run(), running.packets, running.began_ns)


class _Race:
    """One trial."""

    def __init__(self, testbed: Testbed, player: Path, competing: str, trial: Trial, ends: Ends | None = None) -> None:
        self._testbed, self._player, self._competing, self._trial = testbed, player, competing, trial
        self._ends = ends or Ends(testbed.addresses[ORIGIN], DEVICE, into(testbed))
        self._reasons = [""] * len(trial.flows)
        self._used = [""] * len(trial.flows)
        self._senders: dict[int, socket.socket] = {}
        self._datagrams: dict[int, DatagramFlow] = {}
        self._protocols = {PROTOCOLS[flow.scheme in OF_USER_SPACE] for flow in trial.flows}
        self._loop = DatagramLoop(datagrams(player)) if socket.IPPROTO_UDP in self._protocols else None
        self._ready = selectors.EpollSelector()
        self._open = ExitStack()
        self._open.callback(self._ready.close)
        # of each flow, and the beginning on the taps' clock: once it has run
        self.packets: list[Transits] = []
        self.began_ns = 0

    def run(self) -> list[FlowOutcome]:
        """Drive all flows to the end and read the logs."""
        last = FIRST_PORT + len(self._trial.flows) - 1
        devices = ((SERVERS, self._ends.sending), (CLIENT, self._ends.receiving))
        places = [(netns, device, FIRST_PORT, last) for netns, device in devices]
        taps = [[Tap(*place, protocol) for protocol in sorted(self._protocols)] for place in places]
        each = [tap for ends in taps for tap in ends]
        with self._open:
            starts = [self._prepare(number, flow) for number, flow in enumerate(self._trial.flows)]
            began_ns = _whole_second_ns() + splitmix64(self._trial.seed) % 1000 * TICK_NS // 1000
            self._drive(began_ns, starts, each)
            self._ask()
        _await_quiet(each)
        logs = [np.concatenate([tap.close() for tap in ends]) for ends in taps]
        # By the wall clock, which taps stamp with.
        self.began_ns = time.time_ns() - (time.monotonic_ns() - began_ns)
        self.packets = [self._transits(number, logs) for number in range(len(self._trial.flows))]
        return [self._flowed(number) for number in range(len(self._trial.flows))]

    def _prepare(self, number: int, flow: Flow) -> Callable[[], None]:
        """Open a flow's sockets; return what starts it."""
        address = self._competing if flow.rival else self._ends.address
        end = (address, FIRST_PORT + number)
        if flow.scheme in OF_USER_SPACE:
            return self._prepare_datagrams(number, flow, end)
        return self._prepare_connection(number, flow, end)

    def _prepare_connection(self, number: int, flow: Flow, end: tuple[str, int]) -> Callable[[], None]:
        """A listener, and the client's socket that will connect to it. Both ends have the scheme: DCTCP needs that."""
        with inside(COMPETING if flow.rival else SERVERS):
            listener = self._open.enter_context(socket.create_server(end))
        with inside(CLIENT):
            client = self._open.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        for one in (listener, client):
            one.setblocking(False)
            if flow.scheme and not _take_scheme(one, flow.scheme):
                self._reasons[number] = REFUSED
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, LOW_WATER_BYTES)
        self._ready.register(listener, selectors.EVENT_READ, lambda: self._accept(number, listener))
        return lambda: self._connect(client, end)

    def _prepare_datagrams(self, number: int, flow: Flow, end: tuple[str, int]) -> Callable[[], None]:
        """Connect two sockets with each other, and give them to the loop."""
        assert self._loop
        # a tunnel's device comes and goes: there `datagrams.c` echoes
        if self._ends.receiving in (CLIENT_DEVICE, FAR):
            attach(echo(self._player), CLIENT, self._ends.receiving)
        ends = open_ends(COMPETING if flow.rival else SERVERS, CLIENT, end)
        self._open.callback(ends.close)
        scheme = made(flow.scheme, np.random.default_rng((self._trial.seed, number)))
        found = self._datagrams[number] = self._loop.add(scheme, ends)
        self._used[number] = flow.scheme
        return found.begin

    def _drive(self, began_ns: int, begin: Sequence[Callable[[], None]], taps: Sequence[Tap]) -> None:
        flows = [(flow.start_s, number) for number, flow in enumerate(self._trial.flows) if not self._reasons[number]]
        # whole nanoseconds: what is left to wait is the same number whenever the trial began
        starts = [(began_ns + round(at * 1e9), number) for at, number in sorted(flows)]
        every_ns = round(SECOND_NS * (FLOOD_LOOK_S if self._datagrams else LOOK_EVERY_S))
        end, look = began_ns + round(self._trial.duration_s * 1e9), began_ns + every_ns
        while (now := time.monotonic_ns()) < end:
            while starts and starts[0][0] <= now:
                begin[starts.pop(0)[1]]()
            if look <= now:
                look = now + every_ns
                for tap in taps:
                    tap.read()
            until = min([end, look, *(at for at, _ in starts[:1])])
            for key, _ in self._wait(now, until):
                key.data()

    def _wait(self, now_ns: int, until_ns: int) -> list[tuple[selectors.SelectorKey, int]]:
        """Drive the datagrams until a moment, or until a connection's socket is ready; return those that are."""
        if self._loop is None:
            return self._ready.select(max(0, until_ns - now_ns) / 1e9)
        return self._ready.select(0) if self._loop.run(until_ns, self._ready.fileno()) else []

    def _connect(self, client: socket.socket, end: tuple[str, int]) -> None:
        client.connect_ex(end)
        self._ready.register(client, selectors.EVENT_READ, lambda: self._receive(client))

    def _accept(self, number: int, listener: socket.socket) -> None:
        sender = self._open.enter_context(listener.accept()[0])
        sender.setblocking(False)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._senders[number] = sender
        self._ready.register(sender, selectors.EVENT_WRITE, lambda: self._send(sender))

    def _send(self, sender: socket.socket) -> None:
        self._unless_over(sender, lambda: sender.send(CHUNK))

    def _receive(self, client: socket.socket) -> None:
        # MSG_TRUNC: the kernel counts and throws away
        self._unless_over(client, lambda: client.recv_into(BIN, 0, socket.MSG_TRUNC))

    def _unless_over(self, one: socket.socket, act: Callable[[], int]) -> None:
        """Call; stop watching a socket whose other end has closed."""
        with suppress(BlockingIOError):
            try:
                if act():
                    return
            except (ConnectionError, TimeoutError):
                pass
            self._ready.unregister(one)

    def _ask(self) -> None:
        """Read which scheme each connection had at the end, before the senders reset them."""
        for number, sender in self._senders.items():
            self._used[number] = _scheme_of(sender)
            asked = self._trial.flows[number].scheme
            if asked and self._used[number] != asked:
                self._reasons[number] = f"became-{self._used[number]}"

    def _transits(self, number: int, logs: Sequence[Seen]) -> Transits:
        sent, arrived = (log[(log["port"] == FIRST_PORT + number) & (log["payload"] > 0)] for log in logs)
        return transits(sent, arrived)

    def _flowed(self, number: int) -> FlowOutcome:
        flow = self._trial.flows[number]
        from_s = max(flow.start_s, self._trial.counted_from_s)
        from_ns, to_ns = (self.began_ns + round(at * 1e9) for at in (from_s, self._trial.duration_s))
        found = flow_metrics(self.packets[number], from_ns, to_ns)
        absent = NOT_CONNECTED if number not in {*self._senders, *self._datagrams} else SILENT if found.reason else ""
        return FlowOutcome(
            round(found.mbit, 6), round(found.late_ms, 6), round(found.loss, 9), found.bytes, found.sent,
            self._reasons[number] or absent, scheme=self._used[number] or flow.scheme,
        )  # fmt: skip


def _take_scheme(one: socket.socket, scheme: str) -> bool:
    try:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, scheme.encode())
    except OSError:
        return False
    return _scheme_of(one) == scheme


def _scheme_of(one: socket.socket) -> str:
    # as long as TCP_CA_NAME_MAX
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def _whole_second_ns() -> int:
    """Wait for the next whole second of the guest's clock; return it."""
    now = time.monotonic_ns()
    left = SECOND_NS - now % SECOND_NS
    time.sleep(left / 1e9)
    return now + left


def _await_quiet(taps: Sequence[Tap]) -> None:
    """Read until nothing arrives any more. Errors: `Mismatch` when that never ends."""
    quiet = 0.0
    deadline = time.monotonic() + PATIENCE_S
    while quiet < QUIET_S:
        time.sleep(LOOK_EVERY_S)
        quiet = 0.0 if sum(tap.read() for tap in taps) else quiet + LOOK_EVERY_S
        if time.monotonic() > deadline:
            raise Mismatch("flows that are over go on sending")
