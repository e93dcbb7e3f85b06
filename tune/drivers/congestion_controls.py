# SPDX-License-Identifier: MIT
"""The congestion controls that there are: registered in this kernel, loadable as a module, or only in Linux.

Source     linux/net/ipv4/Kconfig and tcp_cong.c (6.12); a module is called tcp_NAME.ko
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from configtron.linux import netns
from configtron.model.congestion import OF_LINUX, OF_TABLE1
from configtron.tune.drivers.bpf.layout import WRAPPED

REGISTERED = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
# What a profile cannot ask for: our module's dispatcher, and our own wraps of the kernel's.
OURS = frozenset({"configtron", *WRAPPED})
_MODULES = Path("/lib/modules")
_MODULE = re.compile(r"/tcp_(\w+)\.ko")
# The whole host's settings: there in the first network namespace only (ipv4_table of net/ipv4/sysctl_net_ipv4.c).
_OF_THE_FIRST = Path("/proc/sys/net/ipv4/tcp_mem")


def registered() -> tuple[str, ...]:
    """Those that the running kernel has now."""
    return tuple(sorted(set(REGISTERED.read_text().split() if REGISTERED.exists() else ()) - OURS))


def loadable() -> tuple[str, ...]:
    """Those that are modules of the running kernel, loaded or not."""
    try:
        found = _MODULE.findall((_MODULES / os.uname().release / "modules.dep").read_text())
    except OSError:
        return ()
    return tuple(sorted(set(found) & set(OF_LINUX)))


def askable() -> tuple[str, ...]:
    """Those that a profile can ask for: what is registered, and of the paper's what a module would bring."""
    return tuple(sorted({*registered(), *(set(loadable()) & set(OF_TABLE1))}))


def writable(place: str) -> tuple[str, ...]:
    """Those that can be the default of a network namespace: all in the first, the allowed ones in any other."""
    with netns.inside(place):
        if _OF_THE_FIRST.exists():
            return tuple(sorted({*registered(), *loadable()}))
        allowed = set(ALLOWED.read_text().split()) if ALLOWED.exists() else set(registered())
    return tuple(name for name in registered() if name in allowed)


def unknown(name: str) -> tuple[str, str]:
    """(why nothing can have a congestion control of that name, what to mind about one that this kernel has not now)."""
    if name in registered():
        return "", ""
    if name in loadable():
        return "", f"{name} is not loaded in this kernel; run: modprobe tcp_{name}"
    have = f"it has {', '.join(registered())}"
    if more := sorted(set(loadable()) - set(registered())):
        have += f", and as modules {', '.join(more)}"
    if name in OF_LINUX:
        return "", f"this kernel has no {name} ({have}): the profile can be applied on another host only"
    return f"no congestion control is called {name!r} in this kernel ({have}) or in Linux", ""
