# SPDX-License-Identifier: MIT
"""Settings that clients' new connections really have, compared with the rules; sends nothing, writes nothing.

Question   The rules read back as written; does a client get them?
Method     inet_diag lists the accepted connections of a place with their congestion control and window. The longest
           matching prefix of the rules says what each should have. Only connections that were accepted after the
           rules came into force count. The kernel records no time for a connection, but it numbers sockets (inodes).
           Once the rules are in force, `newest_sockets` notes the newest number of each processor.
Stop when  `MOST` connections of each prefix were compared.
Reads as   If no connection of a prefix has a setting, that is a difference: its clients do not get the rule. If
           some have it, a program changed the others (TCP_CONGESTION): each is listed, but is no difference.
Fails as   Not seen: older connections; a new one for which accept(2) was already waiting, since its number is older;
           settings that inet_diag does not show; initcwnd after the first data; all connections while the kernel
           draws profiles at random. A connection that was established before the rules and accepted after them counts.
Source     sock_diag(7); fs/inode.c (get_next_ino: a processor takes numbers by the `BATCH`), net/socket.c (sock_alloc)
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from configtron.linux.sock_diag import CONGESTION, INFO, extensions
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Profile
from configtron.model.protocols import Driver
from configtron.model.tuning import Answers, Difference, Rules
from configtron.tune.drivers.bpf.layout import WRAPPED
from configtron.tune.drivers.open_connections import PrefixLookup, draws
from configtron.tune.drivers.pidfd_options import OpenClient, open_clients
from configtron.tune.drivers.socket_options import CONTROL

# Connections of one prefix that are compared; more would show the same.
MOST = 20
# LAST_INO_BATCH.
BATCH = 1024
# Inode numbers have 32 bits and wrap around.
_BATCHES = 2**32 // BATCH
# Of struct tcp_info (linux/tcp.h): congestion window, retransmitted segments, data segments sent.
_WINDOW = struct.Struct("=80xI16xI52xI")
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


def witness(driver: Driver, rules: Rules, newest: Sequence[int]) -> Answers:
    """Return how the settings of connections that are newer than these sockets differ from the rules."""
    try:
        if draws(driver):
            return Answers(note=DRAWN)
        asked = extensions(INFO, CONGESTION)
        found = [one for one in open_clients(driver.place, asked) if is_newer(one.inode, newest)]
    except (ConfigtronError, OSError) as error:
        return Answers(note=f"open connections were not looked at: {error}")
    lookup = PrefixLookup(rules if found else Rules())
    clients: dict[tuple[int, int, int], list[tuple[OpenClient, Profile]]] = {}
    for one in found:
        prefix, profile = lookup.find(one.address.packed)
        if profile and len(known := clients.setdefault(prefix, [])) < MOST:
            known.append((one, profile))
    broken, programs = list[Difference](), list[str]()
    for sample in clients.values():
        shown = [each for one, profile in sample for each in _compared(driver.name, one, profile)]
        reached = {each.knob for each in shown if each.applied == each.found}
        for each in (each for each in shown if each.applied != each.found):
            if each.knob in reached:
                text = f"{each.scope}: {each.knob} {each.found}, the rule says {each.applied}"
                programs.append(f"{text}: another program set it")
            else:
                broken.append(replace(each, found=f"{each.found}: {WHY}"))
    looked_at = sum(map(len, clients.values()))
    return Answers(0, 0, tuple(broken), tuple(programs), looked_at, "" if clients else UNSEEN)


def _compared(driver: str, one: OpenClient, profile: Profile) -> Iterator[Difference]:
    """Yield the profile's value and the connection's value of each setting that the connection shows."""
    wanted = dict(profile.settings)
    host = f"[{one.address}]" if one.address.version == 6 else one.address
    scope = f"{host}:{one.client_port} to port {one.port}"
    if CONTROL in wanted:
        name = one.shown[CONGESTION].rstrip(b"\0").decode()
        yield Difference(scope, CONTROL, str(wanted[CONTROL]), WRAPPED.get(name, name))
    window, repeated, sent = _WINDOW.unpack_from(one.shown[INFO])
    clamp = wanted.get("cwnd_clamp")
    if clamp is None and "initcwnd" in wanted and not repeated and not sent:
        yield Difference(scope, "initcwnd", str(wanted["initcwnd"]), str(window))
    # A window below the clamp shows nothing. With `route`, a client's first connection has no clamp yet.
    if clamp is not None and driver != "route" and window > int(str(clamp)):
        yield Difference(scope, "cwnd_clamp", str(clamp), str(window))
