# SPDX-License-Identifier: MIT
"""Connections that are open when rules are removed: their settings are restored, or counted where that fails.

Question   A profile is applied when a connection begins, and outlasts the rules. Which of its settings can be taken
           back from outside the program, and on how many connections does the rest stay?
Method     An accepted connection inherits its listener's options: without a profile it would have what its listener
           has now. Each open connection whose client had a profile is borrowed (pidfd_getfd(2)). An option that still
           has the profile's value is set to the listener's. Another value was set by the program since, and stays.
           Where the kernel drew (`protocols.Drawing`), a client of a class may have had any of the profiles: an option
           that has the value of one of them is set to the listener's.
           Settings without a socket option (`DRIVERS_OWN`) are restored by the driver before it is removed: its
           profiles are replaced by ones with the kernel's defaults, which are then applied to open connections.
           Where the place names listeners (`--listen`) or a control group (`--cgroup`), connections to other listeners,
           and those that no process of the group holds, are left alone.
Reads as   How many connections had a profile, how many carry nothing of it any more, and for each knob how many may
           still carry it.
Fails as   Counted, not raised: a connection that is not accepted, or that only the kernel holds, keeps all of its
           profile; so does what the kernel never takes back (pacing, once on).
Differs    from `Mover.move`, which applies rules to open connections. A connection that began under an earlier version
           of a profile, or whose prefix was dropped since, is not known to have had one.
Source     tcp(7), socket(7); linux/net/ipv4/tcp.c (do_tcp_setsockopt), net/core/sock.c (SO_MAX_PACING_RATE)
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from configtron.linux import netns
from configtron.linux.proc import ESTABLISHED, LISTENING, TcpLine, borrowed, sockets_of_cgroup, tcp_lines
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver, Mover, PlanReader
from configtron.model.tuning import Changes, Place, Rules
from configtron.tune.drivers.bpf.layout import WRAPPED
from configtron.tune.drivers.bpf.pins import group
from configtron.tune.drivers.route.routes import parse
from configtron.tune.drivers.socket_options import CONTROL, OPTIONS, as_options, control_of, set_control
from configtron.tune.listeners import listeners_of

log = logging.getLogger("configtron.tune")
_DEFAULT_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_LEAST_RTO = Path("/proc/sys/net/ipv4/tcp_rto_min_us")
# The module's dispatcher: the congestion control of a listener that was made while it was the default (kmod/README.md).
_DISPATCHER = "configtron"


# Settings without a socket option, with the kernel's defaults (TCP_RTO_MIN, TCP_DELACK_MAX; a clamp that never binds).
DRIVERS_OWN: Mapping[str, Value] = {"cwnd_clamp": 65535, "min_rto": 0.2, "delack_max": 0.2}
# Knobs that turn pacing on. It then stays on (SK_PACING_NEEDED), even without a rate limit.
PACING = ("pacing", "max_pacing_rate")
# SO_MAX_PACING_RATE of a socket whose rate was never limited.
UNLIMITED_RATE = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Lasting:
    """Which knobs of a driver's profiles outlast the rules.

    options      restored by socket options
    own          restored by the driver itself (`DRIVERS_OWN`)
    opened_too   on connections that this host opened as well, not only on accepted ones
    """

    options: tuple[str, ...]
    own: tuple[str, ...]
    opened_too: bool = False


_BY_SOCKET = (CONTROL, *OPTIONS)
LASTING: Mapping[str, Lasting] = {
    "kmod": Lasting((*_BY_SOCKET, "tcp_slow_start_after_idle"), tuple(DRIVERS_OWN)),
    "ebpf": Lasting((*_BY_SOCKET, "tcp_slow_start_after_idle"), tuple(DRIVERS_OWN)),
    # The kernel reads timers and quickack from the route each time, so they end with it.
    "route": Lasting((CONTROL, "window_clamp"), ("cwnd_clamp",), opened_too=True),
    "sysctl": Lasting((CONTROL,), ("min_rto",), opened_too=True),
}


@dataclass(slots=True)
class Restored:
    """How many open connections were restored.

    connections   had a profile with a setting that outlasts the rules
    restored      carry nothing of it any more
    left          knob -> how many may still carry it; "not reached": no process that holds them was found
    """

    connections: int = 0
    restored: int = 0
    left: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        """One line; "" if there were none."""
        if not self.connections:
            return ""
        line = f"{self.connections} open connections had its profiles: {self.restored} put back"
        left = ", ".join(f"{count} {knob}" for knob, count in sorted(self.left.items()))
        return f"{line}; until they end some may still carry {left}" if left else line


class PrefixLookup:
    """Longest-prefix lookup of a client's profile."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._tables: dict[int, dict[int, dict[int, str]]] = {32: {}, 128: {}}
        for prefix, name in rules.prefixes.items():
            _, address, length = parse(prefix)
            width = 8 * len(address)
            self._tables[width].setdefault(length, {})[int.from_bytes(address, "big") >> width - length] = name
        self._lengths = {width: sorted(tables, reverse=True) for width, tables in self._tables.items()}

    def find(self, client: bytes) -> tuple[tuple[int, int, int], Profile | None]:
        """Return what tells a client's prefix from all others, and its profile; None leaves it the untouched stack."""
        number, width = int.from_bytes(client, "big"), 8 * len(client)
        for length in self._lengths[width]:
            name = self._tables[width][length].get(number >> width - length)
            if name is not None:
                return (width, length, number >> width - length), self._rules.profiles.get(name)
        return (0, 0, 0), self._rules.profiles.get(self._rules.default)


def chosen(place: Place) -> Callable[[int, bytes, int], bool]:
    """Return whether a place's listeners and control group hold a socket: its port, packed local address, inode."""
    named = {(one.port, one.address and ip_address(one.address).packed) for one in listeners_of(place.listen)}
    within = None
    if place.cgroup.strip("/"):
        try:
            within = sockets_of_cgroup(group(place))
        except ConfigtronError:
            # A group that is gone has no processes.
            within = set()
    return lambda port, local, inode: (
        (not named or bool(named & {(port, ""), (port, local)})) and (within is None or inode in within)
    )


class Leaving:
    """Restores open connections while one driver's rules are removed: call `before` its revert, then `after` it."""

    def __init__(self, driver: Driver, place: Place, had: Rules) -> None:
        self._driver, self._place = driver, place
        self._lasting = LASTING.get(driver.name, Lasting((), ()))
        self._knobs = {*self._lasting.options, *self._lasting.own, *(PACING if driver.name in ("ebpf", "kmod") else ())}
        named = {
            name: one for name, one in had.profiles.items() if any(knob in self._knobs for knob, _ in one.settings)
        }
        candidates = list(self._open()) if named else []
        # Without an open connection there is nothing to look up: 100 000 prefixes need not be sorted.
        clients = PrefixLookup(Rules(named, had.prefixes, had.default)) if candidates else None
        found = ((line, clients.find(line.client)[1]) for line in candidates) if clients else ()
        drawn = tuple(named.values()) if candidates and draws(driver) else ()
        self._lines = [(line, (profile,) if profile else drawn) for line, profile in found if profile or drawn]
        self._own_restored = False

    def _open(self) -> Iterator[TcpLine]:
        """Yield the established connections that may have a profile."""
        found = tcp_lines(self._place.netns)
        ports = {line.port for line in found if line.state == LISTENING}
        holds = chosen(self._place)
        for line in found:
            if line.state == ESTABLISHED and (self._lasting.opened_too or line.port in ports):
                if holds(line.port, line.local, line.inode):
                    yield line

    def before(self) -> None:
        """Let the driver restore the settings that have no socket option (`DRIVERS_OWN`); warn if it cannot."""
        known = (had[0] for _, had in self._lines if len(had) == 1)
        mine = {profile.name for profile in known if any(knob in DRIVERS_OWN for knob, _ in profile.settings)}
        if not mine or not isinstance(self._driver, Mover):
            return
        plain = dict(DRIVERS_OWN)
        with netns.inside(self._place.netns):
            if _LEAST_RTO.exists():
                plain["min_rto"] = int(_LEAST_RTO.read_text()) / 1e6
        try:
            there = self._driver.read().profiles
            settings = {name: tuple((knob, plain[knob]) for knob, _ in there[name].settings if knob in plain)
                        for name in mine & there.keys()}  # fmt: skip
            self._driver.apply(Changes(profiles={name: Profile(name, each) for name, each in settings.items()}))
            self._driver.move()
            self._own_restored = True
        except (ConfigtronError, OSError) as error:
            log.warning("%s: open connections keep what only the driver could take back: %s", self._driver.name, error)

    def after(self, now: Rules) -> Restored:
        """Set open connections to their listener's options, or to the profile that the remaining rules give them.

        now   the rules in force after the revert
        """
        done = Restored(len(self._lines))
        if not self._lines:
            return done
        with netns.inside(self._place.netns):
            default = _DEFAULT_CONTROL.read_text().strip()
        found = tcp_lines(self._place.netns)
        listening = {line.inode: line.port for line in found if line.state == LISTENING and line.inode}
        listeners = self._listeners(listening, default)
        wanted = PrefixLookup(now)
        holding = {line.inode: (line, had) for line, had in self._lines if line.inode}
        reached = set[int]()
        for inode, descriptor in borrowed(holding.keys()):
            with socket.socket(fileno=descriptor) as one:
                reached.add(inode)
                line, had = holding[inode]
                self._restore(done, one, had, listeners.get(line.port, {CONTROL: default}), wanted.find(line.client)[1])
        done.left["not reached"] = len(self._lines) - len(reached)
        done.left = +done.left
        return done

    def _listeners(self, inodes: Mapping[int, int], default: str) -> dict[int, dict[str, Value]]:
        """Return port -> options of its listener.

        A listener that was made while our congestion control was the default is first set to the system's default.
        """
        found: dict[int, dict[str, Value]] = {}
        ours = {value for _, had in self._lines for one in had for knob, value in one.settings if knob == CONTROL}
        for inode, descriptor in borrowed(inodes.keys()):
            with socket.socket(fileno=descriptor) as one:
                control = control_of(one)
                if control == _DISPATCHER or (self._driver.name == "sysctl" and control in ours):
                    control = default if set_control(one, default) else control
                options: dict[str, Value] = {CONTROL: control}
                for knob in set(self._lasting.options) & OPTIONS.keys():
                    options[knob] = OPTIONS[knob].get(one)
                found.setdefault(inodes[inode], options)
        return found

    def _restore(
        self, done: Restored, one: socket.socket, had: Sequence[Profile], listener: Mapping[str, Value],
        now: Profile | None,
    ) -> None:  # fmt: skip
        """Restore one connection, which had one of these profiles, and count in `done` what it may still carry."""
        knobs, target = {knob for each in had for knob, _ in each.settings}, dict(listener) | as_options(now)
        left: list[str] = []
        if self._driver.name == "kmod" or CONTROL in knobs or "tcp_slow_start_after_idle" in knobs:
            controls = {dict(each.settings).get(CONTROL) for each in had}
            left += self._restore_control(one, controls, str(target[CONTROL]))
        # Of one profile it is known; of several, an unlimited rate shows that pacing was never on.
        may_be_paced = len(had) == 1 or OPTIONS["max_pacing_rate"].get(one) != UNLIMITED_RATE
        ours = [as_options(each) for each in had]
        for knob in (knob for knob in self._lasting.options if knob in OPTIONS and knob in knobs):
            values = {each[knob] for each in ours if knob in each}
            left += _restore_option(one, knob, values, target.get(knob, 0))
        if not self._own_restored:
            left += [knob for knob in self._lasting.own if knob in knobs]
        paced = ("pacing", "fq") in (setting for each in had for setting in each.settings)
        if self._driver.name in ("ebpf", "kmod") and may_be_paced and (paced or "max_pacing_rate" in knobs):
            left.append("pacing")
        done.left.update(left)
        done.restored += not left

    def _restore_control(self, one: socket.socket, ours: Collection[Value | None], target: str) -> list[str]:
        found = control_of(one)
        if self._driver.name != "kmod":  # its copies have the real names: a name does not show whose it is
            if found == target or (found not in ours and found not in WRAPPED):
                return []
        return [] if set_control(one, target) else [CONTROL]


def draws(driver: Driver) -> bool:
    """Return whether a plan is in force that clients' profiles are drawn by."""
    return isinstance(driver, PlanReader) and driver.plan_state() is not None


def _restore_option(one: socket.socket, knob: str, ours: Collection[Value], target: Value) -> Sequence[str]:
    """Return the knob if the kernel refuses to restore it; nothing if it is restored or the program has changed it."""
    try:
        if (found := OPTIONS[knob].get(one)) in ours and found != target:
            OPTIONS[knob].set(one, int(str(target)))
    except OSError:
        return [knob]
    return []
