# SPDX-License-Identifier: MIT
"""Network namespaces, links and routes of the laboratory, each setting read back.

Everything is done in this process by system calls where a command would cost a fork: a guest raises two dozen links.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from configtron.linux.netns import inside
from configtron.model.errors import Missing

SIOCETHTOOL = 0x8946
# <linux/ethtool.h>: feature -> (command that reads, command that sets). Receive first: sending without checksums
# switches segmentation off by itself.
OFFLOADS = {"rx": (0x14, 0x15), "gro": (0x2B, 0x2C), "gso": (0x23, 0x24), "tso": (0x1E, 0x1F), "tx": (0x16, 0x17)}

# <linux/rtnetlink.h>, <linux/pkt_sched.h>.
RTM_NEWQDISC, NLMSG_ERROR = 36, 2
NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_CREATE = 1, 4, 0x100, 0x400
TC_H_ROOT = 0xFFFFFFFF
TCA_KIND, TCA_OPTIONS, TCA_NETEM_DELAY_DIST = 1, 2, 2
TCA_NETEM_LATENCY64, TCA_NETEM_JITTER64, TCA_NETEM_PRNG_SEED = 10, 11, 14
# A table of delays as netem draws from it: entries are shares of the jitter, NETEM_DIST_SCALE being the whole of it.
# With so many entries a share of packets is exact to a hundredth of a per cent (at most NETEM_DIST_MAX, 16384).
NETEM_DIST_SCALE, DIST_ENTRIES = 8192, 10_000
# What is reordered comes later by an eighth of this, up to all of it: so far apart are two paths of one load balancer.
REORDERED_LATE_MS, REORDERED_LEAST = 20.0, 1 / 8
# Packets under way at once on the longest link (0.2 s) at 500 Mbit/s of full segments; netem drops beyond its limit.
NETEM_LIMIT_PACKETS = 100_000


def ip(netns: str, commands: Sequence[str]) -> None:
    """A batch of iproute2 commands inside that namespace, all or an error."""
    _batch(["ip"], netns, commands)


def ip6(netns: str, commands: Sequence[str]) -> None:
    """The same, about IPv6 where a command does not say."""
    _batch(["ip", "-6"], netns, commands)


def _batch(program: list[str], netns: str, commands: Sequence[str]) -> None:
    prefix = [*program, "-netns", netns] if netns else program
    done = subprocess.run([*prefix, "-batch", "-"], input="\n".join(commands), capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"ip ({netns or 'root'}): {done.stderr.strip()}")


def sysctl(netns: str, settings: Sequence[tuple[str, str]]) -> None:
    """Write /proc/sys/NAME for each (name, value) inside the namespace; what reads back otherwise is an error."""
    with inside(netns):
        for name, wanted in settings:
            path = Path("/proc/sys") / name
            try:
                path.write_text(wanted)
                found = " ".join(path.read_text().split())
            except OSError as error:
                raise Missing(f"{netns or 'root'}: {name} = {wanted}: {error.strerror}") from error
            if found != wanted:
                raise Missing(f"{netns or 'root'}: {name} is {found!r} although {wanted!r} was written")


def without_offloads(netns: str, interface: str) -> None:
    """Packets on this interface are what TCP made: nothing merged, split or left for hardware."""
    with inside(netns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for _, write in OFFLOADS.values():
            _ethtool(control, interface, write, 0)
        on = [name for name, (read, _) in OFFLOADS.items() if _ethtool(control, interface, read, 0)]
    if on:
        raise Missing(f"{netns or 'root'}: {interface} keeps the offloads {', '.join(on)}")


def _ethtool(control: socket.socket, interface: str, command: int, value: int) -> int:
    """struct ethtool_value through struct ifreq."""
    data = array.array("I", [command, value])
    request = struct.pack("16sP16x", interface.encode(), data.buffer_info()[0])
    try:
        fcntl.ioctl(control, SIOCETHTOOL, request)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise Missing(f"{interface}: ethtool command {command:#x}: {error}") from error
        return 0
    return data[1]


def netem(
    netns: str,
    interface: str,
    *,
    delay_ms: float,
    loss_percent: float = 0.0,
    reorder_percent: float = 0.0,
    duplicate_percent: float = 0.0,
    seed: int,
) -> None:
    """Delay, lose, double and reorder what leaves by this interface; the seed is that of netem's own chance.

    What is reordered comes up to `REORDERED_LATE_MS` later and what follows overtakes it, so no packet is faster than
    the path (netem's own "gap" sends what it reorders without any delay). A duplicate comes with its original.
    By netlink, because iproute2 6.1 cannot hand over a seed. Small seeds are hashed first: the generator's first
    numbers after one are near zero, so that every run would lose an early packet.
    """
    lost, doubled = (round(percent / 100 * 0xFFFFFFFF) for percent in (loss_percent, duplicate_percent))
    # struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter
    options = struct.pack("=IIIIII", 0, NETEM_LIMIT_PACKETS, lost, 0, doubled, 0)
    options += _attribute(TCA_NETEM_LATENCY64, struct.pack("=q", round(delay_ms * 1e6)))
    if reorder_percent:
        options += _attribute(TCA_NETEM_JITTER64, struct.pack("=q", round(REORDERED_LATE_MS * 1e6)))
        options += _attribute(TCA_NETEM_DELAY_DIST, struct.pack(f"={DIST_ENTRIES}h", *late_shares(reorder_percent)))
    options += _attribute(TCA_NETEM_PRNG_SEED, struct.pack("=Q", splitmix64(seed)))
    with inside(netns), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        # struct tcmsg: family, interface, handle 1:, parent
        body = struct.pack("=BxxxiIII", 0, socket.if_nametoindex(interface), 1 << 16, TC_H_ROOT, 0)
        body += _attribute(TCA_KIND, b"netem\0") + _attribute(TCA_OPTIONS, options)
        flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
        netlink.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, flags, 1, 0) + body)
        answer = netlink.recv(65536)
    _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", answer)
    if kind != NLMSG_ERROR or code:
        raise Missing(f"{netns or 'root'}: no netem on {interface}: {os.strerror(-code)}")
    shown = subprocess.run(
        ["tc", *(["-netns", netns] if netns else []), "qdisc", "show", "dev", interface], capture_output=True, text=True
    ).stdout
    late = f"{delay_ms:g}ms  {REORDERED_LATE_MS:g}ms"
    wanted = {
        f"limit {NETEM_LIMIT_PACKETS} delay {delay_ms:g}ms": True,
        late: reorder_percent > 0,
        "loss": lost > 0,
        "duplicate": doubled > 0,
    }
    if any((words in shown) != there for words, there in wanted.items()):
        raise Missing(f"{netns or 'root'}: {interface} shows {shown.strip()!r} instead of netem with {delay_ms:g} ms")


def late_shares(percent: float) -> list[int]:
    """netem's table of delays: that share of packets is late, evenly from `REORDERED_LEAST` to all of the jitter."""
    late = max(round(DIST_ENTRIES * percent / 100), 1)
    step = (1 - REORDERED_LEAST) / max(late - 1, 1)
    shares = [round(NETEM_DIST_SCALE * (REORDERED_LEAST + n * step)) for n in range(late)]
    return shares + [0] * (DIST_ENTRIES - late)


def splitmix64(seed: int) -> int:
    """A seed spread over 64 bits (Steele, Lea, Flood 2014)."""
    mask = (1 << 64) - 1
    mixed = (seed + 0x9E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return mixed ^ (mixed >> 31)


def _attribute(kind: int, body: bytes) -> bytes:
    """struct rtattr, padded to four bytes."""
    return struct.pack("=HH", 4 + len(body), kind) + body + bytes(-len(body) % 4)


def listens(netns: str, port: int) -> bool:
    """Whether a TCP socket listens on that port in the namespace."""
    with inside(netns):
        tables = [Path("/proc/thread-self/net") / name for name in ("tcp", "tcp6")]
        rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    # columns: slot, local address:port, remote address:port, state (0A is LISTEN)
    return any(row[3] == "0A" and int(row[1].rsplit(":", 1)[1], 16) == port for row in rows)
