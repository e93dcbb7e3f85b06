# SPDX-License-Identifier: MIT
"""Settings of a whole network stack: what no address can have apart, because Linux keeps it by network namespace.

Question   Which TCP features does a site's kernel agree to, and how does it behave beside its timers?
Method     nginx runs once more in a namespace for each row; with impairments, its sites are dealt to them by share. The
           nameless row is Linux as it comes, where all other programs are, and nginx's other sites.
Source     Linux: Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

# The program that runs in every row's namespace: the one that most sites have.
PROGRAM = "nginx"
# tcp_fastopen: as client 1, as server 2, on every listening socket without being asked 0x400.
TFO_EVERYWHERE = str(0x1 | 0x2 | 0x400)


@dataclass(frozen=True, slots=True)
class StackSettings:
    """One namespace's settings.

    share     per cent of PROGRAM's sites; 0: only by an impairment that names it
    octet     of its servers' addresses, as PROGRAM_OCTET has for programs
    sysctls   under net/ipv4, over those that all server_pools have
    The rest  is what a client then finds.
    """

    name: str
    share: float
    octet: int
    sysctls: tuple[tuple[str, str], ...]
    timestamps: bool = True
    sack: bool = True
    scaling: bool = True
    ecn: bool = True
    tfo: bool = False
    slow_start_after_idle: bool = True
    cookies: bool = False


NAMED = (
    StackSettings("cookies", 0, 20, (("tcp_syncookies", "2"),), cookies=True),
    StackSettings("no-timestamps", 3, 21, (("tcp_timestamps", "0"),), timestamps=False),
    StackSettings("no-sack", 3, 22, (("tcp_sack", "0"),), sack=False),
    StackSettings(
        "bare",
        3,
        23,
        (("tcp_timestamps", "0"), ("tcp_sack", "0"), ("tcp_window_scaling", "0"), ("tcp_ecn", "0")),
        timestamps=False,
        sack=False,
        scaling=False,
        ecn=False,
    ),
    StackSettings("no-ecn", 4, 24, (("tcp_ecn", "0"),), ecn=False),
    StackSettings("tfo", 4, 25, (("tcp_fastopen", TFO_EVERYWHERE),), tfo=True),
    StackSettings("idle-kept", 6, 26, (("tcp_slow_start_after_idle", "0"),), slow_start_after_idle=False),
)
STACKS = {stack.name: stack for stack in (StackSettings("", 100 - sum(row.share for row in NAMED), 0, ()), *NAMED)}
