# SPDX-License-Identifier: MIT
"""A configuration, a point of CT's grid (`knobs.TUNABLE`), put in force on the servers' stack and read back.

Question   Does a cell of the tensor measure the stack that it says it measured?
Method     The drivers of the tune verb set what they can, so that what was measured can be applied elsewhere: by the
           clients' prefix (congestion control, initial window), by namespace (sysctls). The rest is set here: the
           servers' queue is `pacing`, and tcp_low_latency, which no driver sets because it does nothing, is written to
           show just that. http_version is not the stack's: the client asks for it and says what it got.
Reads as   What the drivers read back, the queue's kind, and of a new connection its congestion control and window
           (`check_connection.py`).
Fails as   `Mismatch` naming cell, knob, what was asked and what was found; `BadInput` for a knob or value that cannot
           be set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from configtron.lab.internet import links
from configtron.lab.testbed.check_connection import CheckConnection
from configtron.lab.testbed.network import CLIENT_PREFIX, SERVERS, Testbed
from configtron.linux.qdisc import ROOT, Qdisc, Qdiscs, differences
from configtron.model.errors import BadInput, ConfigtronError, Mismatch
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver
from configtron.model.tuning import Changes, Place

# `configtron.tune.drivers.load`, handed in by the composition layer: edges do not import each other.
Loader = Callable[[str, Place], Driver]

# The servers' device, whose queue is `pacing`.
DEVICE = "s0"
PACING = {"pfifo_fast": Qdisc(0x10000, ROOT, "pfifo_fast"), "fq": Qdisc(0x10000, ROOT, "fq")}
# Of the whole machine, so in its first namespace.
LOW_LATENCY = "net/ipv4/tcp_low_latency"
# Of these the namespace's setting would be a listener's at its birth, so before the stack is set, or there is none.
BY_PREFIX = ("tcp_congestion_control", "initcwnd")
# By its client's side of the connection.
ELSEWHERE = ("http_version",)


class ServerStack:
    """The servers' stack. `per_prefix` names the driver for what is set by prefix: route, ebpf or kmod."""

    def __init__(self, testbed: Testbed, load: Loader, per_prefix: str = "route") -> None:
        self.testbed = testbed
        place = Place(netns=SERVERS)
        self._drivers = tuple(load(name, place) for name in (per_prefix, "sysctl"))
        self._before = [driver.before() for driver in self._drivers]
        self._reaches = [frozenset(driver.settable()) for driver in self._drivers]
        self._applied: list[Profile | None] = [None for _ in self._drivers]
        self._qdiscs, self._witness = Qdiscs(SERVERS), CheckConnection()

    def apply(self, configuration: Profile, *, port: int = 0, cell: str = "") -> Mapping[str, Value]:
        """Put in force all settings but http_version.

        port   where a server listens whose new connection is the witness; 0: a listener of the testbed's own
        Returns knob -> value as read back. Errors: `Mismatch`, `BadInput`.
        """
        asked = {knob: value for knob, value in configuration.settings if knob not in ELSEWHERE}
        try:
            found = self._apply(asked, port)
        except ConfigtronError as error:
            raise type(error)(f"{cell or configuration.name}: {error}") from error
        wrong = [
            f"{knob} is {found.get(knob)!r} instead of {value!r}"
            for knob, value in asked.items()
            if found.get(knob) != value
        ]
        if wrong:
            raise Mismatch(f"{cell or configuration.name}: the stack is not as asked: {'; '.join(wrong)}")
        return found

    def _apply(self, asked: Mapping[str, Value], port: int) -> dict[str, Value]:
        shares: list[dict[str, Value]] = [{} for _ in self._drivers]
        found: dict[str, Value] = {}
        for knob, value in asked.items():
            order = (0, 1) if knob in BY_PREFIX else (1, 0)
            reaching = [number for number in order if knob in self._reaches[number]]
            if knob in OWN:
                found[knob] = OWN[knob](self, value)
            elif reaching:
                shares[reaching[0]][knob] = value
            else:
                raise BadInput(f"{knob}: no driver of {', '.join(d.name for d in self._drivers)} sets it here")
        for number, share in enumerate(shares):
            found |= self._drive(number, Profile("bed", tuple(share.items())))
        return found | self._seen(found, port)

    def _drive(self, number: int, profile: Profile) -> Mapping[str, Value]:
        """One driver's share, as it reads back."""
        driver, is_first = self._drivers[number], number == 0
        if self._applied[number] == profile:
            rules = driver.read()
        else:
            self._applied[number] = None
            prefixes, default = ({CLIENT_PREFIX: "bed"}, None) if is_first else ({}, "bed")
            rules = driver.apply(Changes(profiles={"bed": profile}, prefixes=prefixes, default=default))
            self._applied[number] = profile
        if (rules.prefixes.get(CLIENT_PREFIX) if is_first else rules.default) != "bed":
            raise Mismatch(f"the driver {driver.name} has nothing in force for the page loads' clients")
        return dict(rules.profiles["bed"].settings)

    def _pace(self, value: Value) -> Value:
        if value not in PACING:
            raise BadInput(f"pacing is {' or '.join(PACING)}, not {value!r}")
        wanted = (PACING[str(value)],)
        self._qdiscs.put({DEVICE: wanted})
        if wrong := differences(wanted, self._qdiscs.read()[DEVICE]):
            raise Mismatch(f"pacing: {'; '.join(wrong)}")
        return value

    def _hurry(self, value: Value) -> Value:
        links.sysctl("", [(LOW_LATENCY, str(value))])
        return value

    def _seen(self, reported: Mapping[str, Value], port: int) -> dict[str, Value]:
        """Return the settings of a new connection, among those that the drivers report."""
        seen = self._witness.see(port)
        have: dict[str, Value] = {"tcp_congestion_control": seen.congestion_control, "initcwnd": seen.window}
        return {knob: value for knob, value in have.items() if knob in reported}

    def revert(self) -> None:
        """Leave the stack as it was, but for the queue, which the servers' device then has none of."""
        for driver, before in zip(self._drivers, self._before, strict=True):
            driver.revert(before)
        self._applied = [None for _ in self._drivers]
        self._qdiscs.put({DEVICE: ()})
        self._witness.close()
        self._qdiscs.close()


# What no driver sets, or for single connections only, which would be another knob.
OWN: Mapping[str, Callable[[ServerStack, Value], Value]] = {
    "pacing": ServerStack._pace,
    "tcp_low_latency": ServerStack._hurry,
}
