# SPDX-License-Identifier: MIT
"""Keeping the kernel out of our conversations.

The kernel knows nothing of our flows: to it, a SYN-ACK for us is a mistake that it answers with a RST, which would end
the measurement. Two ways to keep it quiet, tried in this order:

Unowned   The source address belongs to no kernel in the vantage's namespace, so that packets to it are none of its
          business. Nothing is changed; it is only verified. So it is in namespaces that configtron made; elsewhere an
          address that is not configured is another host's (`vantage_address.py`).
Table     The address is the host's. One nft table of our own, `configtron_<pid>_<start>`, drops outgoing RSTs that
          leave from our port range and do not carry our mark. Our own RSTs carry it. The range must lie outside the
          kernel's ephemeral one (net.ipv4.ip_local_port_range), so that no ordinary connection can be using it; no
          sysctl is changed.

The table goes on every exit path that Python sees; a killed process leaves it, and the next start sweeps the tables
whose owner is dead. Neither possible: refuse. Nothing else is ever changed, and nothing is ever flushed.
"""

from __future__ import annotations

import subprocess
from itertools import count
from pathlib import Path

from configtron.linux.netns import inside
from configtron.model.errors import BadInput, Missing
from configtron.model.nouns import Vantage
from configtron.probe.wire.live import MARK
from configtron.probe.wire.namespaces import abandoned, addresses, owner

_serial = count()


class Isolation:
    """The kernel kept quiet towards one vantage's flows, until `close`."""

    def __init__(self, vantage: Vantage, ports: range) -> None:
        self._netns = vantage.netns
        self._table = ""
        owned = addresses(vantage.netns)
        mine = [a for a in (vantage.source_address, vantage.source_address6) if a]
        if not mine and vantage.interface:
            raise BadInput(f"vantage {vantage.name!r} has no source_address; name one")
        # Without an interface and an address of its own, a vantage uses the kernel's: those of the routes.
        if mine and not any(a in owned for a in mine):
            self._refuse_forwarding(vantage)
            return
        self._refuse_ephemeral(ports)
        sweep_tables(vantage.netns)
        self._table = f"configtron_{owner().replace('-', '_')}_{next(_serial)}"
        _nft(self._netns, rules(self._table, ports))

    def close(self) -> None:
        """Take the table away, if there is one."""
        table, self._table = self._table, ""
        if table:
            _nft(self._netns, f"delete table inet {table}")

    @staticmethod
    def _refuse_forwarding(vantage: Vantage) -> None:
        device = vantage.interface or "all"
        with inside(vantage.netns):
            if not Path("/proc/sys/net/ipv4/conf", device).exists():
                raise BadInput(f"vantage {vantage.name!r}: there is no interface {device!r}; `ip link` lists them")
        wanted = (("ipv4", vantage.source_address), ("ipv6", vantage.source_address6))
        for name in (f"net/{family}/conf/{device}/forwarding" for family, address in wanted if address):
            with inside(vantage.netns):
                forwards = _sysctl(name) == "1"
            if forwards:
                raise Missing(
                    f"vantage {vantage.name!r}: its namespace forwards packets, so the kernel would send those for"
                    f" our address on; there: sysctl -w {name.replace('/', '.')}=0"
                )

    def _refuse_ephemeral(self, ports: range) -> None:
        with inside(self._netns):
            low, high = (int(n) for n in _sysctl("net/ipv4/ip_local_port_range").split())
        if ports.start <= high and ports.stop > low:
            raise BadInput(
                f"source ports {ports.start}-{ports.stop - 1} overlap the kernel's own {low}-{high};"
                f" choose a range outside, such as {max(1024, low - 20000)}-{low - 1}"
            )


def rules(table: str, ports: range) -> str:
    """Return the one table: outgoing RSTs from our port range that are not ours go nowhere."""
    return (
        f"table inet {table} {{ chain quiet {{ type filter hook output priority 0; policy accept;"
        f" tcp sport {ports.start}-{ports.stop - 1} tcp flags & rst == rst meta mark != {MARK} drop; }}; }}"
    )


def check_table(netns: str, ports: range) -> None:
    """Try the table without making it. Errors: `Missing`."""
    _nft(netns, rules("configtron_check", ports), "--check")


def sweep_tables(netns: str) -> list[str]:
    """Delete the tables that dead processes left in a namespace; their names."""
    listed = [line.split() for line in _nft(netns, "list tables inet").splitlines()]
    left = [words[-1] for words in listed if words and abandoned(words[-1])]
    for table in left:
        # Added first: another start may have swept it meanwhile, and what is absent cannot be deleted.
        _nft(netns, f"add table inet {table}\ndelete table inet {table}")
    return left


def _sysctl(name: str) -> str:
    return Path("/proc/sys", name).read_text().strip()


def _nft(netns: str, script: str, *options: str) -> str:
    try:
        with inside(netns):
            command = ["nft", *options, "-f", "-"]
            done = subprocess.run(command, input=script + "\n", capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Missing(
            "`nft` is absent; without it the kernel of this host resets probes of its own addresses;"
            " run: apt-get install nftables"
        ) from None
    if done.returncode:
        raise Missing(f"nft: {done.stderr.strip()}; to keep the kernel's RSTs back it needs CAP_NET_ADMIN: run as root")
    return done.stdout
