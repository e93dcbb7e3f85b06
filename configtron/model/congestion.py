# SPDX-License-Identifier: MIT
"""Congestion controls of Linux: one row each; everything that lists them reads this table or is checked against it.

Columns of a row:
kconfig   the kernel option CONFIG_TCP_CONG_...; "" for reno, which is always built in
table1    its place in CT Table 1's list of values, from 1; 0: the papers do not set it
fair      it shares a queue with cubic as cubic does with itself, or yields to it (the guard of `tune`)

Source     linux/net/ipv4/Kconfig and tcp_*.c (6.12); a module is called tcp_NAME.ko. Fair: RFC 9438 section 5.1 (reno);
           Mo and others, INFOCOM 1999 (vegas)
"""

from __future__ import annotations

from typing import NamedTuple


class Congestion(NamedTuple):
    """A congestion control by the name that TCP_CONGESTION takes."""

    name: str
    kconfig: str
    table1: int = 0
    fair: bool = False


CONGESTION_CONTROLS: tuple[Congestion, ...] = (
    Congestion("reno", "", table1=2, fair=True),
    Congestion("bic", "BIC"),
    Congestion("cubic", "CUBIC", table1=1, fair=True),
    Congestion("westwood", "WESTWOOD"),
    Congestion("htcp", "HTCP"),
    Congestion("highspeed", "HSTCP"),
    Congestion("hybla", "HYBLA"),
    Congestion("vegas", "VEGAS", table1=3, fair=True),
    Congestion("nv", "NV"),
    Congestion("scalable", "SCALABLE"),
    Congestion("lp", "LP"),
    Congestion("veno", "VENO"),
    Congestion("yeah", "YEAH"),
    Congestion("illinois", "ILLINOIS"),
    Congestion("dctcp", "DCTCP"),
    Congestion("cdg", "CDG"),
    Congestion("bbr", "BBR", table1=4),
)

OF_LINUX: tuple[str, ...] = tuple(row.name for row in CONGESTION_CONTROLS)
# CT Table 1, in its order.
OF_TABLE1: tuple[str, ...] = tuple(
    row.name for row in sorted(CONGESTION_CONTROLS, key=lambda row: row.table1) if row.table1
)
FAIR: frozenset[str] = frozenset(row.name for row in CONGESTION_CONTROLS if row.fair)
# Those of them that Debian's kernels have as modules: reno and cubic are built in.
TABLE1_MODULES: tuple[str, ...] = tuple(sorted(f"tcp_{name}" for name in OF_TABLE1 if name not in ("reno", "cubic")))
