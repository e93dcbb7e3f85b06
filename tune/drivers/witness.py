# SPDX-License-Identifier: MIT
"""Settings that clients' new connections really have, compared with the rules; no packet leaves, nothing is written.

Question   The rules read back as written; does a client get them?
Method     inet_diag lists the accepted connections of a place with their congestion control, window and pacing. The
           longest matching prefix of the rules says what each should have. Only connections that were accepted after
           the rules came into force count. The kernel records no time for a connection, but it numbers sockets
           (inodes). Once the rules are in force, `newest_sockets` notes the newest number of each processor.
           For each prefix of a sample there is also a connection of our own (`own_connections.py`).
Stop when  `MOST` connections of each prefix were compared.
Reads as   If no connection of a prefix has a setting, that is a difference: its clients do not get the rule. If
           some have it, a program changed the others (TCP_CONGESTION): each is listed, but is no difference. What a
           connection of our own has is a difference by itself: no program has set anything on it.
Fails as   Not seen: older connections; a new one for which accept(2) was already waiting, since its number is older;
           settings that no socket shows; initcwnd after the first data; all connections while the kernel draws
           profiles at random. A connection that was established before the rules and accepted after them counts.
Source     sock_diag(7); fs/inode.c (get_next_ino: a processor takes numbers by the `BATCH`), net/socket.c (sock_alloc)
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address, ip_network

from configtron.linux.sock_diag import CONGESTION, INFO, extensions
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile, Value
from configtron.model.protocols import Driver
from configtron.model.tuning import Answers, Difference, Rules
from configtron.tune.drivers.open_connections import PrefixLookup, draws
from configtron.tune.drivers.own_connections import IDLE, shown_to
from configtron.tune.drivers.pidfd_options import OpenClient, open_clients
from configtron.tune.drivers.route.answers import spread
from configtron.tune.drivers.socket_options import CONTROL, OPTIONS, told

# Connections of one prefix that are compared; more would show the same.
MOST = 20
# LAST_INO_BATCH.
BATCH = 1024
# Inode numbers have 32 bits and wrap around.
_BATCHES = 2**32 // BATCH
# Knobs that a connection of our own shows; what a route sets has no effect on it.
_EVERY_CLIENTS = frozenset((CONTROL, IDLE))
_CLIENTS = frozenset((CONTROL, IDLE, "initcwnd", "cwnd", *OPTIONS))
OWN: Mapping[str, Collection[str]] = {"kmod": _CLIENTS, "ebpf": _CLIENTS, "sysctl": _EVERY_CLIENTS}
# Clients without a prefix of their own (RFC 5737); ::1 is the only one of IPv6 (own_connections.py).
_OF_DEFAULT = ("192.0.2.1", "::1")
BY_OWN = "so has a connection of our own from there"
UNSEEN = "no connection of a client of these rules to look at"
DRAWN = "the kernel draws clients' profiles; no connection was looked at"
WHY = "another program set it, or the rule did not reach it"


def newest_sockets() -> Sequence[int]:
    """Return the number (inode) of a new socket on each processor.

    If the process may not choose its processor: only the number of one socket that begins a batch. Newer sockets from
    earlier batches of other processors then count as older.
    """
    with suppress(OSError):
        allowed = os.sched_getaffinity(0)
        try:
            return [_new_socket(processor) for processor in range(os.cpu_count() or 1)]
        finally:
            os.sched_setaffinity(0, allowed)
    while (number := _new_socket()) % BATCH != 1:
        pass
    return [number]


def _new_socket(processor: int | None = None) -> int:
    if processor is not None:
        os.sched_setaffinity(0, {processor})
    with socket.socket(socket.AF_UNIX) as one:
        return os.fstat(one.fileno()).st_ino


def is_newer(inode: int, newest: Sequence[int]) -> bool:
    """Return whether a socket is newer than those that `newest_sockets` returned."""
    last = {(number - 1) // BATCH: number for number in newest}
    batch = (inode - 1) // BATCH
    if batch in last:
        return inode > last[batch]
    return bool(last) and all((batch - other) % _BATCHES < _BATCHES // 2 for other in last)


def witness(driver: Driver, rules: Rules, newest: Sequence[int], *, pause: bool = True) -> Iterator[Answers]:
    """Yield how connections differ from the rules: those that are newer than these sockets, then some of our own.

    pause   whether some of our own fall idle, for as long as a second
    """
    try:
        if draws(driver):
            yield Answers(unasked=(DRAWN,))
            return
        asked = extensions(INFO, CONGESTION)
        found = [one for one in open_clients(driver.place, asked) if is_newer(one.inode, newest)]
        yield _of_clients(driver, rules, found)
    except (ConfigtronError, OSError) as error:
        yield Answers(note=f"open connections were not looked at: {error}")
    if driver.name in OWN:
        yield own_connections(driver, rules, pause=pause)


def _of_clients(driver: Driver, rules: Rules, found: Collection[OpenClient]) -> Answers:
    lookup = PrefixLookup(rules if found else Rules())
    clients: dict[tuple[int, int, int], list[tuple[OpenClient, Profile]]] = {}
    for one in found:
        prefix, profile = lookup.find(one.address.packed)
        if profile and len(known := clients.setdefault(prefix, [])) < MOST:
            known.append((one, profile))
    broken, programs = list[Difference](), list[str]()
    for sample in clients.values():
        shown = [each for one, profile in sample for each in _compared(driver.name, _scope(one), _told(one), profile)]
        reached = {each.knob for each in shown if each.applied == each.found}
        for each in (each for each in shown if each.applied != each.found):
            if each.knob in reached:
                text = f"{each.scope}: {each.knob} {each.found}, the rule says {each.applied}"
                programs.append(f"{text}: another program set it")
            else:
                broken.append(replace(each, found=f"{each.found}: {WHY}"))
    looked_at = sum(map(len, clients.values()))
    return Answers(0, 0, tuple(broken), tuple(programs), looked_at, "" if clients else UNSEEN)


def _scope(one: OpenClient) -> str:
    host = f"[{one.address}]" if one.address.version == 6 else one.address
    return f"{host}:{one.client_port} to port {one.port}"


def _told(one: OpenClient) -> Mapping[str, Value]:
    return told(one.shown[INFO], one.shown[CONGESTION].rstrip(b"\0").decode())


def _compared(driver: str, scope: str, shown: Mapping[str, Value], profile: Profile) -> Iterator[Difference]:
    """Yield the profile's value and the connection's value of each setting that the connection shows."""
    wanted = dict(profile.settings)
    for knob in (knob for knob in shown if knob in wanted and not (knob == "initcwnd" and "cwnd_clamp" in wanted)):
        # The kernel lowers this bound by itself, to what its buffers hold.
        if knob != "window_clamp" or int(str(shown[knob])) > int(str(wanted[knob])):
            yield Difference(scope, knob, str(wanted[knob]), str(shown[knob]))
    clamp, window = wanted.get("cwnd_clamp"), shown.get("cwnd", 0)
    # A window below the clamp shows nothing. With `route`, a client's first connection has no clamp yet.
    if clamp is not None and driver != "route" and int(str(window)) > int(str(clamp)):
        yield Difference(scope, "cwnd_clamp", str(clamp), str(window))


def own_connections(driver: Driver, rules: Rules, *, pause: bool) -> Answers:
    """Return how connections of our own differ from the rules, one for each of a sample of prefixes."""
    default = [("default", address) for address in _OF_DEFAULT if rules.default and not _prefix_of(rules, address)]
    clients = [*default, *_clients(rules)]
    profiles = {scope: rules.profiles[rules.prefixes.get(scope, rules.default)] for scope, _ in clients}
    one_each = {profile.name: scope for scope, profile in profiles.items() if pause and IDLE in dict(profile.settings)}
    differences = dict[tuple[str, str], Difference]()
    try:
        for shown in shown_to(driver.place, clients, one_each.values()):
            told_here = {knob: value for knob, value in shown.values.items() if knob in OWN[driver.name]}
            for each in _compared(driver.name, shown.scope, told_here, profiles[shown.scope]):
                if each.applied != each.found:
                    differences[each.scope, each.knob] = replace(each, found=f"{each.found}: {BY_OWN}")
    except (ConfigtronError, OSError) as error:
        # A time-out of a socket has no strerror.
        why = getattr(error, "strerror", None) or error
        return Answers(unasked=(f"no connection of our own could be made: {why}",))
    return Answers(len(clients), len(profiles), tuple(differences.values()))


def _clients(rules: Rules) -> Iterator[tuple[str, str]]:
    """Yield prefixes, each with an address of which it is the longest prefix."""
    for scope in spread([*rules.prefixes]):
        network = ip_network(scope)
        ends = (network[0] + min(1, network.num_addresses - 1), network[-1] - min(1, network.num_addresses - 1))
        usable = [each for each in (*ends, *map(ip_address, _OF_DEFAULT)) if each in network and each.packed[0]]
        for address in usable if network.version == 4 else [each for each in (ip_address("::1"),) if each in network]:
            if not address.is_multicast and _prefix_of(rules, str(address)) == scope:
                yield scope, str(address)
                break


def _prefix_of(rules: Rules, address: str) -> str:
    """Return the longest prefix of an address; "" if it has none."""
    one = ip_network(address)
    longer = (str(one.supernet(new_prefix=length)) for length in range(one.max_prefixlen, -1, -1))
    return next((prefix for prefix in longer if prefix in rules.prefixes), "")
