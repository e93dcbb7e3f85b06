# SPDX-License-Identifier: MIT
"""Network namespaces, links and routes of the laboratory, each setting read back.

Everything is done in this process by system calls where a command would cost a fork: a guest raises two dozen links.
"""

from __future__ import annotations

import array
import errno
import fcntl
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from configtron.linux import qdisc
from configtron.linux.netns import inside
from configtron.linux.proc import LISTENING, tcp_lines
from configtron.linux.qdisc import Qdiscs, differences
from configtron.model.errors import Missing

SIOCETHTOOL = 0x8946
# <linux/ethtool.h>: feature -> (command that reads, command that sets). Receive first: sending without checksums
# switches segmentation off by itself.
OFFLOADS = {"rx": (0x14, 0x15), "gro": (0x2B, 0x2C), "gso": (0x23, 0x24), "tso": (0x1E, 0x1F), "tx": (0x16, 0x17)}

# A table of delays as netem draws from it: entries are shares of the jitter, NETEM_DIST_SCALE being the whole of it.
# With so many entries a share of packets is exact to a hundredth of a per cent (at most NETEM_DIST_MAX, 16384).
NETEM_DIST_SCALE, DIST_ENTRIES = 8192, 10_000
# What is reordered comes later by an eighth of this, up to all of it: so far apart are two paths of one load balancer.
REORDERED_LATE_MS, REORDERED_LEAST = 20.0, 1 / 8


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
    more = {"duplicate": doubled} if (doubled := round(duplicate_percent / 100 * 0xFFFFFFFF)) else {}
    if reorder_percent:
        more["jitter_ns"] = round(REORDERED_LATE_MS * 1e6)
    wanted = qdisc.netem(
        delay_ms=delay_ms,
        seed=splitmix64(seed),
        loss=loss_percent / 100,
        more=more,
        delays=late_shares(reorder_percent) if reorder_percent else (),
    )
    qdiscs = Qdiscs(netns)
    try:
        qdiscs.put({interface: [wanted]})
        wrong = differences([wanted], qdiscs.read()[interface])
    finally:
        qdiscs.close()
    if wrong:
        raise Missing(f"{netns or 'root'}: {interface}: {'; '.join(wrong)}")


def late_shares(percent: float) -> list[int]:
    """netem's table of delays: that share of packets is late, evenly from `REORDERED_LEAST` to all of the jitter."""
    late = max(round(DIST_ENTRIES * percent / 100), 1)
    step = (1 - REORDERED_LEAST) / max(late - 1, 1)
    shares = [round(NETEM_DIST_SCALE * (REORDERED_LEAST + n * step)) for n in range(late)]
    return shares + [0] * (DIST_ENTRIES - late)


def splitmix64(seed: int) -> int:
    """Return a seed spread over 64 bits (Steele, Lea, Flood 2014)."""
    mask = (1 << 64) - 1
    mixed = (seed + 0x9E3779B97F4A7C15) & mask
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
    return mixed ^ (mixed >> 31)


def listens(netns: str, port: int) -> bool:
    """Return whether a TCP socket listens on that port in the namespace."""
    return any(line.state == LISTENING and line.port == port for line in tcp_lines(netns))
