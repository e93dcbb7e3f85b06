# SPDX-License-Identifier: MIT
"""Middleboxes in front of servers: rules for middlebox.bpf.c, by server address.

Question   What does a prober meet that is neither the server's program nor its kernel?
Method     A BPF program where packets enter and leave a pool's link looks up the server's address and drops, doubles,
           delays or writes over what its rule says. Another, at the vantages' links, leads a share of the connections
           to one address to a second server, as a load balancer does: by a hash of addresses and ports, so that a
           connection stays where it began.
Differs    from a commercial middlebox: it terminates no connection and makes no packets except copies.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from configtron.lab.internet import bpf
from configtron.linux.netns import inside
from configtron.model.errors import Missing

SOURCE = Path(__file__).with_name("middlebox.bpf.c")
# Beside a world's file, as the sock_ops program is.
OBJECT = "middlebox.o"
# struct rule and struct second_backend of middlebox.bpf.c.
RULE = struct.Struct("=IIIIIIHHHHHH")
SECOND_BACKEND = struct.Struct("=16sI")
# enum drop of middlebox.bpf.c.
DROPS = {"": 0, "syn": 1, "ack": 2, "request": 4}
# Packet limits of the qdisc and of one flow, so high that fq drops no delayed packet; no pacing (tc-fq(8)).
FQ = "fq limit 100000 flow_limit 20000 nopacing"


@dataclass(frozen=True, slots=True)
class MiddleboxRule:
    """The rule of a middlebox in front of one server. Zeros change nothing.

    drop              client packets that are dropped: "syn", the SYN; "ack", all others; "request", those with data
    loss_per_mille    packets lost by chance, each way
    late_per_mille    packets of the server held back for `late_ms`, by chance
    copy_ms           a copy of the SYN-ACK follows it after this delay
    step_ms           the n-th repeat of the SYN-ACK leaves n times this delay after the first SYN-ACK
    mss_least, _most  the MSS option of the client's SYN is raised to the one at least and lowered to the other at most
    rewrite           the SYN-ACK's `window`, its `ttl` (0: unchanged) and its options' order (`rotate`) are overwritten
    """

    drop: str = ""
    loss_per_mille: int = 0
    late_per_mille: int = 0
    late_ms: int = 0
    copy_ms: int = 0
    step_ms: int = 0
    mss_least: int = 0
    mss_most: int = 0
    rewrite: bool = False
    window: int = 0
    ttl: int = 0
    rotate: bool = False

    @property
    def delays(self) -> bool:
        """Return whether the rule needs a qdisc that holds packets until their departure time."""
        return bool(self.late_per_mille or self.copy_ms or self.step_ms)

    def packed(self) -> bytes:
        """Return the rule as bytes, struct rule of middlebox.bpf.c."""
        words = (self.loss_per_mille, self.late_per_mille, self.late_ms, self.copy_ms, self.step_ms)
        halves = (self.mss_least, self.mss_most, self.rewrite, self.window, self.ttl, self.rotate)
        return RULE.pack(DROPS[self.drop], *words, *halves)


@dataclass(frozen=True, slots=True)
class SecondBackend:
    """`percent` of the connections to `address` go to the server `other`, whose answers carry `address` as source."""

    address: str
    other: str
    percent: int


def load(built: Path, pins: Path) -> None:
    """Load and pin the programs with their maps."""
    bpf.load(built, pins / "programs", pins / "maps")


def fill(pins: Path, rules: Iterable[tuple[str, MiddleboxRule]], second_backends: Sequence[SecondBackend]) -> None:
    """Write rules by address, and second backends both ways, into the maps."""
    bpf.fill(pins / "maps" / "rules", {bpf.key(address): rule.packed() for address, rule in rules})
    pairs = [(bpf.key(each.address), bpf.key(each.other), each.percent) for each in second_backends]
    by_address = {address: SECOND_BACKEND.pack(other, percent) for address, other, percent in pairs}
    bpf.fill(pins / "maps" / "second_backends", by_address)
    # The map "asked": second backend -> the address that the client connected to.
    bpf.fill(pins / "maps" / "asked", {other: address for address, other, _ in pairs})


def attach(pins: Path, netns: str, interface: str, *, ingress: str, egress: str) -> None:
    """Attach one program to the interface's incoming packets and one to its outgoing ones; read both back."""
    with inside(netns):
        _tc("qdisc", "add", "dev", interface, "clsact")
        for way, program in (("ingress", ingress), ("egress", egress)):
            pinned = str(pins / "programs" / program)
            _tc("filter", "add", "dev", interface, way, "bpf", "direct-action", "object-pinned", pinned)
            if program not in _tc("filter", "show", "dev", interface, way):
                raise Missing(f"{netns or 'root'}: {interface} has no {program} on {way}")


def keep_departure_times(netns: str, interface: str) -> None:
    """Add a qdisc that sends each packet at its departure time (skb->tstamp), or at once if it has none."""
    with inside(netns):
        _tc("qdisc", "add", "dev", interface, "root", *FQ.split())
        if "nopacing" not in _tc("qdisc", "show", "dev", interface):
            raise Missing(f"{netns or 'root'}: {interface} has no fq")


def _tc(*arguments: str) -> str:
    """Return the command's output; its failure is an error."""
    done = subprocess.run(["tc", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"tc {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
