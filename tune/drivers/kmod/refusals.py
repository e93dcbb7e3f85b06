# SPDX-License-Identifier: MIT
"""What the module and the kernel refuse the driver kmod, in words that name the next step."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Mapping

from configtron.tune.drivers.kmod.module_units import NEEDS_ECN

# Also where there is no checkout: an installed package has the module's sources.
LOAD_IT = f"run: {sys.executable} -m configtron.lab module, then insmod the file it names"
OTHER_MODULE = (
    "take its rules back (configtron tune rollback), unload it (rmmod configtron; kmod/README.md, if it is in use), and"
    f" load this version's: {LOAD_IT}"
)
# The module's errors for one setting; and for settings together, whose parameter it does not name. Any other error is a
# failure, no refusal.
OF_ONE = {
    errno.ENOENT: "the kernel has no congestion control of that name; is its module there? run: modprobe tcp_NAME",
    errno.ERANGE: "it is out of the module's range",
    errno.EPROTONOSUPPORT: NEEDS_ECN,
}
REFUSALS = OF_ONE | {
    errno.EINVAL: "the congestion control is the module's own name, or resume_cwnd came without resume_rtt",
    errno.EOPNOTSUPP: "the congestion control is made of BPF, or leaves no room for resume_cwnd or for"
    " tcp_slow_start_after_idle=0; use reno, cubic or vegas",
}
# What a default must be in, outside the first network namespace.
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"


def why_refused(error: OSError) -> str:
    """Return why the module did not take a setting."""
    number = error.errno or 0
    return REFUSALS.get(number) or os.strerror(number)


def remedy(name: str, error: OSError, ours: bool) -> str:
    """Return what to do where the kernel does not take a name as a namespace's default. ours: it is the module's."""
    if error.errno == errno.EPERM:
        return f'let other namespaces have it, in the first one: sysctl {ALLOWED}="$(sysctl -n {ALLOWED}) {name}"'
    if ours:
        return f"the module is not loaded; {LOAD_IT}"
    return f"is its module there? run: modprobe tcp_{name}"


def half_way(error: OSError, limits: Mapping[str, int]) -> str:
    """Return why a change ended half-way. limits: as the module's VERSION has them."""
    why = error.strerror
    if error.errno == errno.ENOSPC:
        most = f"{limits['profiles_max']} profiles and {limits['prefixes_max']} prefixes"
        why = f"a namespace has room for {most}; insmod's prefixes_max= sets the latter"
    return f"the module refused a change half-way ({why}); run: configtron tune rollback"
