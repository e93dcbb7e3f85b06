# SPDX-License-Identifier: MIT
"""Check what probing and the lab need of this host. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable

from configtron.lab.uml.enclosure import cannot_enclose, missing
from configtron.lab.uml.kernel import absent_for, is_whole, kernel_folder
from configtron.lab.uml.recipes import LAB
from configtron.linux.privileges import in_child, trace_me
from configtron.model.checks import GREEN, NOT_HERE, Check, check_of
from configtron.model.errors import ConfigtronError
from configtron.model.nouns import Vantage
from configtron.probe.wire.isolation import check_table
from configtron.probe.wire.live import VantageSockets
from configtron.probe.wire.sourceports import PORTS

LOOPBACK = Vantage("doctor", "", interface="lo", source_address="127.0.0.1")
PTRACE = "in a container: --cap-add SYS_PTRACE; on a host: sysctl -w kernel.yama.ptrace_scope=1"


def probe_checks() -> list[Check]:
    """Try raw sockets with a capture filter, and the firewall rule that drops the kernel's resets."""
    return [
        _tried("raw sockets and capture", "can be opened", lambda: VantageSockets(LOOPBACK, PORTS).close()),
        _tried("nftables", "the table can be made", lambda: check_table("", PORTS)),
    ]


def _tried(check: str, good: str, action: Callable[[], None]) -> Check:
    try:
        action()
    except ConfigtronError as error:
        return check_of("probe", check, str(error))
    return Check("probe", check, GREEN, good)


def lab_checks() -> list[Check]:
    """Check what the lab needs; nothing else needs it, so a lack is not red."""
    ptrace = in_child(trace_me)
    return [
        _lab("namespaces, mounts, programs", cannot_enclose(), "can be made"),
        Check("lab", "ptrace", NOT_HERE, ptrace, PTRACE) if ptrace else Check("lab", "ptrace", GREEN, "is allowed"),
        _kernel_check(),
    ]


def _lab(check: str, lack: str, good: str) -> Check:
    return check_of("lab", check, lack, NOT_HERE) if lack else Check("lab", check, GREEN, good)


def _kernel_check() -> Check:
    if is_whole(kernel_folder()):
        return Check("lab", "kernel", GREEN, f"built: {kernel_folder()}")
    lack = missing(absent_for(LAB))
    return _lab(
        "kernel", lack and f"the lab's is not built: packages {lack}", "the first run of the lab builds it, in minutes"
    )
