# SPDX-License-Identifier: MIT
"""What new connections of clients have, whatever the rules say: read from live sockets, nothing sent, nothing written.

Question   The rules read back as written; does a client get them?
Method     inet_diag lists accepted connections of the place with congestion control and window. The longest prefix of
           the rules says what each was to get. Only connections that were accepted after the rules came into force
           count. The kernel keeps no time of a connection, but numbers its sockets: `newest_sockets` notes the last
           number of each processor once all is in force.
Stop when  `MOST` connections of each prefix were compared.
Reads as   A prefix of which no connection has a setting is a difference: its clients do not get the rule. Where some
           have it, programs set the others (TCP_CONGESTION): each is named, and is none.
Fails as   Not seen: connections from before, one that an accept(2) waited for (its number was taken by then), settings
           that inet_diag does not show, initcwnd once data were sent, and all while the kernel draws. A connection that
           waited to be accepted while the rules came into force counts as one from after.
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

# Of a prefix; more of them would show the same.
MOST = 20
# LAST_INO_BATCH.
BATCH = 1024
# The numbers have 32 bits and begin anew.
_BATCHES = 2**32 // BATCH
# Of struct tcp_info (linux/tcp.h): window, segments sent again, segments sent with data.
_WINDOW = struct.Struct("=80xI16xI52xI")
UNSEEN = "no connection of a client of these rules to look at"
DRAWN = "the kernel draws clients' profiles; no connection was looked at"
WHY = "another program set it, or the rule did not reach it"


def newest_sockets() -> Sequence[int]:
    """Return the number (inode) of a new socket on each processor.

    Where a process may not choose its processor, of one that begins a batch: then newer sockets that come from an
    earlier batch count as older.
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
    """Return what connections show that are newer than these sockets: how clients' settings differ from the rules."""
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
        shown = [each for one, profile in sample for each in _shown(driver.name, one, profile)]
        reached = {each.knob for each in shown if each.applied == each.found}
        for each in (each for each in shown if each.applied != each.found):
            if each.knob in reached:
                text = f"{each.scope}: {each.knob} {each.found}, the rule says {each.applied}"
                programs.append(f"{text}: another program set it")
            else:
                broken.append(replace(each, found=f"{each.found}: {WHY}"))
    looked_at = sum(map(len, clients.values()))
    return Answers(0, 0, tuple(broken), tuple(programs), looked_at, "" if clients else UNSEEN)


def _shown(driver: str, one: OpenClient, profile: Profile) -> Iterator[Difference]:
    """Yield of each setting that a connection shows: what the profile says, and what is there."""
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
    # A smaller window shows nothing; by `route` a client's first connection has none.
    if clamp is not None and driver != "route" and window > int(str(clamp)):
        yield Difference(scope, "cwnd_clamp", str(clamp), str(window))
